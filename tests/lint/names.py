#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check that every name an object file exports carries its room's prefix.

usage: names.py BUILD_FOLDER   (objects below BUILD_FOLDER/<room>/)
"""
import pathlib
import subprocess
import sys

PREFIXES = {
    "base": ("gs_",),
    "kcdata": ("kcd_",),
    # struct memory_guest is a source of guests and has its own name
    "introspect/guest": ("guest_", "memory_guest_"),
    "introspect/arm64": ("a64_",),
    # the kernel's own symbol table keeps the name that everybody knows
    "introspect/linux": ("lnx_", "kallsyms_", "hunt_"),
    "introspect/stackshot": ("ss_",),
    "introspect/btlog": ("btl_",),
    "introspect/probe": ("probe_",),
    "vmm": ("vmm_",),
    "control": ("ctl_",),
    "cli/report": ("rep_",),
    "cli": ("cli_", "main"),
}


def main():
    root = pathlib.Path(sys.argv[1])
    bad = 0
    for path in sorted(root.rglob("*.o")):
        relative = str(path.relative_to(root))
        room = max((r for r in PREFIXES if relative.startswith(r + "/")), key=len, default=None)
        if not room:
            continue
        out = subprocess.run(["nm", "-g", "--defined-only", path], capture_output=True, text=True, check=True)
        for line in out.stdout.splitlines():
            name = line.split()[-1]
            if not name.startswith(PREFIXES[room]) and not name.startswith("__"):
                print(f"{relative}: exports {name}, expected {' or '.join(PREFIXES[room])}")
                bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
