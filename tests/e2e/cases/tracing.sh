# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2154
# Probes on a guest with a module that leaks, and on one that does a known mix of work: time, vCPUs' exits, sessions that
# vanish. tracing.check judges what was found of the leak.
# kernels: cloud
# modules: leak
# time: 240
# shellcheck source=e2e/lib.sh
. ./lib.sh

guest_module=leak
guest_start tracing cloud '' --cpus 2 --memory 512M --control "$ctl"
await READY

# what is allocated is recorded, what is freed is erased; the module is there before, so that its functions have names
ask 'leak 0' 'LEAK END 0'
guestshot trace --control "$ctl" --json 'session:::begin { trace("begins") };
	fbt::kmem_cache_alloc:return /comm == "w_leak" && arg1 != 0/ { record(arg1, 0) };
	fbt::kmem_cache_free:entry { erase(arg1) }' >"$out/leaks.trace" 2>"$out/leaks.errors" &
tracer=$!
tries=600
until grep -q begins "$out/leaks.trace"; do
	tries=$((tries - 1))
	[ $tries -gt 0 ] && kill -0 $tracer 2>/dev/null || give_up 'allocations are traced' "$(cat "$out/leaks.errors")"
	sleep 0.1
done
ask "leak ${LEAK_ROUNDS:-2500}" "LEAK END ${LEAK_ROUNDS:-2500}"
kill -INT $tracer
that 'a trace of allocations ends' wait $tracer
free_of 'no allocation is missing' 'dropped' "$out/leaks.errors"
that 'leaks are found' guestshot btlog leaks --log probes --control "$ctl"
cp "$work/that" "$out/leaks.txt"
guestshot btlog leaks --log probes --max 0 --json --control "$ctl" >"$out/leaks.json"

say 'mix on'
await 'MIX on'

# the console is a device: what the guest says makes its vCPUs leave it; 150994944 is 0x9000000
guestshot trace --control "$ctl" --json 'vcpu::mmio:exit /arg0 >= 150994944 && arg0 < 150999040/ { count() by comm; exit() }' \
	>"$out/exits.json" 2>"$out/exits.errors" &
tracer=$!
tries=60
while kill -0 $tracer 2>/dev/null && [ $tries -gt 0 ]; do
	say 'mix on'
	sleep 1
	tries=$((tries - 1))
done
that 'a trace ends when its program says so' wait $tracer
that 'output on the console is an exit of a vCPU' grep -q '"value":[1-9]' "$out/exits.json"

# what the console says is told without a trigger, and no capture is taken for it
guestshot trace --control "$ctl" --json 'guest:::oops { trace("oops"); exit() }' >"$out/oops.json" 2>"$out/oops.errors" &
tracer=$!
tries=60
while kill -0 $tracer 2>/dev/null && [ $tries -gt 0 ]; do
	say oops
	sleep 1
	tries=$((tries - 1))
done
kill $tracer 2>/dev/null # unless it has ended by itself
wait $tracer
that 'an oops is traced without a trigger' grep -q '"probe":"guest:::oops"' "$out/oops.json"

# a BPF program's code has a name
ask 'bpf on' 'BPF on'
guestshot trace --control "$ctl" --json 'profile-20 /comm == "w_bpf"/ { trace(symbol) }' >"$out/bpf.json" 2>&1 &
tracer=$!
await_in "$out/bpf.json" 'bpf_prog_[0-9a-f]*_w_spin \[bpf\]'
kill $tracer
wait $tracer
that 'a BPF program is told by its name' grep -q 'bpf_prog_[0-9a-f]*_w_spin \[bpf\]' "$out/bpf.json"
ask 'bpf off' 'BPF off'

# until the samples are enough, however slow the guest is
guestshot trace --control "$ctl" --json \
	'profile-20 { count() by comm; count() by symbol }; tick-5s { exit() }' >"$out/profile.json" 2>"$out/profile.errors"
that 'what vCPUs execute is profiled' grep -q '"keys":\["w_mix"' "$out/profile.json"
free_of 'nothing is lost' 'dropped' "$out/profile.errors"

# stops by others are seen; a client that is killed leaves nothing behind
guestshot trace --control "$ctl" --json 'vcpu:::stop, vcpu:::resume { count() by vcpu }; tick-1s { trace(vcpu) }' >"$out/killed.json" 2>&1 &
tracer=$!
await_in "$out/killed.json" '"probe":"profile:::tick-1s"'
that 'ticks are traced' grep -q '"probe":"profile:::tick-1s"' "$out/killed.json"
kill -9 $tracer
wait $tracer 2>/dev/null
tries=60
until guestshot_sessions=$(control '{"execute": "trace-conf"}') && case $guestshot_sessions in *'"sessions": 0,'*) true ;; *) false ;; esac || [ $tries = 0 ]; do
	sleep 1
	tries=$((tries - 1))
done
case $guestshot_sessions in
*'"sessions": 0,'*) ok 'the session of a client that was killed is gone' ;;
*) not_ok 'the session of a client that was killed is gone' "$guestshot_sessions" ;;
esac
that 'a capture is taken as before' guestshot snap --control "$ctl" -o "$out/capture.kcdata"
say poweroff
that 'the guest ends by itself' wait "$guest"
guest=''
finish
