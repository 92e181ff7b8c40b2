# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2154
# How guestshot run ends, and with which exit code (docs/exit-codes.md).
# kernels: cloud
# time: 400
# shellcheck source=e2e/lib.sh
. ./lib.sh

guest_start reboot cloud ''
await READY
say reboot
guest_end
equal 'a guest that reboots: exit code' "$code" 3
equal 'a guest that reboots: one line says so' "$(cat "$errors")" 'guestshot: error: the guest ended: reboot'

guest_start crash cloud ''
await READY
say crash
guest_end
equal 'a guest that panics with panic=-1: exit code' "$code" 3
that 'a guest that panics: the console has its last words' grep -q 'Kernel panic - not syncing: sysrq' "$console"

guest_start until cloud '' --until '^READY'
guest_end 60
equal '--until that matches: exit code' "$code" 0
that '--until that matches: the line is on the console' grep -q '^READY' "$console"

guest_start nomatch cloud '' --until '^NEVER SAID'
await READY
say poweroff
guest_end
equal '--until that does not match before poweroff: exit code' "$code" 7

guest_start timeout cloud '' --cpus 2 --timeout 10s --snapshot-on timeout,exit --snapshot "$out/timeout.kcdata"
guest_end 60
equal '--timeout: exit code' "$code" 124
that '--timeout: the snapshot is there and can be read' guestshot show --json "$out/timeout.kcdata"

guest_start exit cloud '' --timeout 60s --snapshot-on timeout,exit --snapshot "$out/exit.kcdata"
await READY
say reboot
guest_end
equal '--snapshot-on exit: exit code is the guest'\''s' "$code" 3
that '--snapshot-on exit: the snapshot is there and can be read' guestshot show --json "$out/exit.kcdata"

guest_start unsnapped cloud '' --timeout 60s --snapshot-on timeout --snapshot "$out/unsnapped.kcdata"
await READY
say poweroff
guest_end
equal '--snapshot-on timeout, no timeout: exit code' "$code" 0
that '--snapshot-on timeout, no timeout: no snapshot' test ! -e "$out/unsnapped.kcdata"

guest_start quit cloud '' --control "$ctl"
await READY
that 'quit is answered' test -n "$(control '{"execute": "quit"}' | grep '"return"')"
guest_end
equal 'quit: exit code' "$code" 6

guest_start signal cloud '' --control "$ctl"
await READY
kill -TERM "$guest"
guest_end
equal 'a signal: exit code' "$code" 143
that 'a signal: the control socket is gone' test ! -e "$ctl"

guest_start file cloud '' --console "file:$work/console.txt" --timeout 60s --until '^READY'
guest_end
equal '--console file: exit code' "$code" 0
that '--console file: the console is in the file' grep -q '^READY' "$work/console.txt"
equal '--console file: nothing on standard output' "$(cat "$console")" ''
finish
