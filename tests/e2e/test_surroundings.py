#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The judge is judged: surroundings.py on a made-up capture and listings, most of them wrong in one place."""
import unittest

from surroundings import INNER, PROGRAM, Comparison, Listing, Malformed
from test_compare import TapResult

BUILD_ID = '00ff10'
PRINTER, IN_GROUP = 300, 301


def console(cgroups, **facts):
    facts = {'printer': PRINTER, 'begin_us': 1_000_000, 'load_us': 1_100_000, 'load': '0.10 0.02 0.01 1/80 301', 'taint': 4608,
             'total': '  1000 kB'} | facts
    lines = [f'{word} {value}' for word, value in facts.items()] + [f'cgroup {pid} {path}' for pid, path in cgroups.items()]
    return '\r\n'.join(['SURROUNDINGS BEGIN x', *lines, 'SURROUNDINGS END x', ''])


class SurroundingsTest(unittest.TestCase):
    def setUp(self):
        self.cgroups = {PRINTER: '/', IN_GROUP: INNER}
        self.before, self.after = {}, {'begin_us': 3_000_000, 'load_us': 3_100_000}
        self.frame = {'file': PROGRAM, 'offset': 1, 'inode': 7, 'build_id': BUILD_ID}
        self.system = {'uptime_ns': 2_000_000_000, 'load': ['0.10', '0.02', '0.01'], 'total_pages': 250, 'free_pages': 30,
                       'taint': {'value': 4608}}
        self.tasks = [{'pid': PRINTER, 'comm': 'w_main', 'context': {'cgroup': '/'},
                       'threads': [{'user_backtrace': [self.frame]}]},
                      {'pid': IN_GROUP, 'comm': 'w_cgroup', 'context': {'cgroup': INNER},
                       'threads': [{'user_backtrace': [self.frame | {}]}, {}]}]
        self.queue = [{'vcpu': None, 'context': {'queue_place': 2, 'queue_length': 2}}, {'vcpu': 3, 'context': {}},
                      {'vcpu': None, 'context': {'queue_place': 1, 'queue_length': 2}}]
        self.tasks += [{'pid': 400 + i, 'comm': 'w_queue', 'threads': [t]} for i, t in enumerate(self.queue)]

    def failed(self):
        """What checks fail."""
        lines = []
        document = {'capture': {'system': self.system, 'kernel': {'page_size': 4096}}, 'tasks': self.tasks}
        listings = [Listing(console(self.cgroups, **side), 'x') for side in (self.before, self.after)]
        Comparison(document, *listings, BUILD_ID, lines.append).run()
        return [line for line in lines if line.startswith('not ok')]

    def expect(self, fragment):
        failed = self.failed()
        self.assertEqual(len(failed), 1, failed)
        self.assertIn(fragment, failed[0])

    def test_true_capture_passes(self):
        self.assertEqual(self.failed(), [])

    def test_other_control_group_fails(self):
        self.tasks[0]['context']['cgroup'] = INNER
        self.expect('control group')

    def test_process_that_came_is_left_out(self):
        self.tasks.append({'pid': 999, 'comm': 'sh', 'context': {'cgroup': '/'}, 'threads': []})
        self.assertEqual(self.failed(), [])

    def test_process_in_the_group_must_be_there(self):
        self.tasks[1]['comm'] = 'other'
        self.expect('control group')

    def test_uptime_before_and_after_fails(self):
        for ns in (999_000_000, 3_100_001_000):
            self.system['uptime_ns'] = ns
            self.expect('uptime')
        del self.system['uptime_ns']
        self.expect('uptime')

    def test_load_is_one_of_both(self):
        self.after['load'] = '0.20 0.02 0.01 1/80 301'
        self.assertEqual(self.failed(), [])
        self.system['load'][0] = '0.20'
        self.assertEqual(self.failed(), [])
        self.system['load'][0] = '0.15'
        self.expect('load')
        # of listings that are far apart anything that can be
        self.after |= {'load_us': 6_000_000}
        self.assertEqual(self.failed(), [])
        self.system['load'][0] = '40.00'
        self.expect('load')

    def test_load_that_lacks_one_fails(self):
        self.system['load'].pop()
        self.expect('load')

    def test_memory_and_taint(self):
        self.system['total_pages'] = 251
        self.expect('memory')
        self.system |= {'total_pages': 250, 'free_pages': 250}
        self.expect('memory')
        self.system |= {'free_pages': 1, 'taint': {'value': 0}}
        self.expect('memory')
        self.after['taint'] = 0  # it changed in between
        self.assertEqual(self.failed(), [])

    def test_wrong_build_id_fails(self):
        self.tasks[1]['threads'][0]['user_backtrace'][0]['build_id'] = '00ff11'
        self.expect('build id')

    def test_unknown_build_id_fails_in_the_printer_alone(self):
        del self.tasks[1]['threads'][0]['user_backtrace'][0]['build_id']
        self.assertEqual(self.failed(), [])
        del self.frame['build_id']
        self.expect('build id')

    def test_capture_without_user_stacks_fails(self):
        for task in self.tasks[:2]:
            task['threads'] = []
        self.expect('build id')

    def test_place_that_is_taken_fails(self):
        self.queue[0]['context']['queue_place'] = 1
        self.expect('places')

    def test_place_that_there_is_not_fails(self):
        for place, length in ((3, 2), (0, 2), (2, 3), (2, 1)):
            self.queue[0]['context'] |= {'queue_place': place, 'queue_length': length}
            self.expect('places')
        del self.queue[0]['context']['queue_place']
        self.expect('places')

    def test_all_may_wait(self):
        for i, t in enumerate(self.queue):
            t |= {'vcpu': None, 'context': {'queue_place': 1 + i, 'queue_length': 4}}
        self.assertEqual(self.failed(), [])

    def test_queue_must_be_there(self):
        self.queue[2]['vcpu'] = 2
        self.expect('places')
        self.tasks.pop()
        self.expect('places')

    def test_listing_that_is_not_whole(self):
        for text in ('', 'SURROUNDINGS BEGIN x\n', console({}, load='0.1'), console({}, total='')):
            with self.assertRaises(Malformed):
                Listing(text, 'x')


if __name__ == '__main__':
    result = unittest.defaultTestLoader.loadTestsFromTestCase(SurroundingsTest).run(TapResult())
    print(f'1..{result.testsRun}')
    raise SystemExit(not result.wasSuccessful())
