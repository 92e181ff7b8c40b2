#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Judges a capture by what the guest itself said before and after it was taken.

usage: compare.py CAPTURE.json CONSOLE BEFORE AFTER [--vcpus N] [--clusters N] [--no-registers]
       compare.py --print CONSOLE LISTING

CONSOLE is the guest's console output, in which the listings "truth BEFORE" and "truth AFTER" stand (their
form: tests/guest/README.md). Prints TAP: one line a check, with a comment line for every thread.

A thread's stack must be the guest's own, frame by frame: name, offset, size and module. The only excuse
is the guest's own evidence that the thread ran: its context switch counts before, in and after the capture. A
thread that has not switched since a listing stands where it stood in it.

With --no-registers the capture is of bare RAM: it must say of each running thread, and of nothing else, that
its stack is missing because there are no registers.
"""
import argparse
import base64
import collections
import json
import re
import sys
import zlib

STACK_MAX = 64  # entries in /proc/PID/stack
COMM_MAX = 15  # bytes of task_struct.comm without its NUL
PF_KTHREAD = 0x00200000
TICK_NS = 10_000_000  # USER_HZ is 100
# The workload's threads that wait from READY to the end: no excuse is heard for these.
ALWAYS_BLOCKED = ('w_futex', 'w_pipe', 'w_poll', 'w_epoll', 'w_sleep', 'w_sock', 'w_flock', 'w_main', 'w_holder',
                  'w_parent', 'w_child', 'w_zparent', 'w_zombie', 'w_stopped')
CROWD = 'w_crowd'  # processes that a guest has on request; they wait likewise
# A function that each of them must be seen in; a comparison of nothing with nothing is none.
BLOCKED_IN = {'w_futex': 'do_futex', 'w_pipe': 'pipe_read', 'w_poll': 'do_sys_poll', 'w_epoll': 'do_epoll_wait',
              'w_sleep': 'hrtimer_nanosleep', 'w_sock': 'unix_stream_read_generic', 'w_flock': 'flock_lock_inode_wait',
              'w_parent': 'do_wait', 'w_stopped': 'do_signal_stop'}
BLOCKED_IN_ALSO = {'w_pipe': ('anon_pipe_read',), 'w_flock': ('locks_lock_inode_wait', '__do_sys_flock'),
                   'w_stopped': ('get_signal',)}
# From here on outwards all system calls look alike; the first of these that is there.
SYSCALL = ('invoke_syscall', 'el0_svc_common.constprop.0')
# Of a guest that was asked to have it: the thread, the function, and the module that this is in.
IN_MODULE = ('w_module', 'vsock_accept', 'vsock')


class Malformed(Exception):
    """An input that is not what it should be; the text says where."""


Frame = collections.namedtuple('Frame', 'symbol offset size module')
Switches = collections.namedtuple('Switches', 'voluntary involuntary')


class GuestThread:
    """A thread as the guest lists it."""

    def __init__(self, tgid, tid):
        self.tgid, self.tid = tgid, tid
        self.state = self.ppid = self.flags = self.priority = self.start = None
        self.comm = self.before = self.after = None
        self.stack = []

    def steady(self):
        """Whether it stood still while it was looked at."""
        return self.before == self.after


class Truth:
    """One listing: threads by tid, kernel text that stacks leave out, the printer, the spinners' CPUs."""

    def __init__(self):
        self.threads, self.symbols, self.spinners = {}, {}, {}
        self.printer = self.release = None
        self.crowd = (0, 0)  # processes, threads in each


FRAME = re.compile(r'\[<[0-9a-f]+>\] (\S+?)(?:\+0x([0-9a-f]+)/0x([0-9a-f]+))?(?: \[(\S+)\])?$')
WORKING_ON = re.compile(r'^(kworker/u?[0-9]+:[0-9]+[A-Z]*)[-+].*')
PRINTK = re.compile(r'\[ *[0-9]+\.[0-9]+\] ')


def parse_frame(line):
    match = FRAME.match(line)
    if not match:
        raise Malformed('not a stack line')
    if match[2] is None:  # an address without a name: what a running thread's stack may hold
        return Frame(match[1], None, None, match[4])
    return Frame(match[1], int(match[2], 16), int(match[3], 16), match[4])


