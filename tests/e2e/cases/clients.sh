# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2154
# Clients of the control socket that get in each other's way, or make no sense, or vanish.
# kernels: cloud
# time: 240
# shellcheck source=e2e/lib.sh
. ./lib.sh

guest_start clients cloud '' --cpus 2 --control "$ctl"
await READY

# answers [WHAT]: the server still serves
answers() {
	case $(control '{"execute": "status", "id": 7}') in
	'{"return": '*'"id": 7}') ok "$1: the next client is answered" ;;
	*) not_ok "$1: the next client is answered" "$(control '{"execute": "status", "id": 7}')" ;;
	esac
}

# error CLASS WHAT: what standard input holds is answered with an error of that class
error() {
	sockpoke -n 2 "$ctl" >"$work/answer"
	case $(sed -n 2p "$work/answer") in
	'{"error": {"class": "'"$1"'"'*) ok "$2: is an error of class $1" ;;
	*) not_ok "$2: is an error of class $1" "$(cat "$work/answer")" ;;
	esac
	answers "$2"
}

answers 'a first client'

# two at once
many() { # NAME
	n=0
	while [ $n -lt 10 ]; do
		guestshot snap --control "$ctl" -o "$out/$1.kcdata" >/dev/null 2>>"$out/many.errors" || return 1
		n=$((n + 1))
	done
}
many a &
first=$!
many b &
second=$!
that 'two clients at once: the first has its captures' wait $first
that 'two clients at once: so has the second' wait $second
for n in a b; do
	that "two clients at once: capture $n can be read" guestshot show --json "$out/$n.kcdata"
done

echo 'rubbish' | error invalid-json 'a line of rubbish'
head -c 2000 /dev/urandom | tr -d '\n' | sed 's/$/\n/' | error invalid-json 'random bytes'
echo '[]' | error invalid-request 'a list'
echo '{"execute": 5}' | error invalid-request 'a command that is a number'
echo '{"execute": "selfdestruct"}' | error unknown-command 'an unknown command'
echo '{"execute": "snap", "arguments": {"frobnicate": 1}}' | error invalid-argument 'an unknown argument'
echo '{"execute": "snap", "arguments": {"to": "file", "path": "relative"}}' | error invalid-argument 'a relative path'
echo '{"execute": "cont"}' | error not-stopped 'cont without stop'
head -c 100000 /dev/zero | tr '\0' 'x' | error too-big 'a line without end'
awk 'BEGIN { for (i = 0; i < 5000; i++) printf "["; print "" }' | error invalid-json 'deep nesting'

# a rubbish line does not spoil the next one
printf 'rubbish\n{"execute": "status", "id": "after"}\n' | sockpoke -n 3 "$ctl" >"$work/answer"
that 'after a line of rubbish the same connection is answered' grep -q '"return".*"id": "after"' "$work/answer"

# who vanishes
echo '{"execute": "snap"}' | sockpoke -v "$ctl"
answers 'a client that vanished before its capture came'
printf '{"execute": "sn' | sockpoke -v "$ctl"
answers 'a client that vanished in mid-line'
: | sockpoke -v "$ctl"
answers 'a client that said nothing'
echo '{"execute": "stop"}' | sockpoke -v "$ctl"
ask 'echo stop-released' 'ECHO stop-released'
ok 'a client that stopped the guest and vanished: the guest goes on'
answers 'a client that stopped the guest and vanished'

# who does not read: many requests, no answer taken, and gone
awk 'BEGIN { for (i = 0; i < 20000; i++) print "{\"execute\": \"help\"}" }' | sockpoke -t 1 "$ctl" >/dev/null
answers 'a client that did not read'

guest_poweroff
that 'the control socket is gone with the guest' test ! -e "$ctl"
finish
