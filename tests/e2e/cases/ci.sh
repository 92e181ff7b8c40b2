# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2154
# guestshot run as a test runner: a guest whose test passes, one that hangs. The options are those of the
# example in docs/ci.md; ci.check judges the folders.
# kernels: cloud
# time: 900
# shellcheck source=e2e/lib.sh
. ./lib.sh

test_start() { # NAME TIMEOUT
	guest_start "$1" cloud '' --cpus 2 --memory 512M --status-line '^TEST EXIT ([0-9]+)' \
		--fail-on 'BUG:|WARNING:' --timeout "$2" --artifacts "$out/$1" --name "$1"
}

# what an earlier run has left is not to be taken for this one's
mkdir -m 700 "$out/passing"
echo old >"$out/passing/summary.json"
test_start passing 600s
await READY
that 'results of an earlier run are gone when the next one begins' test ! -e "$out/passing/summary.json"
console=$out/passing/console.log
ask 'echo before' 'ECHO before'
ok 'the console is in the folder while the guest runs'
say 'status 0'
guest_end
equal 'a test that passes: exit code' "$code" 0

# The timeout is to come when the guest hangs: where it has come before, the machine is slow.
seconds=20
while :; do
	rm -rf "$out/hanging"
	test_start hanging ${seconds}s
	asked=''
	until grep -q 'HANG on' "$console" || ! kill -0 "$guest" 2>/dev/null; do
		if [ -z "$asked" ] && grep -q READY "$console"; then
			say 'hang on'
			asked=yes
		fi
		sleep 0.1
	done
	guest_end $((seconds + 60))
	! grep -q 'HANG on' "$console" || break
	[ $seconds -lt 320 ] || give_up 'a guest hangs before its time is over' "$(tail -n 5 "$console")"
	seconds=$((seconds * 2))
done
equal 'a guest that hangs: exit code' "$code" 124
finish