def parse_thread_line(thread, line):
    word, _, rest = line.partition(' ')
    if word == 'stat':
        fields = rest[rest.rindex(')') + 2:].split()
        thread.state, thread.ppid, thread.flags = fields[0], int(fields[1]), int(fields[6])
        thread.priority, thread.start = int(fields[15]), int(fields[19])
    elif word == 'comm':
        thread.comm = rest
    elif word == 'switches':
        n = [int(x) for x in rest.split()]
        thread.before, thread.after = Switches(n[0], n[1]), Switches(n[2], n[3])
    else:
        thread.stack.append(parse_frame(line))


def listing_lines(console, name):
    """(number, line) of the listing NAME in the console's text; one sent packed is unpacked."""
    lines = console.replace('\r', '').split('\n')
    try:
        first, last = lines.index(f'TRUTH BEGIN {name}'), lines.index(f'TRUTH END {name}')
    except ValueError:
        raise Malformed(f'the console has no whole listing {name}') from None
    body = [line for line in lines[first + 1:last] if not PRINTK.match(line)]  # the kernel's come in between
    if not body or not body[0].startswith('Z '):
        return list(enumerate(body, 1))
    try:
        packed = base64.b64decode(''.join(line.removeprefix('Z ') for line in body), validate=True)
        text = zlib.decompress(packed).decode()
    except (ValueError, zlib.error) as e:
        raise Malformed(f'listing {name} does not unpack: {e}') from None
    return list(enumerate(text.splitlines(), 1))


def parse_truth(console, name):
    """The listing NAME out of the console's text."""
    truth, thread = Truth(), None
    for number, line in listing_lines(console, name):
        word, _, rest = line.partition(' ')
        try:
            if line == '.':
                if thread.before is None or thread.comm is None or thread.state is None:
                    raise Malformed('thread without stat, comm or switches')
                truth.threads[thread.tid] = thread
                thread = None
            elif thread:
                parse_thread_line(thread, line)
            elif word == 'T':
                thread = GuestThread(*(int(x) for x in rest.split()))
            elif word == 'U':
                truth.release = rest
            elif word == 'K':
                symbol, address = rest.split()
                truth.symbols[symbol] = int(address, 16)
            elif word == 'P':
                truth.printer = int(rest.split()[1])
            elif word == 'S':
                comm, tgid, cpu = rest.split()
                truth.spinners[(int(tgid), comm)] = int(cpu)
            elif word == 'C':
                processes, threads = rest.split()
                truth.crowd = (int(processes), int(threads))
            else:
                raise Malformed('unknown line')
        except (ValueError, IndexError, TypeError, AttributeError, Malformed) as e:
            raise Malformed(f'listing {name}, line {number}: {line!r}: {e}') from None
    if thread or not truth.threads or truth.printer is None:
        raise Malformed(f'listing {name} is not whole')
    return truth


class CapturedThread:
    """A thread as the capture shows it."""

    def __init__(self, task, thread):
        self.tgid, self.ppid, self.tid = task['pid'], task['ppid'], thread['tid']
        self.comm, self.state, self.vcpu, self.cpu = thread['comm'], thread['state'], thread['vcpu'], thread['cpu']
        self.task_comm = task['comm']
        self.switches = Switches(thread['context_switches']['voluntary'], thread['context_switches']['involuntary'])
        self.frames = thread['kernel_backtrace']
        self.flags, self.kernel_thread = thread['flags'], thread['kernel_thread']
        self.priority = thread['priority']['prio'] - 100  # as /proc counts
        self.start = thread['start_boottime_ns'] // TICK_NS

    def stack(self):
        """The frames that the guest lists too."""
        return [Frame(f['symbol'], f.get('offset'), f.get('size'), f['module']) for f in self.frames if not f.get('sched')]


def parse_capture(document):
    threads = collections.defaultdict(list)
    try:
        for task in document['tasks']:
            for thread in task['threads']:
                threads[thread['tid']].append(CapturedThread(task, thread))
    except (KeyError, TypeError) as e:
        raise Malformed(f'capture: no {e}') from None
    return threads


def plain_comm(thread):
    """The name in the task: of kernel threads, /proc shows the whole name, and what a kworker works on."""
    if not thread.flags & PF_KTHREAD:
        return thread.comm
    return WORKING_ON.sub(r'\1', thread.comm)[:COMM_MAX]


