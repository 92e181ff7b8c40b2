# SPDX-License-Identifier: Apache-2.0
"""What tests/bench/dumps measures beside guestshot: every thread's stack by drgn. Runs in drgn's Python.

usage: peer-drgn.py CORE VMLINUX VMCOREINFO OUT   (VMCOREINFO: a file with the text; OUT: stacks as text)
"""
import sys

import drgn
from drgn.helpers.linux.pid import for_each_task


def main():
    core, vmlinux, vmcoreinfo, out = sys.argv[1:]
    with open(vmcoreinfo, 'rb') as f:
        program = drgn.Program(vmcoreinfo=f.read())
    program.set_core_dump(core)
    program.load_debug_info([vmlinux])
    threads = frames = errors = 0
    with open(out, 'w', encoding='utf-8', errors='replace') as f:
        for task in for_each_task(program):
            threads += 1
            try:
                print(task.tgid.value_(), task.pid.value_(), task.comm.string_().decode(errors='replace'), file=f)
                for frame in program.stack_trace(task):
                    frames += 1
                    print('   ', frame.name, file=f)
            except (LookupError, ValueError, drgn.FaultError) as why:
                errors += 1
                print('   ', why, file=f)
    version = getattr(drgn, '__version__', 'version not known')
    print(f'drgn {version}: {threads} threads, {frames} frames, {errors} errors')


if __name__ == '__main__':
    main()
