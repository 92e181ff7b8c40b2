# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2154
# What processes wait for, that wait on purpose and say for what: waits.check compares. Captures of a guest in
# which locks are fought for, but which never stands still, have no deadlock in them.
# kernels: cloud
# time: 600
# shellcheck source=e2e/lib.sh
. ./lib.sh

captures=${WAIT_CAPTURES:-50} # further settings of longer runs: E2E_SETTINGS of run
guest_start kinds cloud 'workload=""' --cpus 2 --control "$ctl"
await READY
ask kinds 'KINDS END'
that 'a capture with --waits is taken' guestshot snap --waits --control "$ctl" -o "$out/kinds.kcdata"
guestshot show --json "$out/kinds.kcdata" >"$out/kinds.json"
equal 'the capture is shown as JSON: exit code' $? 0
guestshot show --waits "$out/kinds.kcdata" >"$out/kinds.txt"
equal 'who waits for whom is shown: exit code' $? 0
guest_poweroff

guest_start load cloud 'workload="-c"' --cpus 2 --control "$ctl"
await READY
ask 'load on' 'LOAD on'
n=0 failed='' dead=''
while [ $n -lt "$captures" ]; do
	guestshot snap --waits --control "$ctl" -o "$out/load.kcdata" >>"$out/snap.log" 2>&1 ||
		failed="$failed $n:$?"
	guestshot show --waits "$out/load.kcdata" >"$out/load.txt" || failed="$failed show-$n:$?"
	if grep -q '^Deadlock' "$out/load.txt"; then
		dead="$dead $n"
		cp "$out/load.kcdata" "$out/dead-$n.kcdata"
	fi
	grep -h ' for RCU grace period' "$out/load.txt" >>"$work/rcu"
	grep -h 'waits for.* held by' "$out/load.txt" | sed 's/ 0x.*//; s/.* waits for/waits for/' >>"$work/seen"
	n=$((n + 1))
done
equal "$captures captures of a busy guest are taken (number:exit code of those that are not)" "$failed" ''
equal "no deadlock is in any of $captures captures of a busy guest" "$dead" ''
sort "$work/seen" | uniq -c >"$out/load.seen"
# else there would have been nothing to be mistaken about
that 'in some of them threads wait for what others hold' grep -q 'waits for' "$out/load.seen"
that 'in some of them threads wait for the end of a grace period of RCU' test -s "$work/rcu"
ask 'load off' 'LOAD off'
ask 'churn off' 'CHURN off'
guest_poweroff
finish
