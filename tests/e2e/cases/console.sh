# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2154
# The console: all output arrives, input gets through, a terminal of its own works.
# kernels: cloud
# time: 200
. ./lib.sh

guest_start stdio cloud ''
await READY
ask 'flood 8' 'FLOOD END 8'
equal 'all 8 KiB of output arrive' "$(tr -d '\r' <"$console" | grep -c '^x\{63\}$')" 128
n=0
while [ $n -lt 50 ]; do
	say "echo word-$n-0123456789abcdefghijklmnopqrstuvwxyz"
	n=$((n + 1))
done
await 'ECHO word-49-'
equal '50 lines typed at once all arrive' \
	"$(tr -d '\r' <"$console" | grep -c '^ECHO word-[0-9]*-0123456789abcdefghijklmnopqrstuvwxyz$')" 50
guest_poweroff

guest_start pty cloud '' --console pty
tries=100
until pty=$(sed -n 's/^guestshot: console on //p' "$errors") && [ -n "$pty" ]; do
	tries=$((tries - 1))
	[ $tries -gt 0 ] || give_up 'guestshot says which terminal the console is on' "$(cat "$errors")"
	sleep 0.1
done
exec 5<>"$pty"
cat <&5 >>"$console" &
reader=$!
await READY
ok 'a terminal shows what the guest says'
echo 'echo heard' >&5
await 'ECHO heard'
ok 'what is typed on a terminal reaches the guest'
echo poweroff >&5
guest_end
equal 'a guest with its console on a terminal powers off with exit code 0' "$code" 0
kill $reader 2>/dev/null
finish