def show(frames):
    return ' '.join(f'{f.symbol}+{f.offset:#x}/{f.size:#x}' + (f'[{f.module}]' if f.module else '')
                    if f.symbol is not None and f.offset is not None and f.size is not None else str(f)
                    for f in frames) or '(nothing)'


class Comparison:
    """Runs all checks; each has a sentence, and fails with any complaint."""

    def __init__(self, document, before, after, vcpus=None, clusters=None, registers=True, out=print):
        self.document, self.before, self.after = document, before, after
        self.vcpus, self.clusters, self.registers, self.out = vcpus, clusters, registers, out
        self.captured = parse_capture(document)
        self.checks = self.failures = self.compared = self.frames = 0
        self.excused = []

    def check(self, sentence, complaints):
        self.checks += 1
        complaints = list(complaints)
        self.failures += bool(complaints)
        self.out(f'{"not ok" if complaints else "ok"} {self.checks} - {sentence}')
        for c in complaints:
            self.out(f'#   {c}')

    def note(self, text):
        self.out(f'# {text}')

    # what is known of a thread

    def sides(self, tid):
        """The thread in both listings; None where it is not."""
        t1, t2 = self.before.threads.get(tid), self.after.threads.get(tid)
        return t1, t2

    def pairs(self):
        """(captured, before, after) for each thread that the guest and the capture have."""
        for tid in sorted(self.captured):
            t1, t2 = self.sides(tid)
            if t1 or t2:
                yield self.captured[tid][0], t1, t2

    def is_spinner(self, thread):
        return (thread.tgid, thread.comm) in self.before.spinners

    def ran_after(self, c, t2):
        """Whether the guest says that the thread has switched since it was captured."""
        return t2 is None or t2.before != c.switches

    # the checks

    def check_capture(self):
        capture = self.document.get('capture', {})
        missing = capture.get('missing', ['(no list)'])
        if self.registers:
            self.check('the capture is complete', [] if capture.get('complete') is True and not missing else
                       [f'complete: {capture.get("complete")}, missing: {missing}'])
        else:
            self.check('only stacks of running threads are missing, for want of registers',
                       self.no_registers_complaints(capture.get('complete'), missing))
        twice = [f'tid {tid}: {len(t)} times' for tid, t in self.captured.items() if len(t) > 1]
        self.check('no thread is in the capture twice', twice)

    def no_registers_complaints(self, complete, missing):
        complaints = [] if complete is False else [f'complete: {complete}']
        named = set()
        for m in missing:
            c = self.captured.get(m.get('tid') if isinstance(m, dict) else None, [None])[0]
            if not c or m['what'] != 'stack' or not m['reason'].endswith('its registers are not known'):
                complaints.append(f'missing: {m}')
            elif c.state != 'R' or c.frames:
                complaints.append(f'{c.tgid}/{c.tid} {c.comm}: state {c.state}, {len(c.frames)} frames; missing: {m}')
            else:
                named.add(c.tid)
        for threads in self.captured.values():
            c = threads[0]
            if (c.vcpu is not None or self.is_spinner(c)) and c.tid not in named:
                complaints.append(f'{c.tgid}/{c.tid} {c.comm}: runs, but it is not said that its stack is missing')
        if len(named) > self.vcpu_count():
            complaints.append(f'{len(named)} threads run on {self.vcpu_count()} vCPUs')
        return complaints

    def vcpu_count(self):
        return self.vcpus if self.vcpus is not None else len(self.document.get('vcpus', []))

    def check_presence(self):
        complaints = []
        for tid in sorted(set(self.before.threads) | set(self.after.threads) | set(self.captured)):
            t1, t2 = self.sides(tid)
            known = t1 or t2
            if tid in self.captured and not known:
                c = self.captured[tid][0]
                complaints.append(f'{c.tgid}/{tid} {c.comm}: the guest reports no such thread')
            elif tid not in self.captured and t1 and t2 and t1.start == t2.start:
                complaints.append(f'{known.tgid}/{tid} {known.comm}: not in the capture')
            elif tid not in self.captured or not (t1 and t2):
                self.note(f'{known.tgid}/{tid} {known.comm}: {"went" if t1 else "came"}, '
                          f'{"in" if tid in self.captured else "not in"} the capture')
        self.check(f'capture and guest have the same threads ({len(self.captured)})', complaints)

    def check_identity(self):
        complaints = []
        for c, t1, t2 in self.pairs():
            guest = t1 or t2
            for what, ours, theirs in (('pid', c.tgid, guest.tgid), ('ppid', c.ppid, {t.ppid for t in (t1, t2) if t}),
                                       ('comm', c.comm, {plain_comm(t) for t in (t1, t2) if t})):
                if ours != theirs and not (isinstance(theirs, set) and ours in theirs):
                    complaints.append(f'{c.tgid}/{c.tid} {c.comm}: {what} is {ours}, the guest says {theirs}')
            if c.tid == c.tgid and c.task_comm != c.comm:
                complaints.append(f'{c.tgid}: task {c.task_comm}, but its first thread is {c.comm}')
        self.check('pid, ppid and name are the guest\'s', complaints)

    def check_properties(self):
        complaints = []
        for c, t1, t2 in self.pairs():
            guest = t1 or t2
            for what, ours, theirs in (('start time', c.start, {guest.start}),
                                       ('priority', c.priority, {t.priority for t in (t1, t2) if t}),
                                       ('kernel_thread', c.kernel_thread, {bool(guest.flags & PF_KTHREAD)})):
                if ours not in theirs:
                    complaints.append(f'{c.tgid}/{c.tid} {c.comm}: {what} is {ours}, the guest says {theirs}')
            # some flags say what a thread does at the moment
            still = [t.flags for t in (t1, t2) if t and t.steady() and t.after == c.switches]
            if still and c.flags not in still and not self.is_spinner(c) and c.tid != self.before.printer:
                complaints.append(f'{c.tgid}/{c.tid} {c.comm}: flags are {c.flags:#x}, the guest says {still[0]:#x}')
        self.check('flags, priority and start time are the guest\'s', complaints)

    def check_switches(self):
        complaints = []
        for c, t1, t2 in self.pairs():
            for i, what in enumerate(Switches._fields):
                low = t1.after[i] if t1 else 0
                high = t2.before[i] if t2 else None
                if c.switches[i] < low or (high is not None and c.switches[i] > high):
                    complaints.append(f'{c.tgid}/{c.tid} {c.comm}: {c.switches[i]} {what} switches, '
                                      f'the guest says {low} before and {high} after')
        self.check('context switch counts lie between the guest\'s', complaints)

    def check_states(self):
        complaints = []
        for c, t1, t2 in self.pairs():
            said = {t.state for t in (t1, t2) if t and t.steady() and t.after == c.switches}
            if not said or c.tid == self.before.printer or c.state in said:
                continue
            # a thread that was woken is runnable before its count moves; the next listing shows that it ran
            if c.state == 'R' and self.ran_after(c, t2):
                continue
            if 'R' in said:
                continue  # on its way to sleep: the count moves once it is there
            complaints.append(f'{c.tgid}/{c.tid} {c.comm}: state {c.state}, the guest says {"/".join(sorted(said))}')
        self.check('thread states are the guest\'s', complaints)

    def expected_stack(self, c, t1, t2):
        """(the listing to compare with, or None; why not)"""
        if c.tid == self.before.printer:
            return None, 'prints the listing'
        if c.vcpu is not None and self.ran_after(c, t2):  # running now, blocked before and after
            return None, f'runs on vCPU {c.vcpu}'
        if not self.registers and c.state == 'R' and not c.frames and self.ran_after(c, t2):
            return None, 'runs, registers not known'
        for t in (t1, t2):
            if t and t.steady() and t.after == c.switches and t.state != 'R':
                return t, None
        counts = ' '.join(f'{s.voluntary}+{s.involuntary}' if s else '-'
                          for s in (t1 and t1.after, c.switches, t2 and t2.before))
        running = [t for t in (t1, t2) if t and t.steady() and t.after == c.switches]
        return None, f'{"running in a listing" if running else "ran"}, switches {counts}'

    def check_stacks(self):
        complaints, refused = [], []
        for c, t1, t2 in self.pairs():
            who = f'{c.tgid}/{c.tid} {c.comm}'
            if self.is_spinner(c):
                continue
            guest, why = self.expected_stack(c, t1, t2)
            if not guest:
                self.note(f'{who}: not compared: {why}')
                self.excused.append(c)
                if c.comm in (*ALWAYS_BLOCKED, CROWD, IN_MODULE[0]):
                    refused.append(f'{who}: {why}, but it waits all the time')
                continue
            ours = c.stack()[:STACK_MAX]
            self.compared += 1
            self.frames += len(guest.stack)
            if ours != guest.stack:
                complaints.append(f'{who}: capture: {show(ours)}')
                complaints.append(f'{" " * len(who)}    guest: {show(guest.stack)}')
            else:
                self.note(f'{who}: {c.state}, {len(ours)} frames equal')
        self.check(f'kernel stacks are the guest\'s ({self.compared} threads, {self.frames} frames)', complaints)
        self.check('threads that wait all the time were all compared', refused)
        if not self.compared:
            self.check('some stack was compared', ['none was'])

    def check_names(self):
        """Each frame is in a function that is known, also of threads that are not compared."""
        threads = [t[0] for t in self.captured.values()]
        threads += [CapturedThread(task, t) for task in filter(None, [self.document.get('idle_task')])
                    for t in task['threads']]
        complaints = [f'{c.tgid}/{c.tid} {c.comm}: {f["address"]}' for c in threads for f in c.frames if f['symbol'] is None]
        self.check(f'every frame has a name ({sum(len(c.frames) for c in threads)} frames)', complaints)

    def check_workload(self):
        """The workload is there, and each thread waits where its name says."""
        complaints = []
        by_name = collections.defaultdict(list)
        for threads in self.captured.values():
            by_name[threads[0].comm].append(threads[0])
        complaints += self.crowd_complaints()
        for name in ALWAYS_BLOCKED:
            if not by_name[name]:
                complaints.append(f'no thread {name}')
            wanted = {BLOCKED_IN[name], *BLOCKED_IN_ALSO.get(name, ())} if name in BLOCKED_IN else None
            for c in by_name[name]:
                if wanted and not wanted & {f['symbol'] for f in c.frames}:
                    complaints.append(f'{name}: not in {" or ".join(sorted(wanted))}: {show(c.stack())}')
        for c in by_name[IN_MODULE[0]]:
            if IN_MODULE[1:] not in [(f['symbol'], f['module']) for f in c.frames]:
                complaints.append(f'{c.comm}: not in {IN_MODULE[1]} [{IN_MODULE[2]}]: {show(c.stack())}')
        self.check('the workload waits where it says', complaints)

    def crowd_complaints(self):
        processes, threads = self.before.crowd
        sizes = [len(t['threads']) for t in self.document['tasks'] if t['comm'] == CROWD]
        if sizes != [threads] * processes:
            return [f'{len(sizes)} processes of the crowd instead of {processes}, with '
                    f'{sorted(set(sizes))} threads each instead of {threads}']
        return []

    def check_sched_marks(self):
        """Frames are marked exactly where the guest's own listing leaves them out."""
        symbols = self.before.symbols
        ranges = [(symbols[f'__{r}_text_start'], symbols[f'__{r}_text_end']) for r in ('sched', 'lock')
                  if f'__{r}_text_start' in symbols and f'__{r}_text_end' in symbols]
        complaints = [] if ranges else ['the guest did not say where its scheduler is']
        marked = 0
        for threads in self.captured.values():
            for f in threads[0].frames:
                inside = any(start <= int(f['address'], 16) < end for start, end in ranges)
                marked += bool(f.get('sched'))
                if inside != bool(f.get('sched')):
                    complaints.append(f'tid {threads[0].tid}: {f["address"]} {f["symbol"]}: sched is {f.get("sched")}')
        self.check(f'scheduler frames are marked, and no others ({marked})', complaints)

    def check_vcpus(self):
        vcpus = self.document.get('vcpus', [])
        complaints = []
        if not self.registers:
            if vcpus:
                complaints.append(f'{len(vcpus)} vCPUs, without registers')
        elif self.vcpus is not None:
            if [v['vcpu'] for v in vcpus] != list(range(self.vcpus)):
                complaints.append(f'vCPUs {[v["vcpu"] for v in vcpus]}, not 0 to {self.vcpus - 1}')
            if self.clusters:
                size = -(-self.vcpus // self.clusters)
                if [v['cluster'] for v in vcpus] != [i // size for i in range(self.vcpus)]:
                    complaints.append(f'clusters {[v["cluster"] for v in vcpus]}, want {self.clusters} of {size}')
        current = {v['vcpu']: v['current']['tid'] for v in vcpus if v['current'] and v['current']['tid']}
        running = {t[0].vcpu: tid for tid, t in self.captured.items() if t[0].vcpu is not None}
        if current != running:
            complaints.append(f'current threads of the vCPUs {current}, vCPUs of the threads {running}')
        self.check('each vCPU\'s current thread says that it runs there', complaints)

    def kernel_spinner_complaints(self, c):
        """/proc has no stack of a running thread; but each system call begins like that of one that waits."""
        names = [f.symbol or '' for f in c.stack()]
        if not any('pread64' in name for name in names):
            return [f'{c.comm}: not in pread64: {show(c.stack())}']
        entries = [t.stack[i:] for t in self.before.threads.values() if t.comm in ALWAYS_BLOCKED
                   for i, f in enumerate(t.stack) if f.symbol in SYSCALL]
        if not entries or c.stack()[-len(entries[0]):] != entries[0]:
            return [f'{c.comm}: {show(c.stack())}', f'a system call begins with {show(entries[0] if entries else [])}']
        return []

    def check_spinners(self):
        complaints = []
        for (tgid, comm), cpu in self.before.spinners.items():
            mine = [t[0] for t in self.captured.values() if (t[0].tgid, t[0].comm) == (tgid, comm)]
            if len(mine) != 1:
                complaints.append(f'{comm}: {len(mine)} threads')
                continue
            c = mine[0]
            if c.state != 'R' or (c.cpu, c.vcpu) != (cpu, cpu if self.registers else None):
                complaints.append(f'{comm}: state {c.state}, CPU {c.cpu}, vCPU {c.vcpu}; it spins on {cpu}')
            if not self.registers:
                continue
            if comm == 'w_spin_kernel':
                complaints += self.kernel_spinner_complaints(c)
            self.note(f'{comm} on vCPU {c.vcpu}: {show(c.stack())}')
        self.check(f'spinning threads run where they are pinned ({len(self.before.spinners)})', complaints)

    def run(self):
        """True when all is well."""
        for check in (self.check_capture, self.check_presence, self.check_identity, self.check_properties,
                      self.check_switches, self.check_states, self.check_stacks, self.check_names,
                      self.check_workload, self.check_sched_marks, self.check_vcpus, self.check_spinners):
            check()
        self.out(f'1..{self.checks}')
        self.note(f'kernel {self.before.release}: {len(self.captured)} threads, {self.compared} stacks '
                  f'({self.frames} frames) compared, {len(self.excused)} not comparable, '
                  f'{self.failures} of {self.checks} checks failed')
        return not self.failures


def main():
    parser = argparse.ArgumentParser(description='judge a capture by the guest\'s own listings')
    parser.add_argument('capture')
    parser.add_argument('console')
    parser.add_argument('before')
    parser.add_argument('after')
    parser.add_argument('--vcpus', type=int)
    parser.add_argument('--clusters', type=int)
    parser.add_argument('--no-registers', action='store_true')
    if sys.argv[1:2] == ['--print']:
        with open(sys.argv[2], encoding='utf-8', errors='replace') as f:
            print('\n'.join(line for _, line in listing_lines(f.read(), sys.argv[3])))
        return
    args = parser.parse_args()
    try:
        with open(args.capture, encoding='utf-8') as f:
            document = json.load(f)
        with open(args.console, encoding='utf-8', errors='replace') as f:
            console = f.read()
        comparison = Comparison(document, parse_truth(console, args.before), parse_truth(console, args.after),
                                args.vcpus, args.clusters, not args.no_registers)
        ok = comparison.run()
    except (OSError, ValueError, KeyError, TypeError, Malformed) as e:
        print(f'not ok 1 - comparison\n#   {type(e).__name__}: {e}\n1..1')
        ok = False
    sys.exit(0 if ok else 1)


if __name__ == '__main__':
    main()
