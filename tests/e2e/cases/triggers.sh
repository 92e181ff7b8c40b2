# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2154
# Captures that take themselves: what happens to a guest leads to one that says why it was taken, and a
# schedule stays in its budget. triggers.check judges them.
# kernels: cloud
# time: 500
# shellcheck source=e2e/lib.sh
. ./lib.sh

# Wait for a trigger's capture that says this of why it was taken. The emulated guest is slow: there may be
# others, of threads that took their time when it booted.
await_capture() { # REASON REGEX
	tries=900
	while :; do
		for file in "$dir"/*-"$1".kcdata; do
			[ -e "$file" ] || continue
			case $seen in *"$file"*) continue ;; esac
			seen="$seen $file"
			guestshot show "$file" >"$work/shown" 2>&1 || :
			if grep -q "^Taken because of: $1.*$2" "$work/shown"; then
				ok "a capture is taken: $1"
				return
			fi
		done
		tries=$((tries - 1))
		[ $tries -gt 0 ] || give_up "a capture is taken: $1" "$(ls "$dir")" "$(cat "$errors")"
		sleep 0.1
	done
}
seen=''

dir=$out/panic
guest_start panic cloud '' --cpus 2 --dir "$dir" --max-stopped 100% \
	--trigger panic,oops,hung-task=2s,soft-lockup=2s --trigger 'console=^ECHO (find|keep),me$'
await READY
ask 'echo leave,me' 'ECHO leave,me'
ask 'echo find,me' 'ECHO find,me'
await_capture console ': ECHO find,me$'
say oops
await_capture oops 'Internal error: Oops'
ask 'hang on' 'HANG on'
await_capture hung-task 'thread [0-9]* w_hung, for'
ask 'hang off' 'HANG off'
ask 'hog on' 'HOG on'
await_capture soft-lockup 'vCPU 1, thread [0-9]* w_spin_kernel, for'
ask 'hog off' 'HOG off'
say crash
guest_end
equal 'a panic: the exit code says so' "$code" 4
await_capture panic 'Kernel panic - not syncing: sysrq triggered crash'
that 'a panic: one line says so' grep -q "guestshot: error: the guest's kernel panicked" "$errors"

dir=$out/timeout
guest_start timeout cloud '' --timeout 10s --trigger timeout --dir "$dir"
guest_end 60
equal '--trigger timeout: the exit code is still that of the timeout' "$code" 124
await_capture timeout ''

dir=$out/schedule
guest_start schedule cloud 'workload="-c"' --cpus 2 --dir "$dir" --every 500ms --full-every 3 --keep 8 \
	--max-stopped 10% --control "$ctl"
await READY
# those of before READY may be of a guest without a kernel yet: wait until all of them are gone. A full one goes
# after its deltas, so it takes a few more.
counted() { # MEMBER: what the schedule's folder says of it
	control '{"execute": "schedules"}' | sed "s/.*\"$1\": \([0-9]*\).*/\1/"
}
early=$(($(counted captures) + $(counted removed)))
tries=1200
until [ "$(counted removed)" -ge $((early + 3)) ]; do
	tries=$((tries - 1))
	[ $tries -gt 0 ] || give_up 'a schedule goes on' "$(control '{"execute": "schedules"}')" "$(cat "$errors")"
	sleep 0.2
done
that 'a schedule can be ended' test -n "$(control '{"execute": "schedule-remove", "arguments": {"id": 1}}' | grep '"removed": true')"
that 'then there is none' test -n "$(control '{"execute": "schedules"}' | grep '"schedules": \[\]')"
say poweroff
guest_end
equal 'a guest with a schedule powers off with exit code 0' "$code" 0
finish
