# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2154
# The live view of a guest with a hung thread: in a pipe, and on a terminal; and what it costs the guest.
# watch.check judges what it says and costs.
# kernels: cloud
# tools: tmux
# time: 240
# shellcheck source=e2e/lib.sh
. ./lib.sh
export LC_ALL=C.UTF-8

hung='thread [0-9]* w_hung: D (disk sleep) in '

# Wait until a command's output matches.
await_output() { # SENTENCE REGEX COMMAND [ARG]...
	sentence=$1 regex=$2 tries=300
	shift 2
	until "$@" >"$work/seen" 2>&1 && grep -q "$regex" "$work/seen"; do
		tries=$((tries - 1))
		[ $tries -gt 0 ] || give_up "$sentence" "no $regex" "$(cat "$work/seen")" "$(cat "$errors")"
		sleep 0.1
	done
	ok "$sentence"
}

guest_start guest cloud '' --cpus 2 --control "$ctl"
await READY
ask 'hang on' 'HANG on'

# --- in a pipe

guestshot watch --control "$ctl" --interval 300ms --max-stopped 20% >"$out/endless" &
watcher=$!
await_output 'in a pipe: the hung thread is shown' "$hung" cat "$out/endless"
kill $watcher
{ wait $watcher; } 2>/dev/null
equal 'in a pipe: a signal ends it' $? 143

# what the one that was killed had asked for is not to be charged to the next
await_output 'nothing is under way' '"state": "running".*"queued": 0' control '{"execute": "status"}'
control '{"execute": "status"}' >"$out/before.json"
guestshot watch --control "$ctl" --interval 10ms --max-stopped 5% --count 6 | cat >"$out/counted"
control '{"execute": "status"}' >"$out/after.json"
guestshot watch --control "$ctl" --count 1 >"$out/one"
equal '--count: the exit code is 0' $? 0

# --- on a terminal

term() { # COMMAND [ARG]...   of tmux
	tmux -L "watch.$$" -f /dev/null "$@"
}

screen() {
	term capture-pane -p -t view
}

line() { # NUMBER
	screen | sed -n "$1p"
}

# What the terminal is like: its settings, whether a program has the second screen, whether the cursor is seen.
terminal_is() {
	stty -a <"$tty"
	term display-message -p -t view '#{alternate_on} #{cursor_flag}'
}

trap 'term kill-server 2>/dev/null; leave' EXIT
term new-session -d -s view -x 110 -y 40 'exec sh'
tty=$(term display-message -p -t view '#{pane_tty}')
[ -n "$tty" ] || give_up 'there is a terminal'
cat >"$work/view" <<VIEW
cd $work
sh -c 'echo \$\$ >$work/pid; exec guestshot watch --control $ctl --interval 300ms --max-stopped 20%'
echo "ended with \$?"
VIEW

begin() {
	term send-keys -t view "clear; . $work/view" Enter
	await_output "$1" "$hung" screen
}

ended() { # SENTENCE CODE
	await_output "$1: exit code $2" "^ended with $2" screen
	# the shell has its own ways with it, too, once it is its turn
	tries=300
	while terminal_is >"$work/then" && ! cmp -s "$work/first" "$work/then" && [ $tries -gt 0 ]; do
		tries=$((tries - 1))
		sleep 0.1
	done
	equal "$1: the terminal is as it was" "$(cat "$work/then")" "$(cat "$work/first")"
}

await_output 'there is a shell' '[#$] *$' screen
terminal_is >"$work/first"
begin 'on a terminal: the hung thread is shown'
screen >"$out/screen"
terminal_is >"$work/then"
if cmp -s "$work/first" "$work/then"; then not_ok 'it is a screen of its own'; else ok 'it is a screen of its own'; fi
term send-keys -t view ' '
await_output 'space pauses' 'paused: space goes on' screen
term send-keys -t view s
await_output 's saves the capture' 'saved to guestshot-[0-9]*T[0-9]*\.[0-9]*Z\.kcdata' screen
saved=$(ls "$work"/guestshot-*.kcdata)
equal 'one file is saved' "$(echo "$saved" | wc -l)" 1
guestshot show --state D "$saved" >"$work/shown"
that 'it is the capture' grep -q '  thread [0-9]* w_hung: D (disk sleep)' "$work/shown"
term resize-window -t view -x 60 -y 16
await_output 'a smaller window is filled' '^lines 1-[0-9]* of ' line 16
term send-keys -t view NPage
await_output 'a page down' 'lines \([2-9]\|[1-9][0-9]\)[0-9]*-[0-9]* of ' screen
term send-keys -t view Home Down
await_output 'the beginning, and a line down' 'lines 2-[0-9]* of ' screen
term resize-window -t view -x 110 -y 40
term send-keys -t view q
ended 'q' 0

begin 'it begins anew before SIGTERM'
kill "$(cat "$work/pid")"
ended SIGTERM 143
begin 'it begins anew before the guest ends'
say 'hang off'
say poweroff
guest_end
equal 'the guest powers off with exit code 0' "$code" 0
ended 'a guest that is gone' 69
screen >"$out/gone"
that 'a guest that is gone: that is said' grep -q '^guestshot: error: the guest is gone: ' "$out/gone"
finish
