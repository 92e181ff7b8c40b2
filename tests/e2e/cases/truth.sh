# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2154
# Captures of two kernels, each between two listings by the guest itself; truth.check compares them. The matrix of
# kernels (tests/matrix) runs it with others, by TRUTH_KERNELS, …_MEMORY, …_WORDS.
# kernels: cloud full
# time: 600
# shellcheck source=e2e/lib.sh
. ./lib.sh

for kernel in ${TRUTH_KERNELS:-cloud full}; do
	module=''
	{ [ "$kernel" != cloud ] && [ ! -e "$(module_of "$kernel")" ]; } || module=-m
	guest_start "$kernel" "$kernel" "${TRUTH_WORDS:-} workload=\"-u 1 -k 2 $module\"" --cpus 4 --clusters 2 \
		--memory "${TRUTH_MEMORY:-512M}" --control "$ctl"
	await READY "${TRUTH_BOOT_SECONDS:-180}"
	ask 'spin on' 'SPIN on'
	ask 'cgroup on' 'CGROUP on'
	ask 'ztruth before' 'TRUTH END before'
	# the thread that spins in the kernel is in user mode for some instructions between its calls
	tries=10
	while [ $tries -gt 1 ] && guestshot snap --control "$ctl" -o "$out/$kernel.kcdata" &&
		! guestshot show "$out/$kernel.kcdata" | grep -A 40 'w_spin_kernel: on vCPU' | grep -q pread64; do
		tries=$((tries - 1))
	done
	[ $tries -gt 1 ] ||
		that "$kernel: a capture is taken" guestshot snap --control "$ctl" -o "$out/$kernel.kcdata"
	that "$kernel: the capture is there" test -s "$out/$kernel.kcdata"
	ask 'queue on' 'QUEUE on'
	ask 'surroundings one' 'SURROUNDINGS END one'
	that "$kernel: a capture is taken with what stands around processes, and compressed" \
		guestshot snap --control "$ctl" --user --context --compress zstd -o "$out/$kernel.zstd"
	ask 'surroundings two' 'SURROUNDINGS END two'
	ask 'queue off' 'QUEUE off'
	that "$kernel: a compressed capture is shown" guestshot show --group "$out/$kernel.zstd"
	if guestshot log --control "$ctl" >"$out/$kernel.log"; then
		ok "$kernel: the log of the guest's kernel is printed"
	else
		not_ok "$kernel: the log of the guest's kernel is printed" "status $?"
	fi
	ask 'ztruth after' 'TRUTH END after'
	ask 'spin off' 'SPIN off'
	ask 'bpf on' 'BPF on'
	program=$(tr -d '\r' <"$console" | sed -n 's/^BPF 0x[0-9a-f]* \(bpf_prog_[0-9a-f]*_w_spin\)$/\1/p')
	that "$kernel: the guest lists its BPF program" test -n "$program"
	# it is left for a few instructions each time that it has come to its end
	tries=10
	while [ $tries -gt 0 ] && guestshot snap --control "$ctl" -o "$out/$kernel-bpf.kcdata" &&
		! guestshot show "$out/$kernel-bpf.kcdata" | grep -q "^ *$program+.* \[bpf\]\$"; do
		tries=$((tries - 1))
	done
	that "$kernel: a frame in the BPF program is named as the guest names it" test $tries -gt 0
	guestshot btlog show --control "$ctl" >"$out/$kernel.btlog"
	that "$kernel: so it is in the backtrace log" grep -q "^ *$program+.* \[bpf\]\$" "$out/$kernel.btlog"
	[ -z "$module" ] ||
		that "$kernel: the backtrace log names a function and its module" \
			grep -q 'vsock_accept+.* \[vsock\]$' "$out/$kernel.btlog"
	ask 'bpf off' 'BPF off'
	# two threads wait in the same function, one of them under functions whose returns are probed
	ask 'retprobe on' 'RETPROBE on'
	that "$kernel: returns are probed" grep -q '^RETPROBE returns [1-9]' "$console"
	that "$kernel: a capture is taken with probes" guestshot snap --control "$ctl" -o "$out/$kernel-retprobe.kcdata"
	guestshot show "$out/$kernel-retprobe.kcdata" >"$work/retprobe"
	for name in w_plain w_probed; do
		sed -n "/^  thread [0-9]* $name: S/,/^\$/{ /^    /p; }" "$work/retprobe" >"$work/$name"
	done
	that "$kernel: a thread waits under probed functions" grep -q ksys_read "$work/w_plain"
	equal "$kernel: their callers are found" "$(cat "$work/w_probed")" "$(cat "$work/w_plain")"
	ask 'retprobe off' 'RETPROBE off'
	guest_poweroff
	if guestshot show --json "$out/$kernel.kcdata" >"$out/$kernel.json"; then
		ok "$kernel: the capture is shown as JSON"
	else
		not_ok "$kernel: the capture is shown as JSON" "status $?"
	fi
	if guestshot show "$out/$kernel.kcdata" >"$out/$kernel.txt"; then
		ok "$kernel: the capture is shown as text"
	else
		not_ok "$kernel: the capture is shown as text" "status $?"
	fi
	for word in w_futex w_spin_kernel unix_stream_read_generic; do
		that "$kernel: the text names $word" grep -q "$word" "$out/$kernel.txt"
	done
	[ -z "$module" ] ||
		that "$kernel: the text names a function and its module" \
			grep -q 'vsock_accept+.* \[vsock\]$' "$out/$kernel.txt"
done

# a capture that was cut short: what is there is shown, and that it is not all
head -c 20000 "$out/$kernel.kcdata" >"$work/cut.kcdata"
code=0
guestshot show --json "$work/cut.kcdata" >"$work/cut.json" || code=$?
equal 'a capture cut short: exit code' "$code" 2
that 'a capture cut short: is called incomplete' grep -q '"complete": *false' "$work/cut.json"
finish
