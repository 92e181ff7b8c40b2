# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2154
# 200 captures in a row of a guest whose processes come and go all the time; churn.check reads each.
# kernels: cloud
# time: 400
# shellcheck source=e2e/lib.sh
. ./lib.sh

captures=200
guest_start churn cloud 'workload="-c"' --cpus 4 --clusters 2 --control "$ctl"
await READY
n=0 failed=''
while [ $n -lt $captures ]; do
	guestshot snap --control "$ctl" -o "$out/$n.kcdata" >>"$out/snap.log" 2>&1 || failed="$failed $n:$?"
	n=$((n + 1))
done
equal "$captures captures are taken, each complete (number:exit code of those that are not)" "$failed" ''
ask 'churn off' 'CHURN off'
guestshot status --control "$ctl" >"$out/status"
guest_poweroff
finish
