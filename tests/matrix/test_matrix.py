#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The matrix's own table, and what is made of results: nothing that is missing or wrong looks good."""
import importlib.machinery
import importlib.util
import json
import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), 'e2e'))
import test_compare  # pylint: disable=wrong-import-position

loader = importlib.machinery.SourceFileLoader('matrix', os.path.join(HERE, 'run'))
matrix = importlib.util.module_from_spec(importlib.util.spec_from_loader('matrix', loader))
loader.exec_module(matrix)

LINE = '6.1 bookworm linux-image-6.1.0-50-arm64 6.1.176-1 full 4K image vmm qmp:cortex-a76,nokaslr'


def kernel(line=LINE):
    return matrix.parse_table(line)[0]


class Silent(matrix.Result):
    """A result that says nothing."""

    def check(self, sentence, good, *details):
        if not good:
            self.bad.append(sentence)
        return good


def truth_of(world):
    return [matrix.compare.parse_truth(world.listing('x', threads), 'x') for threads in (world.t1, world.t2)]


def judged(world, line=LINE):
    """The result of a comparison of a made-up capture."""
    result = Silent(kernel(line), 'vmm')
    result.used = result.kernel.version
    document = {**world.document, 'capture': {**world.document['capture'], 'kernel': {'page_size': 4096, 'va_bits': 48}}}
    matrix.judge(result, document, truth_of(world), 2)
    result.set_cell(matrix.GUEST, True)
    return result


def cells_of(result):
    return matrix.row(result.kernel, result.boot, result)[5:]


