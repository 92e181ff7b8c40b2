# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2154
# A guest that does a known mix of work is sampled, and then traced; sampling.check compares the shares.
# kernels: cloud
# time: 330
# shellcheck source=e2e/lib.sh
. ./lib.sh

seconds=${SAMPLE_SECONDS:-20} hz=${SAMPLE_HZ:-20} cpus=${SAMPLE_CPUS:-4}
trace_seconds=${TRACE_SECONDS:-8} trace_hz=${TRACE_HZ:-20}

guest_start mix cloud '' --cpus "$cpus" --clusters 2 --memory 512M --control "$ctl"
await READY
say 'mix on'
await 'MIX on'
sleep 2

# the guest's own speed, before it is sampled
say 'mix quiet-begin'
await '^MIX quiet-begin'
sleep 10
say 'mix quiet-end'
await '^MIX quiet-end'

say 'mix begin'
await '^MIX begin'
that 'the guest is sampled' guestshot sample --control "$ctl" --hz "$hz" --for "${seconds}s" -o "$out/samples.kcdata"
cp "$work/that" "$out/sample.txt"
say 'mix end'
await '^MIX end'
that 'stacks are counted' guestshot btlog top --json --max 0 "$out/samples.kcdata"
cp "$work/that" "$out/stacks.json"
that 'operations are counted' guestshot btlog top --by operation --json "$out/samples.kcdata"
cp "$work/that" "$out/operations.json"

# The same by a program. Its records do not fit: what is dropped is counted.
say 'mix trace-begin'
await '^MIX trace-begin'
guestshot trace --control "$ctl" --for "${trace_seconds}s" --json --buffer 4K --interval 10s "profile-$trace_hz {
	count() by stack; count() by vcpu; min(arg0) by vcpu; max(arg0) by vcpu; min(arg1) by vcpu; max(arg1) by vcpu;
	min(time_ns) by vcpu; max(time_ns) by vcpu;
	trace(\"at\", arg0, arg1, time_ns, vcpu, pc, sp, lr, pstate, stack) }" >"$out/trace.json" 2>"$out/trace.errors"
equal 'the guest is traced' $? 0
echo "$trace_hz" >"$out/trace.hz"
say 'mix trace-end'
await '^MIX trace-end'

# captures feed the other log
that 'a capture is taken' guestshot snap --control "$ctl" -o "$out/capture.kcdata"
that 'its threads are in the log' guestshot btlog top --by function --log threads --json --max 0 --control "$ctl"
if grep -q '"__switch_to"' "$work/that"; then
	ok 'blocked threads are among them'
else
	not_ok 'blocked threads are among them' "$(head -n 20 "$work/that")"
fi
that 'a log is emptied' guestshot btlog reset --log threads --control "$ctl"
guestshot btlog list --json --control "$ctl" >"$out/list.json"
say poweroff
that 'the guest ends by itself' wait "$guest"
guest=''
finish
