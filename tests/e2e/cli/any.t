# SPDX-License-Identifier: Apache-2.0
# Bad and good input that needs no guest.

$ guestshot
code 64
err *

$ guestshot --version
out guestshot [0-9]+\.[0-9]+\.[0-9]+.*

$ guestshot --help
out Usage: guestshot COMMAND .*
out *

$ guestshot frobnicate
code 64
err guestshot: no command 'frobnicate' .*

$ guestshot show --help
out Usage: guestshot show .*
out *

$ guestshot show
code 64
err guestshot show: FILE is missing
err Try .guestshot show --help' .*

$ guestshot show one two
code 66
err guestshot: error: .*one: No such file or directory

$ guestshot show - one -
code 64
err guestshot show: FILE - is standard input, which can be read only once
err Try .guestshot show --help' .*

# a second full capture is no delta of the first
$ head -c 1048576 /dev/zero >zeros; guestshot snap -q --core zeros --ram-base 0x40000000 -o x; guestshot show x x
code 64
err guestshot: error: x: a full capture: only deltas complete the one before them

$ head -c 1048576 /dev/zero >zeros; guestshot snap -q --core zeros --ram-base 0x40000000 -o x; guestshot show - <x | grep -c 'NOT complete'
out 1

$ guestshot show --waits --json x
code 64
err guestshot show: --waits is a view of its own: the JSON document always has what threads wait for
err Try .guestshot show --help' .*

$ head -c 1048576 /dev/zero >zeros; guestshot snap -q --core zeros --ram-base 0x40000000 -o x; guestshot show --waits x
code 64
err guestshot: error: x does not say what threads wait for: take it with snap --waits

$ guestshot show --waits --state D x
code 64
err guestshot show: --state, --waiting-since, --process and --function choose threads of the plain text and of --group
err Try .guestshot show --help' .*

$ guestshot show --state Q x
code 64
err guestshot show: --state Q: not letters of R, S, D, T, t, Z, X, I, P
err Try .guestshot show --help' .*

$ guestshot show --waiting-since soon x
code 64
err guestshot show: --waiting-since soon: not a duration such as 10s or 500ms
err Try .guestshot show --help' .*

$ head -c 1048576 /dev/zero >zeros; guestshot snap -q --core zeros --ram-base 0x40000000 -o x; guestshot show --state D --process 1 --function f --waiting-since 1s x | grep -c 'NOT complete'
out 1

$ guestshot show --frobnicate x
code 64
err guestshot show: unrecognized option '--frobnicate'
err Try .guestshot show --help' .*

$ guestshot show missing
code 66
err guestshot: error: .*missing: No such file or directory

$ guestshot show .
code 71
err guestshot: error: .*Is a directory

$ : >empty; guestshot show empty
code 65
err guestshot: error: empty: .*

$ : >empty; guestshot show --json empty
code 65
err guestshot: error: empty: .*

$ seq 1 100000 >numbers; guestshot show numbers
code 65
err guestshot: error: numbers: .*

# a capture is made of items whose sizes are inside of it: one that claims 4 GiB
$ printf '\214\201\370\160\377\377\377\377\0\0\0\0\0\0\0\0' >claims; guestshot show claims
code 65
err guestshot: error: claims: .*

$ head -c 100000 /dev/zero >zeros; guestshot show zeros
code 65
err guestshot: error: zeros: .*

# a name cannot talk to the terminal
$ guestshot show "$(printf 'a\033[31mb')" 2>&1 | grep -c "$(printf '\033')"
code 1
out 0

$ guestshot diff --help
out Usage: guestshot diff .*
out *

$ guestshot diff one
code 64
err guestshot diff: two captures are needed
err Try .guestshot diff --help' .*

$ guestshot diff - -
code 64
err guestshot diff: FILE - is standard input, which can be read only once
err Try .guestshot diff --help' .*

$ guestshot diff --json --all one two
code 64
err guestshot diff: --all is for text: .*
err Try .guestshot diff --help' .*

$ guestshot diff one two
code 66
err guestshot: error: .*one: No such file or directory

