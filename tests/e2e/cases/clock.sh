# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2154
# A guest that was held for 5 seconds has not seen them pass.
# kernels: cloud
# time: 150
# shellcheck source=e2e/lib.sh
. ./lib.sh

# clock_lines: the times that the guest has told, as a line each; one still being written is none
clock_lines() {
	sed -n 's/^CLOCK mono \([0-9]*\)\.\([0-9]\{3\}\)[0-9]\{6\} real [0-9]*\.[0-9]\{9\}.*/\1\2/p' "$console"
}

# guest_clock: the guest's monotonic clock, in milliseconds
guest_clock() {
	seen=$(clock_lines | wc -l)
	say clock
	tries=300
	until [ "$(clock_lines | wc -l)" -gt "$seen" ]; do
		tries=$((tries - 1))
		[ $tries -gt 0 ] || give_up 'the guest tells the time' "$(tail -n 3 "$console")"
		sleep 0.1
	done
	clock_lines | tail -n 1
}

host_clock() {
	sed 's/\([0-9]*\)\.\([0-9][0-9]\).*/\1\20/' /proc/uptime
}

guest_start clock cloud '' --cpus 2 --control "$ctl"
await READY
host0=$(host_clock)
guest0=$(guest_clock)
# the stop is the connection's: it lasts as long as that; the 5 s begin when it is in force
(
	echo '{"execute": "stop"}'
	until [ -e "$work/enough" ]; do
		sleep 0.1
	done
	echo '{"execute": "cont"}'
) | sockpoke -n 3 -t 60000 "$ctl" >"$out/answers" &
poke=$!
tries=300
until guestshot status --control "$ctl" | grep -q '^state *stopped'; do
	tries=$((tries - 1))
	[ $tries -gt 0 ] || give_up 'the guest stops' "$(cat "$out/answers")"
	sleep 0.1
done
sleep 5
: >"$work/enough"
wait $poke
equal 'stop and cont are answered' "$(grep -c '"return"' "$out/answers")" 2
guest1=$(guest_clock)
host1=$(host_clock)
passed_guest=$((guest1 - guest0)) passed_host=$((host1 - host0))
that "5 s of standstill: the guest's clock missed them (host $passed_host ms, guest $passed_guest ms)" \
	test $((passed_host - passed_guest)) -ge 4900
guest2=$(guest_clock)
that 'the guest'\''s clock goes on afterwards' test "$guest2" -ge "$guest1"
guest_poweroff
finish