class MatrixTest(unittest.TestCase):
    def test_table_of_the_project_is_well_formed(self):
        with open(f'{HERE}/kernels', encoding='utf-8') as file:
            kernels = matrix.parse_table(file.read())
        self.assertGreaterEqual(len(kernels), 24)
        self.assertEqual({k.page for k in kernels}, {'4K', '16K'})
        self.assertEqual({k.flavour for k in kernels}, {'full', 'cloud', 'rt'})

    def test_packages_of_the_table_have_hashes(self):
        with open(f'{HERE}/packages.sha256', encoding='ascii') as file:
            files = {line.split()[1] for line in file}
        with open(f'{HERE}/kernels', encoding='utf-8') as file:
            for k in matrix.parse_table(file.read()):
                self.assertIn(f'{k.package}_{k.version}_arm64.deb', files)

    def test_malformed_lines_are_refused(self):
        for line in (LINE.replace(' vmm qmp:cortex-a76,nokaslr', ''), LINE.replace('4K', '8K'), LINE.replace('image ', 'x '),
                     LINE.replace('vmm', 'kvm'), LINE.replace('6.1 ', '6/1 '), f'{LINE}\n{LINE}'):
            with self.assertRaises(matrix.Malformed, msg=line):
                matrix.parse_table(line)
        self.assertEqual(matrix.parse_table('# nothing\n\n'), [])

    def test_what_is_asked_for_must_be_in_the_table(self):
        k = kernel()
        self.assertEqual([b for _, b in matrix.wanted([k], [])], ['vmm', 'qmp:cortex-a76,nokaslr'])
        self.assertEqual([b for _, b in matrix.wanted([k], ['6.1'])], ['vmm', 'qmp:cortex-a76,nokaslr'])
        self.assertEqual([b for _, b in matrix.wanted([k], ['6.1/vmm'])], ['vmm'])
        for word in ('6.2', '6.1/qmp:max'):
            with self.assertRaises(matrix.Malformed):
                matrix.wanted([k], [word])

    def test_good_capture_has_no_bad_cell(self):
        world = test_compare.World()
        world.add_module()
        result = judged(world)
        self.assertEqual(result.bad, [])
        self.assertNotIn('**', ' '.join(cells_of(result)))
        self.assertIn('threads', cells_of(result)[3])

    def test_each_failed_check_is_seen_in_its_column(self):
        def change(world, what):
            if what == 'capture whole':
                world.document['capture']['complete'] = False
            elif what == 'all threads':
                del world.threads[test_compare.KWORKER]
                world.regroup()
            elif what == 'their values':
                world.threads[test_compare.KWORKER]['comm'] = 'x'
            elif what == 'stacks equal':
                world.threads[test_compare.KWORKER]['kernel_backtrace'].pop()
            elif what == 'every frame named':
                world.threads[test_compare.PRINTER]['kernel_backtrace'][1]['symbol'] = None
            elif what == 'scheduler marked':
                world.threads[test_compare.PRINTER]['kernel_backtrace'][0]['sched'] = False
            elif what == 'vCPUs':
                world.document['vcpus'][1]['current'] = None
        names = [c[0] for c in matrix.COLUMNS]
        for i, name in enumerate(names):
            world = test_compare.World()
            world.add_module()
            change(world, name)
            result = judged(world)
            self.assertTrue(result.bad, name)
            self.assertEqual([j for j, c in enumerate(cells_of(result)) if '**NO**' in c], [i], name)

    def test_module_that_is_not_named_fails(self):
        result = judged(test_compare.World())
        self.assertIn('a function in a module is named with it', result.bad)
        self.assertEqual(cells_of(result)[len(matrix.COLUMNS)], '**NO**')

    def test_modules_that_are_not_to_be_had_are_said_so(self):
        result = judged(test_compare.World(), LINE.replace('image ', 'none '))
        self.assertEqual(result.bad, [])
        self.assertEqual(cells_of(result)[len(matrix.COLUMNS)], 'none to be had')

    def test_bare_ram_has_a_column_where_there_is_some(self):
        for wrong in (False, True):
            result = judged(test_compare.World())
            self.assertEqual(cells_of(result)[len(matrix.COLUMNS) + 2], '–')
            result.boot = 'qmp:cortex-a76,nokaslr'
            world = test_compare.World()
            world.take_registers_away()
            if wrong:
                world.threads[test_compare.KWORKER]['kernel_backtrace'].pop()
            matrix.judge_ram(result, world.document, truth_of(world))
            self.assertEqual(cells_of(result)[len(matrix.COLUMNS) + 2], '**NO**' if wrong else 'yes')
            self.assertEqual([s for s in result.bad if s.startswith('of bare RAM: kernel stacks')] != [], wrong)

    def test_records_on_request_must_be_there_and_right(self):
        def verdict(**changes):
            result = Silent(kernel(), 'qmp:max')
            capture = {'stackshot_out_flags': 0x1000000c, 'mem_and_io_snapshot': {'free_pages': 200000}, 'task_snapshots': {
                '0': {'kernelcache_load_info': {'imageUUID': list(range(1, 17))}},
                **{str(i): {'ts_asid': i} for i in range(1, 8)}}}
            capture.update(changes)
            with tempfile.TemporaryDirectory() as folder:
                os.makedirs(f'{folder}/kernels')
                with open(f'{folder}/kernels/6.1', 'wb') as file:
                    file.write(b'x' + matrix.BUILD_ID_NOTE + bytes(range(1, 21)))
                before, matrix.TESTBED = matrix.TESTBED, folder
                matrix.judge_asked(result, {'kcdata_stackshot': capture})
                matrix.TESTBED = before
            return result.bad
        self.assertEqual(verdict(), [])
        self.assertEqual(verdict(stackshot_out_flags=0xc), ['each request was honoured'])
        self.assertEqual(verdict(mem_and_io_snapshot={'free_pages': 262145}), ['most of the memory is free'])
        tasks = {'0': {'kernelcache_load_info': {'imageUUID': [9] * 16}}, **{str(i): {'ts_asid': 7} for i in range(1, 8)}}
        self.assertEqual(verdict(task_snapshots=tasks), ['the build id is in the image',
                                                         'processes have address spaces, each another'])
        self.assertEqual(len(verdict(task_snapshots={})), 2)

    def test_other_page_size_fails(self):
        self.assertIn('pages are of 16K', judged(test_compare.World(), LINE.replace('4K', '16K')).bad)

    def test_what_did_not_run_is_said_so(self):
        text = matrix.table([kernel()], {})
        self.assertEqual(text.count('**not run**'), 2)
        self.assertIn('0 as they should be, 0 not, 2 not run', text)

    def test_kernel_that_is_not_to_be_had_is_said_so(self):
        result = Silent(kernel(), 'vmm')
        result.trouble = 'not to be had'
        result.check('the kernel is there', False)
        text = matrix.table([kernel()], {('6.1', 'vmm'): result})
        self.assertIn('**not to be had**', text)
        self.assertIn('0 as they should be, 1 not, 1 not run', text)

    def test_guest_that_did_not_boot_is_said_so(self):
        result = Silent(kernel(), 'vmm')
        result.used = kernel().version
        self.assertIn('**no comparison**', matrix.row(kernel(), 'vmm', result))

    def test_other_version_is_named(self):
        world = test_compare.World()
        world.add_module()
        result = judged(world)
        result.used = '6.1.180-1'
        self.assertIn('6.1.180-1 (instead of 6.1.176-1: not to be had)', matrix.row(kernel(), 'vmm', result))

    def test_results_are_kept_as_they_are(self):
        world = test_compare.World()
        world.add_module()
        result = judged(world)
        with tempfile.TemporaryDirectory() as folder:
            path = matrix.folder_of(result.kernel, 'vmm', folder)
            os.makedirs(path)
            with open(f'{path}/result.json', 'w', encoding='utf-8') as file:
                json.dump(result.to_json(), file)
            loaded = matrix.load_results([kernel()], folder)
            self.assertEqual(list(loaded), [('6.1', 'vmm')])
            self.assertEqual(cells_of(loaded['6.1', 'vmm']), cells_of(result))
            # of a line that has changed since they say nothing
            self.assertEqual(matrix.load_results([kernel(LINE.replace('-50', '-51'))], folder), {})

    def test_document_is_changed_between_its_marks_only(self):
        text = f'a\n{matrix.BEGIN}\nold\n{matrix.END}\nb\n'
        self.assertEqual(matrix.update(text, 'new\n'), f'a\n{matrix.BEGIN}\nnew\n{matrix.END}\nb\n')
        with self.assertRaises(matrix.Malformed):
            matrix.update('a\n', 'new\n')


if __name__ == '__main__':
    result_of_all = unittest.defaultTestLoader.loadTestsFromTestCase(MatrixTest).run(test_compare.TapResult())
    print(f'1..{result_of_all.testsRun}')
    raise SystemExit(not result_of_all.wasSuccessful())