# no kernel in either: nothing to compare, and incomplete
$ head -c 1048576 /dev/zero >zeros; guestshot snap -q --core zeros --ram-base 0x40000000 -o x; guestshot diff x - <x
code 2
out Time between the dumps is not known: 0 threads new or not captured before, 0 gone or not captured, 0 ran, 0 have not
out *

$ head -c 1048576 /dev/zero >zeros; for ram in 1 2; do guestshot snap -q --core zeros --ram-base 0x40000000 -o $ram; head -c 2097152 /dev/zero >zeros; done; guestshot diff 1 2
code 64
err guestshot: error: the last capture: of another guest than the capture before it, or of another boot of its kernel

$ guestshot log
code 64
err *

$ guestshot log --core missing there
code 64
err guestshot log: unexpected argument: there
err *

$ guestshot log --core missing
code 66
err guestshot: error: .*missing.*

$ guestshot log --control missing
code 69
err *

$ head -c 1048576 /dev/zero >zeros; guestshot log --core zeros --ram-base 0x40000000
code 2
err guestshot: what is missing:
err   kernel: .*

$ guestshot snap -o x
code 64
err *

$ guestshot snap --control missing -o x
code 69
err guestshot: error: control socket missing: .*

$ guestshot snap --control missing -o x 2>/dev/null; test ! -e x

$ : >file; guestshot snap --control file -o x
code 69
err guestshot: error: control socket file: .*

$ guestshot snap --core missing -o x
code 66
err guestshot: error: .*missing: .*

$ guestshot snap --core missing --control there -o x
code 64
err .*one guest, please.*
err .*

$ guestshot snap --connect qemu:///system --qmp there -o x
code 64
err .*--connect goes with --domain
err .*

$ guestshot snap --core missing --ram-base here -o x
code 64
err .*--ram-base here: not an address such as 0x40000000.*
err .*

$ guestshot snap --core missing --deadline 0 -o x
code 64
err .*--deadline 0: not a duration in 1ms.*
err *

$ guestshot snap --qmp there --ram-base 0 -o x
code 64
err .*--ram-base goes with --core
err .*

$ guestshot snap --control s -o x --threads-max 0
code 64
err .*--threads-max 0: not a number from 1 on
err *

$ guestshot snap --control s -o x --flags TRYLOCK,FASTER
code 64
err .*--flags TRYLOCK,FASTER: not a list of flags; guestshot-snap\(1\) names them
err *

$ guestshot snap --control s -o x --pid 1 --page-tables=2,4
code 64
err .*--page-tables 2,4: not a list of levels, 0 to 3
err *

$ guestshot snap --control s -o x --page-tables
code 64
err .*--page-tables needs --pid.*
err *

$ guestshot snap --core missing -o x --since old
code 64
err .*--since goes with --control: a guest that is opened for one capture has nothing to.*
err *

$ guestshot snap --control missing -o x --since old
code 66
err guestshot: error: .*old: .*

$ seq 1 100000 >old; guestshot snap --control missing -o x --since old
code 65
err guestshot: error: old: .*

# a good stream, but no capture
$ printf '\237\300\041\036\0\0\0\0\0\0\0\0\0\0\0\0\355\130\221\361\0\0\0\0\0\0\0\0\0\0\0\0' >old; guestshot snap --control missing -o x --since old
code 65
err guestshot: error: old: no capture, or it does not say its time

$ head -c 1048576 /dev/zero >zeros; guestshot snap -q --core zeros --ram-base 0x40000000 -o old; guestshot snap --control missing -o x --since old
code 69
err guestshot: error: control socket missing: .*

$ guestshot snap --control s --save -o x
code 64
err .*--save writes no file: -o and --compress go with --retrieve
err *

$ guestshot snap --control s --save --compress zstd
code 64
err .*--save writes no file: -o and --compress go with --retrieve
err *

$ guestshot snap --control s --save --retrieve
code 64
err .*--save or --retrieve: not both at once
err *

$ guestshot snap --control s --retrieve
code 64
err .*-o FILE is missing
err *

$ guestshot snap --core missing --save
code 64
err .*--save and --retrieve go with --control: .*
err *

