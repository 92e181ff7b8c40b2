# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2154
# A full capture and 20 deltas of a guest that changes all the time are what a full capture at the end is;
# deltas.check compares. A delta of a guest in which 2,000 threads wait is small.
# kernels: cloud
# time: 300
# shellcheck source=e2e/lib.sh
. ./lib.sh

deltas=20
guest_start deltas cloud 'workload="-c -n 6x12"' --cpus 4 --clusters 2 --control "$ctl"
await READY
that 'a full capture is taken' guestshot snap --control "$ctl" -o "$out/0.kcdata"
n=1 failed=''
while [ $n -lt $deltas ]; do
	guestshot snap --control "$ctl" --since "$out/$((n - 1)).kcdata" -o "$out/$n.kcdata" \
		>>"$out/snap.log" 2>&1 || failed="$failed $n:$?"
	n=$((n + 1))
done
equal "deltas are taken, each complete (number:exit code of those that are not)" "$failed" ''

# the guest stands still for the last delta and the full capture: what holds it is a connection of its own
echo '{"execute": "stop", "id": "held"}' >"$work/hold"
sockpoke -t 200000 "$ctl" <"$work/hold" >"$work/held" &
holder=$!
tries=300
until grep -q '"id": "held"' "$work/held" || [ $tries -eq 0 ]; do
	tries=$((tries - 1))
	sleep 0.1
done
that 'the guest is held' grep -q '"return".*"id": "held"' "$work/held"
that 'the last delta is taken' \
	guestshot snap --control "$ctl" --since "$out/$((n - 1)).kcdata" -o "$out/$n.kcdata"
that 'a full capture is taken of the same moment' guestshot snap --control "$ctl" -o "$out/end.kcdata"
that 'a delta since the first capture is taken of it, too' \
	guestshot snap --control "$ctl" --since "$out/0.kcdata" -o "$out/long.kcdata"
kill $holder
wait $holder || :
ask 'churn off' 'CHURN off'
guest_poweroff

guest_start idle cloud 'workload="-n 20x100"' --cpus 4 --clusters 2 --memory 1G --control "$ctl"
await READY
sleep 2
that 'a full capture of 2,000 threads is taken' guestshot snap --control "$ctl" -o "$out/idle.kcdata"
that 'a delta of them is taken' \
	guestshot snap --control "$ctl" --since "$out/idle.kcdata" -o "$out/idle-delta.kcdata"
guest_poweroff
finish
