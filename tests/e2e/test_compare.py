#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The judge is judged: compare.py on made-up captures and listings, most of them wrong in one place."""
import base64
import copy
import unittest
import zlib

from compare import ALWAYS_BLOCKED, BLOCKED_IN, CROWD, Comparison, Malformed, parse_truth

SCHED = 0xffff800009000000
TEXT = 0xffff800008000000
PRINTER, SPIN_USER, SPIN_KERNEL, KWORKER, SPINNERS_TGID = 300, 201, 202, 50, 200


def frame(symbol, offset=0x10, size=0x80, module=None):
    return {'address': hex(TEXT + offset), 'symbol': symbol, 'offset': offset, 'size': size, 'module': module}


def sched_frame(symbol):
    return {'address': hex(SCHED + 0x10), 'symbol': symbol, 'offset': 0x10, 'size': 0x80, 'module': None, 'sched': True}


class World:
    """A guest of threads that wait, one kworker, two spinners and a printer; and a true capture of it."""

    def __init__(self):
        self.t1, self.threads = {}, {}
        self.crowd, self.registers = (0, 0), True
        for i, name in enumerate(ALWAYS_BLOCKED):
            state = {'w_zombie': 'Z', 'w_stopped': 'T'}.get(name, 'S')
            stack = [] if state == 'Z' else [(BLOCKED_IN.get(name, 'do_sys_poll'), 0x64, 0xd0, None),
                                             ('invoke_syscall', 0x68, 0xe0, None)]
            self.add(100 + i, 100 + i, 99, name, state, stack)
        self.add(11, 11, 2, 'rcu_tasks_rude_kthread', 'I', [('rcu_tasks_kthread', 0x8c, 0x3f0, None)], flags=0x200040)
        self.add(KWORKER, KWORKER, 2, 'kworker/0:1-events', 'I', [('worker_thread', 0x8c, 0x3f0, None),
                                                                 ('poll_virtio', 0x8, 0x40, 'virtio_net')],
                 flags=0x4208060)
        self.add(SPINNERS_TGID, SPINNERS_TGID, 1, 'w_spin', 'S', [('do_sys_poll', 0x64, 0xd0, None)])
        self.add(SPINNERS_TGID, SPIN_USER, 1, 'w_spin_user', 'R', [], vcpu=1)
        self.add(SPINNERS_TGID, SPIN_KERNEL, 1, 'w_spin_kernel', 'R', [('0xffff000008104100', None, None, None)], vcpu=2)
        self.add(PRINTER, PRINTER, 1, 'workload', 'R', [('proc_pid_stack', 0x1, 0x2, None)], captured_state='S')
        self.t2 = copy.deepcopy(self.t1)
        self.threads[SPIN_KERNEL]['kernel_backtrace'] = [frame('__arch_clear_user'), frame('__arm64_sys_pread64'),
                                                        frame('invoke_syscall', 0x68, 0xe0)]
        self.threads[PRINTER]['kernel_backtrace'] = [sched_frame('schedule'), frame('n_tty_read')]
        self.ppid = {tgid: t['ppid'] for tgid, t in self.t1.items()}
        self.document = {
            'capture': {'complete': True, 'missing': []},
            'vcpus': [{'vcpu': i, 'cluster': i // 2, 'current': None} for i in range(4)],
            'tasks': []}
        for cpu, tid in ((1, SPIN_USER), (2, SPIN_KERNEL)):
            self.document['vcpus'][cpu]['current'] = {'pid': SPINNERS_TGID, 'tid': tid, 'comm': 'x'}
        self.regroup()

    def add(self, tgid, tid, ppid, comm, state, stack, vcpu=None, captured_state=None, flags=0x400040):
        self.t1[tid] = {'tgid': tgid, 'ppid': ppid, 'comm': comm, 'state': state, 'stack': stack, 'start': 7, 'flags': flags,
                        'before': (10, 2), 'after': (10, 2)}
        frames = [sched_frame('__switch_to'), sched_frame('schedule')] if state in 'SIT' and not vcpu else []
        frames += [frame(*f) for f in stack if f[1] is not None]
        self.threads[tid] = {'tid': tid, 'tgid': tgid, 'comm': comm.split('-')[0][:15], 'state': captured_state or state,
                             'flags': flags, 'kernel_thread': bool(flags & 0x200000), 'priority': {'prio': 120},
                             'start_boottime_ns': 79_999_999, 'vcpu': vcpu, 'cpu': vcpu or 0, 'context_switches': {'voluntary': 10, 'involuntary': 2},
                             'kernel_backtrace': frames}

    def add_crowd(self):
        """Two processes of two threads."""
        self.crowd = (2, 2)
        for tgid in (400, 402):
            for tid, name in ((tgid, CROWD), (tgid + 1, 'w_poll')):
                self.add(tgid, tid, 99, name, 'S', [(BLOCKED_IN.get(name, 'do_nanosleep'), 0x64, 0xd0, None)])
                self.t2[tid] = copy.deepcopy(self.t1[tid])
            self.ppid[tgid] = 99
        self.regroup()

    def add_module(self, symbol='vsock_accept', module='vsock'):
        """A process that waits in a module, as the guest and the capture say."""
        self.add(410, 410, 99, 'w_module', 'S', [(symbol, 0xe8, 0x3c0, module), ('do_accept', 0x138, 0x1b0, None)])
        self.t2[410] = copy.deepcopy(self.t1[410])
        self.ppid[410] = 99
        self.regroup()

    def take_registers_away(self):
        self.registers = False
        for tid in (SPIN_USER, SPIN_KERNEL):
            self.threads[tid].update(vcpu=None, kernel_backtrace=[])
        self.document['vcpus'] = []
        self.document['capture'] = {'complete': False, 'missing': [
            {'what': 'stack', 'count': 1, 'pid': SPINNERS_TGID, 'tid': tid, 'address': '0x0',
             'reason': 'kernel stack ends after 0 frames: it runs, and its registers are not known'}
            for tid in (SPIN_USER, SPIN_KERNEL)]}

    def regroup(self):
        """Tasks out of self.threads."""
        self.document['tasks'] = [
            {'pid': tgid, 'ppid': self.ppid[tgid], 'comm': self.threads[tgid]['comm'] if tgid in self.threads else '',
             'threads': [t for t in self.threads.values() if t['tgid'] == tgid]}
            for tgid in sorted({t['tgid'] for t in self.threads.values()})]

    def listing(self, name, threads):
        lines = [f'TRUTH BEGIN {name}', 'U 6.1.0-test', f'K __sched_text_start {SCHED:#x}',
                 f'K __sched_text_end {SCHED + 0x1000:#x}', f'P {PRINTER} {PRINTER}',
                 f'S w_spin_user {SPINNERS_TGID} 1', f'S w_spin_kernel {SPINNERS_TGID} 2', 'C %d %d' % self.crowd]
        for tid, t in threads.items():
            rest = ' '.join(['0'] * 4 + [str(t['flags'])] + ['0'] * 8 + ['20', '0', '1', '0', str(t['start'])])
            switches = ' '.join(str(n) for n in (*t['before'], *t['after']))
            lines += [f'T {t["tgid"]} {tid}', f'stat {tid} ({t["comm"]}) {t["state"]} {t["ppid"]} {rest} 0',
                      f'comm {t["comm"]}', f'switches {switches}']
            for symbol, offset, size, module in t['stack']:
                place = f'{symbol}+{offset:#x}/{size:#x}' if offset is not None else symbol
                lines.append(f'[<0>] {place}' + (f' [{module}]' if module else ''))
            lines.append('.')
        return '\n'.join(lines + [f'TRUTH END {name}', ''])

    def failed(self):
        """The sentences of the checks that fail, and all that was printed."""
        console = 'noise\r\n' + (self.listing('a', self.t1) + self.listing('b', self.t2)).replace('\n', '\r\n')
        lines = []
        ok = Comparison(self.document, parse_truth(console, 'a'), parse_truth(console, 'b'), 4, 2, self.registers,
                        lines.append).run()
        failed = [line.split(' - ')[1] for line in lines if line.startswith('not ok')]
        assert ok == (not failed)
        return failed, '\n'.join(lines)


class CompareTest(unittest.TestCase):
    def setUp(self):
        self.w = World()

    def expect(self, *fragments):
        """Exactly the checks whose sentences begin like this fail."""
        failed, text = self.w.failed()
        self.assertEqual(len(failed), len(fragments), text)
        for sentence, fragment in zip(failed, fragments):
            self.assertTrue(sentence.startswith(fragment), f'{sentence}: wanted {fragment}\n{text}')
        return text

    def tid(self, name):
        return next(tid for tid, t in self.w.threads.items() if t['comm'] == name)

    def thread(self, name):
        return self.w.threads[self.tid(name)]

    def test_true_capture_passes(self):
        text = self.expect()
        self.assertIn(f'{len(ALWAYS_BLOCKED) + 3} stacks', text)

    # presence

    def test_missing_thread_fails(self):
        del self.w.threads[KWORKER]
        self.w.regroup()
        self.expect('capture and guest have the same threads')

    def test_thread_the_guest_does_not_know_fails(self):
        self.w.threads[777] = dict(copy.deepcopy(self.thread('w_pipe')), tid=777, tgid=777)
        self.w.ppid[777] = 1
        self.w.regroup()
        self.expect('capture and guest have the same threads')

    def test_thread_in_twice_fails(self):
        self.w.document['tasks'].append(self.w.document['tasks'][0])
        self.expect('no thread is in the capture twice')

    def test_thread_that_came_or_went_may_be_missing(self):
        for where in ('t1', 't2'):
            self.w = World()
            del getattr(self.w, where)[KWORKER]
            del self.w.threads[KWORKER]
            self.w.regroup()
            self.assertIn('came' if where == 't1' else 'went', self.expect())

    def test_thread_that_came_or_went_may_be_there(self):
        for where in ('t1', 't2'):
            self.w = World()
            del getattr(self.w, where)[KWORKER]
            self.expect()

    def test_thread_number_used_twice_may_be_missing(self):
        self.w.t2[KWORKER]['start'] = 8
        del self.w.threads[KWORKER]
        self.w.regroup()
        self.expect()

    # identity

    def test_wrong_name_fails(self):
        self.thread('w_pipe')['comm'] = 'w_pope'
        self.w.regroup()
        self.expect('pid, ppid and name', 'the workload waits')

    def test_wrong_parent_fails(self):
        self.w.ppid[self.tid('w_pipe')] = 4
        self.w.regroup()
        self.expect('pid, ppid and name')

    def test_thread_in_the_wrong_process_fails(self):
        self.thread('w_pipe')['tgid'] = self.tid('w_poll')
        self.w.regroup()
        self.expect('pid, ppid and name')

    def test_task_named_unlike_its_first_thread_fails(self):
        self.w.document['tasks'][0]['comm'] = 'other'
        self.expect('pid, ppid and name')

    def test_rescuers_have_their_whole_name(self):
        for t in (self.w.t1, self.w.t2):
            t[11]['comm'] = 'kworker/R-rcu_gp'
        self.w.threads[11]['comm'] = 'kworker/R-rcu_g'
        self.w.regroup()
        self.expect()
        self.w.threads[11]['comm'] = 'kworker/R'
        self.w.regroup()
        self.expect('pid, ppid and name')

    def test_wrong_flags_fail(self):
        self.w.threads[KWORKER]['flags'] ^= 4
        self.expect('flags, priority')

    def test_wrong_priority_fails(self):
        self.w.threads[KWORKER]['priority'] = {'prio': 121}
        self.expect('flags, priority')

    def test_wrong_start_time_fails(self):
        self.w.threads[KWORKER]['start_boottime_ns'] += 1
        self.expect('flags, priority')

    def test_user_thread_called_a_kernel_thread_fails(self):
        self.thread('w_pipe')['kernel_thread'] = True
        self.expect('flags, priority')

    # states and counts

    def test_wrong_state_fails(self):
        self.thread('w_pipe')['state'] = 'D'
        self.expect('thread states')

    def test_runnable_without_having_run_fails(self):
        self.thread('w_pipe')['state'] = 'R'
        self.expect('thread states')

    def test_runnable_is_allowed_once_it_ran(self):
        self.w.threads[KWORKER]['state'] = 'R'
        self.w.t2[KWORKER]['before'] = self.w.t2[KWORKER]['after'] = (11, 2)
        self.expect()

    def test_switches_below_the_first_listing_fail(self):
        self.w.threads[KWORKER]['context_switches']['voluntary'] = 9
        self.expect('context switch counts')

    def test_switches_above_the_second_listing_fail(self):
        self.w.threads[KWORKER]['context_switches']['involuntary'] = 3
        self.expect('context switch counts')

    # stacks

    def break_stack(self, tid, change, *others):
        change([f for f in self.w.threads[tid]['kernel_backtrace'] if not f.get('sched')])
        self.expect('kernel stacks', *others)

    def test_wrong_offset_fails(self):
        self.break_stack(KWORKER, lambda f: f[0].update(offset=f[0]['offset'] + 4))

    def test_wrong_size_fails(self):
        self.break_stack(KWORKER, lambda f: f[0].update(size=0))

    def test_wrong_symbol_fails(self):
        self.break_stack(KWORKER, lambda f: f[0].update(symbol='worker_thread.part.0'))

    def test_missing_symbol_fails(self):
        self.break_stack(KWORKER, lambda f: f[0].update(symbol=None, offset=None, size=None), 'every frame has a name')

    def test_missing_symbol_of_a_thread_that_is_not_compared_fails(self):
        self.w.threads[PRINTER]['kernel_backtrace'][0]['symbol'] = None
        self.expect('every frame has a name')

    def test_missing_symbol_of_an_idle_thread_fails(self):
        idle = dict(self.w.threads[KWORKER], tid=0, comm='swapper/0', kernel_backtrace=[frame(None)])
        self.w.document['idle_task'] = {'pid': 0, 'ppid': 0, 'comm': 'swapper/0', 'threads': [idle]}
        self.expect('every frame has a name')

    def test_wrong_module_fails(self):
        self.break_stack(KWORKER, lambda f: f[1].update(module=None))

    def test_missing_frame_fails(self):
        self.w.threads[KWORKER]['kernel_backtrace'].pop()
        self.expect('kernel stacks')

    def test_extra_frame_fails(self):
        self.w.threads[KWORKER]['kernel_backtrace'].append(frame('ret_from_fork'))
        self.expect('kernel stacks')

    def test_swapped_frames_fail(self):
        self.w.threads[KWORKER]['kernel_backtrace'].reverse()
        self.expect('kernel stacks')

    def test_empty_stack_fails(self):
        self.w.threads[KWORKER]['kernel_backtrace'] = []
        self.expect('kernel stacks')

    def test_stack_of_a_zombie_fails(self):
        self.thread('w_zombie')['kernel_backtrace'] = [frame('do_exit')]
        self.expect('kernel stacks')

    def test_stack_of_another_thread_fails(self):
        self.thread('w_pipe')['kernel_backtrace'] = self.thread('w_poll')['kernel_backtrace']
        self.expect('kernel stacks', 'the workload waits')

    def test_long_stack_is_compared_as_far_as_the_guest_lists_it(self):
        long = [(f'f{i}', 4, 8, None) for i in range(70)]
        self.w.t1[KWORKER]['stack'] = self.w.t2[KWORKER]['stack'] = long[:64]
        self.w.threads[KWORKER]['kernel_backtrace'] = [frame(*f) for f in long]
        self.expect()

    # the guest's evidence

    def moved(self, tid, captured, after):
        """TID ran, was captured with other counts in another place, and stands in a third one afterwards."""
        self.w.threads[tid]['context_switches'] = {'voluntary': captured[0], 'involuntary': captured[1]}
        self.w.threads[tid]['kernel_backtrace'] = [frame('elsewhere')]
        self.w.t2[tid].update(before=after, after=after, stack=[('third_place', 1, 2, None)])

    def test_thread_that_ran_in_between_is_excused(self):
        self.moved(KWORKER, (11, 2), (12, 2))
        self.assertIn(f'{KWORKER}/{KWORKER} kworker/0:1: not compared: ran, switches 10+2 11+2 12+2', self.expect())

    def test_thread_that_ran_before_the_capture_stands_as_in_the_second_listing(self):
        self.moved(KWORKER, (12, 2), (12, 2))
        self.expect('kernel stacks')
        self.w.threads[KWORKER]['kernel_backtrace'] = [frame('third_place', 1, 2)]
        self.expect()

    def test_thread_that_ran_after_the_capture_stands_as_in_the_first_listing(self):
        self.moved(KWORKER, (10, 2), (12, 2))
        self.expect('kernel stacks')

    def test_listing_during_which_the_thread_ran_proves_nothing(self):
        self.moved(KWORKER, (10, 2), (12, 2))
        self.w.t1[KWORKER]['before'] = (9, 2)
        self.expect()

    def test_thread_that_always_waits_is_never_excused(self):
        self.moved(self.tid('w_main'), (11, 2), (12, 2))
        self.expect('threads that wait all the time')

    def test_claim_to_run_needs_evidence(self):
        self.w.threads[KWORKER].update(vcpu=0, kernel_backtrace=[frame('process_one_work')])
        self.w.document['vcpus'][0]['current'] = {'pid': KWORKER, 'tid': KWORKER, 'comm': 'x'}
        self.expect('kernel stacks')
        self.w.t2[KWORKER]['before'] = self.w.t2[KWORKER]['after'] = (11, 2)
        self.expect()

    # the rest

    def test_incomplete_capture_fails(self):
        self.w.document['capture']['complete'] = False
        self.expect('the capture is complete')

    def test_capture_that_misses_something_fails(self):
        self.w.document['capture']['missing'] = [{'what': 'frames', 'count': 1}]
        self.expect('the capture is complete')

    def test_unmarked_scheduler_frame_fails(self):
        self.thread('w_pipe')['kernel_backtrace'][0]['sched'] = False
        self.expect('kernel stacks', 'scheduler frames')

    def test_frame_hidden_as_scheduler_frame_fails(self):
        self.w.threads[KWORKER]['kernel_backtrace'].insert(2, dict(frame('bogus'), sched=True))
        self.expect('scheduler frames')

    def test_spinner_on_the_wrong_vcpu_fails(self):
        self.w.threads[SPIN_USER]['vcpu'] = 3
        self.expect('each vCPU', 'spinning threads')

    def test_spinner_not_running_fails(self):
        self.w.threads[SPIN_USER].update(vcpu=None)
        self.w.document['vcpus'][1]['current'] = None
        self.expect('spinning threads')

    def test_kernel_spinner_without_its_system_call_fails(self):
        self.w.threads[SPIN_KERNEL]['kernel_backtrace'] = []
        self.expect('spinning threads')

    def test_kernel_spinner_with_another_entry_fails(self):
        self.w.threads[SPIN_KERNEL]['kernel_backtrace'][-1]['offset'] += 4
        self.expect('spinning threads')

    def test_wrong_current_thread_fails(self):
        self.w.document['vcpus'][1]['current']['tid'] = KWORKER
        self.expect('each vCPU')

    def test_wrong_cluster_fails(self):
        self.w.document['vcpus'][1]['cluster'] = 1
        self.expect('each vCPU')

    def test_missing_vcpu_fails(self):
        self.w.document['vcpus'].pop()
        self.expect('each vCPU')

    def test_workload_that_waits_elsewhere_fails(self):
        for t in (self.w.t1, self.w.t2):
            t[self.tid('w_pipe')]['stack'] = [('do_sys_poll', 0x10, 0x80, None)]
        self.thread('w_pipe')['kernel_backtrace'] = [frame('do_sys_poll')]
        self.expect('the workload waits')

    # a crowd

    def test_wait_in_a_module_passes(self):
        self.w.add_module()
        self.expect()

    def test_wait_in_a_module_without_its_name_fails(self):
        self.w.add_module()
        self.w.threads[410]['kernel_backtrace'][2]['module'] = None
        self.expect('kernel stacks', 'the workload')

    def test_wait_elsewhere_than_in_the_module_fails(self):
        self.w.add_module(symbol='vsock_poll')
        self.expect('the workload')
        self.w.add_module(module=None)
        self.expect('the workload')

    def test_wait_in_a_module_is_never_excused(self):
        self.w.add_module()
        self.w.threads[410]['context_switches']['voluntary'] += 1
        self.w.t2[410]['before'] = self.w.t2[410]['after'] = (12, 2)
        self.expect('threads that wait')

    def test_whole_crowd_passes(self):
        self.w.add_crowd()
        self.expect()

    def test_crowd_of_too_few_fails(self):
        self.w.add_crowd()
        self.w.crowd = (3, 2)
        self.expect('the workload waits')
        self.w.crowd = (2, 3)
        self.expect('the workload waits')

    def test_crowd_without_a_thread_fails(self):
        self.w.add_crowd()
        del self.w.threads[401]
        self.w.regroup()
        self.expect('capture and guest have the same threads', 'the workload waits')

    def test_crowd_is_never_excused(self):
        self.w.add_crowd()
        self.moved(400, (11, 2), (12, 2))
        self.expect('threads that wait all the time')

    # bare RAM

    def test_capture_without_registers_passes(self):
        self.w.take_registers_away()
        self.expect()

    def test_capture_without_registers_is_not_complete(self):
        self.w.take_registers_away()
        self.w.document['capture']['complete'] = True
        self.expect('only stacks of running threads')

    def test_running_thread_not_named_without_registers_fails(self):
        self.w.take_registers_away()
        self.w.document['capture']['missing'].pop()
        self.expect('only stacks of running threads')

    def test_blocked_thread_without_a_stack_for_want_of_registers_fails(self):
        self.w.take_registers_away()
        self.w.threads[KWORKER]['kernel_backtrace'] = []
        self.w.document['capture']['missing'].append(
            dict(self.w.document['capture']['missing'][0], pid=KWORKER, tid=KWORKER))
        self.expect('only stacks of running threads', 'kernel stacks')

    def test_anything_else_missing_without_registers_fails(self):
        self.w.take_registers_away()
        self.w.document['capture']['missing'].append({'what': 'task', 'count': 1, 'tid': None, 'reason': 'x'})
        self.expect('only stacks of running threads')

    def test_stack_of_a_running_thread_without_registers_fails(self):
        self.w.take_registers_away()
        self.w.threads[SPIN_KERNEL]['kernel_backtrace'] = [frame('__arm64_sys_pread64')]
        self.expect('only stacks of running threads')

    def test_vcpus_without_registers_fail(self):
        self.w.take_registers_away()
        self.w.document['vcpus'] = [{'vcpu': 0, 'cluster': 0, 'current': None}]
        self.expect('each vCPU')

    def test_more_threads_running_than_vcpus_fails(self):
        self.w.take_registers_away()
        for tid in range(500, 503):
            self.w.add(tid, tid, 1, 'busy', 'R', [])
            self.w.t2[tid] = copy.deepcopy(self.w.t1[tid])
            self.w.t2[tid]['before'] = self.w.t2[tid]['after'] = (11, 2)
            self.w.ppid[tid] = 1
            self.w.document['capture']['missing'].append(
                dict(self.w.document['capture']['missing'][0], pid=tid, tid=tid))
        self.w.regroup()
        self.expect('only stacks of running threads')

    def test_cut_listing_is_refused(self):
        whole = self.w.listing('a', self.w.t1)
        for text in ('', whole[:len(whole) // 2], whole.replace('switches 10 2 10 2\n', '', 1),
                     whole.replace('[<0>] invoke', '[<0> invoke', 1), 'TRUTH BEGIN a\nTRUTH END a\n'):
            with self.assertRaises(Malformed):
                parse_truth(text, 'a')

    def test_packed_listing_is_the_same(self):
        text = self.w.listing('a', self.w.t1)
        body = text.split('\n', 1)[1].rsplit('\n', 2)[0] + '\n'
        packed = base64.b64encode(zlib.compress(body.encode())).decode()
        lines = [f'Z {packed[i:i + 72]}' for i in range(0, len(packed), 72)]
        both = [parse_truth(t, 'a') for t in (text, '\n'.join(['TRUTH BEGIN a', *lines, 'TRUTH END a']))]
        self.assertEqual(*({tid: vars(t) for tid, t in truth.threads.items()} for truth in both))
        with self.assertRaises(Malformed):
            parse_truth('\n'.join(['TRUTH BEGIN a', *lines[1:], 'TRUTH END a']), 'a')

    def test_kernel_messages_between_lines_are_skipped(self):
        text = self.w.listing('a', self.w.t1).replace('\n.\n', '\n[   12.345678] hello\n.\n', 1)
        self.assertEqual(len(parse_truth(text, 'a').threads), len(self.w.t1))


class TapResult(unittest.TestResult):
    """One TAP line a test."""

    def line(self, word, test, detail=''):
        print(f'{word} {self.testsRun} - {test._testMethodName}')
        for text in detail.splitlines():
            print(f'#   {text}')

    def addSuccess(self, test):
        self.line('ok', test)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.line('not ok', test, self._exc_info_to_string(err, test))

    def addError(self, test, err):
        super().addError(test, err)
        self.line('not ok', test, self._exc_info_to_string(err, test))


if __name__ == '__main__':
    result = unittest.defaultTestLoader.loadTestsFromTestCase(CompareTest).run(TapResult())
    print(f'1..{result.testsRun}')
    raise SystemExit(not result.wasSuccessful())