$ guestshot snap --domain missing --retrieve -o x
code 64
err .*--save and --retrieve go with --control: .*
err *

# what the capture refuses has its reason
$ head -c 1048576 /dev/zero >zeros; guestshot snap --core zeros --ram-base 0x40000000 --flags GET_DQ -o x; code=$?; test ! -e x && exit $code
code 69
err guestshot: error: request flag GET_DQ: Linux has no dispatch queues

# a disk that is full: what was there stays, and it is said
$ head -c 1048576 /dev/zero >zeros; echo mine >x; (ulimit -f 1; guestshot snap -q --core zeros --ram-base 0x40000000 -o x); code=$?; cat x; ls -A; exit $code
code 73
out mine
out x
out zeros
err guestshot: error: x: write: File too large

# a capture that is saved stays until it is in a file
$ head -c 1048576 /dev/zero >zeros; guestshot attach --core zeros --ram-base 0x40000000 --control s 2>/dev/null & guestshot snap --control s --wait 20s --save; code=$?; guestshot snap --control s --save -q; guestshot status --control s | grep '^saved'; (ulimit -f 1; guestshot snap --control s --retrieve -o x; guestshot snap --control s --retrieve -o no/x); guestshot snap --control s --retrieve -o x; guestshot show x | head -n 1; guestshot snap --control s --retrieve -o y; echo $?; kill $!; exit $code
code 2
err guestshot: 0 tasks, 0 threads, .* saved; guest stopped .*; incomplete: guestshot show says what is missing
err guestshot: guestshot snap --control s --retrieve -o FILE gets it
err guestshot: error: snap: a capture of [0-9]* bytes is saved already: retrieve it first.*
err guestshot: error: x: write: File too large
err guestshot: error: no/x: .*
err guestshot: 0 tasks, 0 threads, .* to x; guest stopped .*
err guestshot: error: snap: no capture is saved: .*
out saved capture 0 tasks, 0 threads, .* UTC
out .*
out 66

$ head -c 100000 /dev/zero >zeros; guestshot snap --core zeros -o x; code=$?; test ! -e x && exit $code
code 65
err guestshot: error: zeros: .*

# zeros as RAM: no kernel in it; the capture says so
$ head -c 1048576 /dev/zero >zeros; guestshot snap --core zeros --ram-base 0x40000000 -o x
code 2
err guestshot: error: no kernel is found: .*
err guestshot: raw: 0 vCPUs, 1 MiB; memory: mapped RAM image; no CPU registers .*
err guestshot: 0 tasks, 0 threads, .* to x; .*incomplete: .*

$ guestshot snap --qmp missing -o x
code 66
err guestshot: error: .*missing: .*

$ guestshot dump --core missing
code 64
err .*-o FILE is missing
err .*

$ guestshot dump --core missing -o x
code 66
err guestshot: error: .*missing: .*

$ guestshot dump --control missing -o x
code 69
err guestshot: error: control socket missing: .*

# any memory becomes an ELF core, and the core is read again
$ head -c 1048576 /dev/zero >zeros; printf x | dd of=zeros bs=1 seek=70000 conv=notrunc status=none; guestshot dump --core zeros --ram-base 0x40000000 -o core && guestshot snap -q --core core -o x
code 2
err guestshot: raw: 0 vCPUs, 1 MiB; memory: .*
err guestshot: .* to core; guest stopped .*; no VMCOREINFO in it.*

$ guestshot dump --core /dev/null -o core
code 64
err guestshot: error: /dev/null: .*

$ guestshot btlog
code 64
err .*top, list, show, leaks, enable, disable, reset or save.*
err *

$ guestshot btlog tip x
code 64
err .*what is 'tip'.*
err *

$ guestshot btlog list x
code 64
err .*btlog list needs --control PATH, and no file
err *

$ guestshot btlog top
code 64
err .*of what.*
err *

$ guestshot btlog top missing
code 66
err guestshot: error: .*missing: .*

$ : >empty; guestshot btlog top empty
code 65
err guestshot: error: empty: .*

