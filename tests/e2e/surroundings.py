#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Judges what a capture says of the surroundings of processes by what the guest itself said of them.

usage: surroundings.py CAPTURE.json CONSOLE BEFORE AFTER BUILD_ID

CONSOLE is the guest's console output, in which the listings "surroundings BEFORE" and "surroundings AFTER" stand (their
form: tests/guest/README.md). BUILD_ID is that of /bin/workload in the guest. Prints TAP.
"""
import collections
import json
import sys

PROGRAM = '/bin/workload'
QUEUE = 3  # threads w_queue
INNER = '/outer/inner one'  # where the guest puts its process w_cgroup
LOAD_NS = 5_000_000_000  # from one change of the load averages to the next, less a tick


class Malformed(Exception):
    """An input that is not what it should be; the text says where."""


class Listing:
    """What the guest says at one moment."""

    def __init__(self, console, name):
        lines = console.replace('\r', '').split('\n')
        try:
            first, last = lines.index(f'SURROUNDINGS BEGIN {name}'), lines.index(f'SURROUNDINGS END {name}')
        except ValueError:
            raise Malformed(f'the console has no whole listing {name}') from None
        self.cgroups, facts = {}, {}
        for line in lines[first + 1:last]:
            word, _, rest = line.partition(' ')
            if word == 'cgroup':
                pid, _, path = rest.partition(' ')
                self.cgroups[int(pid)] = path
            else:
                facts[word] = rest
        try:
            self.printer = int(facts['printer'])
            self.begin_ns, self.load_ns = int(facts['begin_us']) * 1000, int(facts['load_us']) * 1000
            self.load, self.taint = facts['load'].split()[:3], int(facts['taint'])
            if len(self.load) != 3:
                raise ValueError(facts['load'])
            self.total = int(facts['total'].split()[0]) * 1024
        except (KeyError, ValueError, IndexError) as e:
            raise Malformed(f'listing {name}: {type(e).__name__}: {e}') from None


class Comparison:
    """Runs all checks; each has a sentence, and fails with any complaint."""

    def __init__(self, document, before, after, build_id, out=print):
        self.document, self.before, self.after, self.build_id, self.out = document, before, after, build_id, out
        self.system = document['capture']['system'] or {}
        self.checks = self.failures = 0

    def check(self, sentence, complaints):
        self.checks += 1
        self.failures += bool(complaints)
        self.out(f'{"not ok" if complaints else "ok"} {self.checks} - {sentence}')
        for c in complaints[:20]:
            self.out(f'#   {c}')

    def check_cgroups(self):
        complaints, same, found = [], 0, []
        for task in self.document['tasks']:
            before, after = (side.cgroups.get(task['pid']) for side in (self.before, self.after))
            ours = task.get('context', {}).get('cgroup')
            if task['comm'] == 'w_cgroup':
                found.append(ours)
            if before is None or before != after:
                continue  # came, went or moved
            same += 1
            if ours != before:
                complaints.append(f'{task["pid"]} {task["comm"]}: {ours}, the guest says {before}')
        if found != [INNER]:
            complaints.append(f'w_cgroup is in {found}')
        self.check(f'each process is in the control group that the guest says ({same})', complaints)

    def check_clock(self):
        ours = self.system.get('uptime_ns', -1)
        self.check('the uptime lies between two messages of the guest\'s log',
                   [] if self.before.begin_ns <= ours <= self.after.load_ns else
                   [f'{ours}, not in {self.before.begin_ns} to {self.after.load_ns}'])

    def check_load(self):
        """Between two listings that are closer together than two changes, each average is that of one of them."""
        ours, complaints = self.system.get('load', []), []
        close = self.after.load_ns - self.before.begin_ns < LOAD_NS
        threads = sum(len(t['threads']) for t in self.document['tasks'])
        for i, (before, after) in enumerate(zip(self.before.load, self.after.load)):
            got = ours[i] if i < len(ours) else 'none'
            if got not in (before, after) if close else not 0 <= float(got) <= threads:
                complaints.append(f'average {i}: {got}, the guest says {before} and {after}')
        self.check(f'the load averages are the guest\'s ({" ".join(ours)})', complaints)

    def check_constants(self):
        page = self.document['capture']['kernel']['page_size']
        total = self.system.get('total_pages', 0) * page
        taint = self.system.get('taint', {}).get('value')
        complaints = []
        if total != self.before.total:
            complaints.append(f'{total} bytes of memory, the guest says {self.before.total}')
        if not 0 < self.system.get('free_pages', 0) < self.system.get('total_pages', 0):
            complaints.append(f'{self.system.get("free_pages")} free pages of {self.system.get("total_pages")}')
        if self.before.taint == self.after.taint != taint:
            complaints.append(f'taint {taint}, the guest says {self.before.taint}')
        self.check('memory and taint are the guest\'s', complaints)

    def check_build_ids(self):
        known, complaints = collections.Counter(), []
        for task in self.document['tasks']:
            for frame in (f for t in task['threads'] for f in t.get('user_backtrace', [])):
                if frame['file'] != PROGRAM:
                    continue
                ours = frame.get('build_id')
                known[ours] += 1
                # the printer's start has looked at the page that has it; others need not have it mapped
                if ours != self.build_id and (ours is not None or task['pid'] == self.before.printer):
                    complaints.append(f'{task["pid"]} {task["comm"]}: {ours}, it is {self.build_id}')
        if not known[self.build_id]:
            complaints.append(f'no frame of {PROGRAM} has the build id {self.build_id}')
        self.check(f'frames of {PROGRAM} have its build id ({known[self.build_id]}, unknown in {known[None]})',
                   complaints)

    def check_queue(self):
        """Of three threads that want one CPU one has it at most; the others have places in one queue, each its own."""
        threads = [t for task in self.document['tasks'] if task['comm'] == 'w_queue' for t in task['threads']]
        waiting = [t for t in threads if t['vcpu'] is None]
        places = [(t['context'].get('queue_place'), t['context'].get('queue_length')) for t in waiting]
        complaints = []
        if len(threads) != QUEUE or len(waiting) < QUEUE - 1:
            complaints.append(f'{len(threads)} threads w_queue, {len(waiting)} of them wait')
        elif (None in sum(places, ()) or len({place for place, _ in places}) < len(places)
              or len({length for _, length in places}) > 1 or any(not 1 <= p <= n or n < len(places) for p, n in places)):
            complaints.append(f'places and lengths: {places}')
        self.check(f'threads that want one CPU have their places ({places})', complaints)

    def run(self):
        """True when all is well."""
        for check in (self.check_cgroups, self.check_clock, self.check_load, self.check_constants, self.check_build_ids,
                      self.check_queue):
            check()
        self.out(f'1..{self.checks}')
        return not self.failures


def main():
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    try:
        with open(sys.argv[1], encoding='utf-8') as f:
            document = json.load(f)
        with open(sys.argv[2], encoding='utf-8', errors='replace') as f:
            console = f.read()
        before, after = Listing(console, sys.argv[3]), Listing(console, sys.argv[4])
        ok = bool(sys.argv[5]) and Comparison(document, before, after, sys.argv[5]).run()
    except (OSError, ValueError, KeyError, TypeError, Malformed) as e:
        print(f'not ok 1 - surroundings\n#   {type(e).__name__}: {e}\n1..1')
        ok = False
    sys.exit(0 if ok else 1)


if __name__ == '__main__':
    main()
