#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check that includes follow tests/lint/layers, and that rooms include only each other's doors.

usage: layers.py   (from the root of the tree; prints each breach, exit status 1 if there is one)
"""
import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def read_layers(path):
    allowed = {}
    for line in path.read_text().splitlines():
        line = line.split("#")[0].strip()
        if line:
            room, _, rest = line.partition(":")
            allowed[room] = rest.split()
    return allowed


def closure(allowed, room):
    seen, todo = set(), [room]
    while todo:
        for other in allowed[todo.pop()]:
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return seen


def room_of(path, rooms):
    return max((r for r in rooms if path.startswith(r + "/")), key=len, default=None)


def read_doors(rooms):
    doors = set()
    for room in rooms:
        mk = pathlib.Path(room, "room.mk")
        if mk.exists():
            text = mk.read_text().replace("\\\n", " ")
            for value in re.findall(r"^\w+_DOORS\s*[:+]?=\s*(.*)$", text, re.M):
                doors.update(value.split())
    return doors


def main():
    rooms = read_layers(pathlib.Path("tests/lint/layers"))
    doors = read_doors(rooms)
    bad = 0
    for room in rooms:
        reach = closure(rooms, room)
        for file in sorted(pathlib.Path(room).rglob("*.[ch]")):
            if room_of(str(file), rooms) != room:
                continue
            for number, line in enumerate(file.read_text().splitlines(), 1):
                match = INCLUDE.match(line)
                if not match:
                    continue
                target = match[1]
                other = room_of(target, rooms)
                where = f"{file}:{number}: includes {target}"
                if not pathlib.Path(target).exists():
                    problem = "which is not there (paths start at the root)"
                elif other == room:
                    continue
                elif other not in reach:
                    problem = f"but {room} may not use {other}"
                elif target not in doors:
                    problem = f"which is no door of {other}"
                else:
                    continue
                print(f"{where}, {problem}")
                bad += 1
    for door in sorted(doors):
        if not pathlib.Path(door).exists():
            print(f"{door}: listed as a door, but not there")
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