# a capture is a good stream, but no log
$ head -c 1048576 /dev/zero >zeros; guestshot snap -q --core zeros --ram-base 0x40000000 -o x; guestshot btlog top x
code 65
err guestshot: error: x: no saved backtraces in it

$ guestshot btlog top --control missing
code 69
err guestshot: error: control socket missing: .*

$ guestshot btlog save x
code 64
err .*-o FILE is missing
err *

$ guestshot sample --control missing --hz 0
code 64
err .*--hz 0: not in 1 .* 10000.*
err *

$ guestshot sample --control missing
code 69
err guestshot: error: control socket missing: .*

$ guestshot status --control missing
code 69
err guestshot: error: control socket missing: .*

$ guestshot status
code 64
err *

$ guestshot status --control "$(head -c 200 /dev/zero | tr '\0' 'x')"
code 64
err guestshot: error: control socket x*: .*

# the live view; tests/e2e/cases/watch.sh has it on a terminal
$ guestshot watch
code 64
err guestshot watch: which guest\? --control PATH is missing
err Try .guestshot watch --help' .*
err information\.

$ guestshot watch --help
out Usage: guestshot watch .*
out *

$ guestshot watch --control missing
code 69
err guestshot: error: control socket missing: .*

$ guestshot watch --control s --interval 1ms
code 64
err guestshot watch: --interval 1ms: not a duration from 10ms to a week
err Try .guestshot watch --help' .*
err information\.

$ guestshot watch --control s --max-stopped 101%
code 64
err guestshot watch: --max-stopped 101%: not a percentage from 0\.0001% to 100%
err Try .guestshot watch --help' .*
err information\.

$ guestshot watch --control s --count 0
code 64
err guestshot watch: --count 0: not a number from 1 on
err Try .guestshot watch --help' .*
err information\.

$ guestshot watch --control s --top x
code 64
err guestshot watch: --top x: not a number from 1 on
err Try .guestshot watch --help' .*
err information\.

$ guestshot watch --control s more
code 64
err guestshot watch: unexpected argument: more
err Try .guestshot watch --help' .*
err information\.

$ head -c 1048576 /dev/zero >zeros; guestshot attach --core zeros --ram-base 0x40000000 --control s 2>/dev/null & guestshot watch --control s --wait 20s --count 2 --interval 10ms --max-stopped 100% </dev/null | grep -c '^0 threads in 0 processes: 0 running'; kill $!
out 2

$ head -c 1048576 /dev/zero >zeros; guestshot attach --core zeros --ram-base 0x40000000 --control s 2>/dev/null & guestshot watch --control s --wait 20s --count 1 >/dev/full; code=$?; kill $!; exit $code
code 73
err guestshot: error: standard output: .*

$ head -c 1048576 /dev/zero >zeros; guestshot attach --core zeros --ram-base 0x40000000 --control s 2>/dev/null & attached=$!; guestshot watch --control s --wait 20s --interval 10ms >out & until grep -q '^Guest ' out 2>/dev/null; do sleep 0.1; done; kill $attached; wait $!
code 69
err guestshot: error: the guest is gone: control socket s: .*

# captures that take themselves
$ guestshot attach --core zeros --ram-base 0x40000000 --control s --trigger hung-task,panic
code 64
err guestshot attach: --trigger: panic, oops and console are read off the guest's console, .*
err *

$ guestshot attach --core zeros --ram-base 0x40000000 --control s --keep 3
code 64
err guestshot attach: --jitter, --full-every, --keep, --max-bytes, --max-stopped and --dir go with --every or --trigger
err *

$ guestshot attach --core zeros --ram-base 0x40000000 --every 1s --max-stopped 101%
code 64
err guestshot attach: --max-stopped 101%: not a percentage from 0.0001% to 100%
err *

$ head -c 1048576 /dev/zero >zeros; : >file; guestshot attach --core zeros --ram-base 0x40000000 --every 1s --dir file
code 73
err guestshot: error: open file: Not a directory

$ head -c 1048576 /dev/zero >zeros; guestshot attach --core zeros --ram-base 0x40000000 --every 1h --dir folder 2>/dev/null & tries=600; until ls folder/*.kcdata >/dev/null 2>&1 || [ $tries = 0 ]; do tries=$((tries - 1)); sleep 0.1; done; kill $!; wait $!; echo $?; guestshot show folder/*-schedule.kcdata | grep Taken; grep -c '"form": "full"' folder/index.json
out 143
out Taken because of: schedule
out 1

$ guestshot attach --core missing --control s --cluster-kind big,tiny
code 64
err .*--cluster-kind big,tiny: not a list of big, little and same
err *

# the vCPUs of a dump are one cluster
$ head -c 1048576 /dev/zero >zeros; guestshot attach --core zeros --ram-base 0x40000000 --control s --cluster-kind big,little
code 64
err guestshot: error: 2 kinds of clusters: the guest has 1 .*

$ guestshot run --kernel image --cpus 4 --clusters 2 --cluster-kind big,little,little
code 64
err guestshot run: --cluster-kind: more kinds than clusters.*
err Try .*

$ : >image; guestshot run --kernel image
where nokvm
code 69
err guestshot: error: .*

$ guestshot run
code 64
err guestshot run: .*--kernel IMAGE is missing
err Try .guestshot run --help' .*

# --- profile

$ guestshot profile
code 64
err Usage: guestshot profile make .*
err *

$ guestshot profile --help
out Usage: guestshot profile make .*
out *

$ guestshot profile make --help
out Usage: guestshot profile make .*
out *

$ guestshot profile make
code 64
err guestshot profile make: INPUT is missing
err *

$ guestshot profile make one two
code 64
err guestshot profile make: one INPUT, please: unexpected argument: two
err *

$ guestshot profile make missing
code 66
err guestshot: error: missing: No such file or directory

$ echo '{"user_types": {}}' >isf; guestshot profile make isf
code 65
err guestshot: error: isf: lacks task_struct.__state.state

$ echo '{"guestshot-profile": 1}' >made; guestshot profile make made
code 65
err guestshot: error: made: is a profile already

$ printf '\3757zXZ\0' >packed; guestshot profile make packed
code 69
err guestshot: error: packed: is compressed with xz: unpack it first .*

$ guestshot profile check
code 64
err guestshot profile check: one guest, please: .*
err *

$ guestshot profile check --core x
code 64
err guestshot profile check: which profile\? --profile FILE is missing
err *

$ guestshot profile check --core x --profile missing
code 66
err guestshot: error: profile missing: No such file or directory

$ head -c 1048576 /dev/zero >zeros; mkdir folder; guestshot profile check --core zeros --ram-base 0x40000000 --profile folder
code 64
err guestshot: error: --profile: check tries one file, not a folder

# a folder is looked into only once a kernel is there
$ head -c 1048576 /dev/zero >zeros; mkdir folder; guestshot snap --core zeros --ram-base 0x40000000 --profile folder -o x
code 2
err guestshot: error: no kernel is found: no kernel symbol table in guest memory .*
err *

# tracing
$ guestshot trace --control s
code 64
err guestshot trace: trace what\? a program is missing
err *

$ guestshot trace --control s 'tick-1s {' 'count() }'
code 64
err guestshot trace: a program is one argument: put it into quotes
err *

$ guestshot trace --control s --interval 11s tick-1s
code 64
err guestshot trace: --interval 11s: not a duration of at most 10s
err *

$ guestshot trace --control s tick-1s
code 69
err guestshot: error: control socket s: .*

$ head -c 1048576 /dev/zero >zeros; guestshot attach --core zeros --ram-base 0x40000000 --control s 2>/dev/null & guestshot trace --control s --wait 20s 'tick-1s { fire() }'; echo $?; guestshot trace --control s 'fbt:::entry'; echo $?; guestshot trace --control s --list 'session:::'; guestshot trace --control s --for 10ms --json 'tick-1000s { count() }'; kill $!
out 64
out 66
out  *1  session:::begin
out  *2  session:::end
out [{]"aggregations":\[\][}]
err guestshot: error: trace-enable: program, byte 11: not an action: "fire"
err guestshot: error: no probe is meant .*
