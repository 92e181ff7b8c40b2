# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2154
# Entries and returns of functions: none is missed on any vCPU, the function's result stays right, the guest's
# own breakpoints are its own, and its text is as before. fbt.check compares the text.
# kernels: cloud
# time: 400
# shellcheck source=e2e/lib.sh
. ./lib.sh

call=__arm64_sys_sched_get_priority_max
probes="fbt::$call:entry { count() }; fbt::$call:return /arg1 == 99/ { count() }"

member() { # NAME: of what trace-conf says of breakpoints
	control '{"execute": "trace-conf"}' | sed "s/.*\"$1\": \([0-9]*\).*/\1/"
}

# What count() has of a probe.
total() { # FILE PROBE
	tr '}' '\n' <"$1" | grep "\"probe\":\"$2\",\"function\":\"count\"" | sed 's/.*"value":\([0-9]*\).*/\1/'
}

# Trace in the background until the breakpoints are there.
trace_start() { # FILE PROGRAM
	guestshot trace --control "$ctl" --json "$2" >"$1" 2>"$1.errors" &
	tracer=$!
	tries=600
	until [ "$(($(member hardware) + $(member text)))" -gt 0 ]; do
		tries=$((tries - 1))
		[ $tries -gt 0 ] && kill -0 $tracer 2>/dev/null || give_up 'breakpoints are set' "$(cat "$1.errors")"
		sleep 0.1
	done
}

trace_end() { # FILE
	kill -INT $tracer
	wait $tracer
	free_of "nothing is lost ($2)" 'dropped|error' "$1.errors"
}

# One operation on the persistent session $session.
of_session() { # OPERATION [MORE ARGUMENTS]
	control "{\"execute\": \"trace-$1\", \"arguments\": {\"session\": $session${2:+, $2}}}"
}

says() { # SENTENCE ANSWER PIECE
	case $2 in
	*"$3"*) ok "$1" ;;
	*) not_ok "$1" "no $3 in $2" ;;
	esac
}

# What the session's aggregation has on all vCPUs; all that is handed over is in $work/entries.
sum_of() { # AGGREGATION
	grep "\"aggregation\": $1," "$work/entries" | sed 's/.*"value": \([0-9]*\).*/\1/' | awk '{ n += $1 } END { print n + 0 }'
}

take_sums() {
	for vcpu in 0 1 2 3; do of_session agg-snap "\"vcpu\": $vcpu"; done | tr '}' '\n' >"$work/entries"
}

guest_start fbt cloud '' --cpus 4 --memory 128M --control "$ctl"
await READY
guestshot dump --control "$ctl" -o "$out/before.core" >/dev/null 2>&1 || give_up 'a dump before'

# one function: hardware breakpoints
trace_start "$out/one.json" "$probes"
equal 'few are in hardware' "$(member text)" 0
ask 'count 2000' 'COUNT 2000 on 4 wrong 0'
ask 'trap' 'TRAP ok'
# a kprobe of the guest's own comes where a hardware breakpoint is, and other sessions come and go
ask "kprobe add $call" "KPROBE add $call ok"
says "a kprobe of the guest's is in nobody's way" \
	"$(control '{"execute": "trace-enable", "arguments": {"program": "fbt::do_exit:entry { count() }"}}')" '"matched": 1'
ask 'count 1000' 'COUNT 1000 on 4 wrong 0'
ask "kprobe hits $call" "KPROBE hits $call"
that 'a kprobe where a breakpoint is counts each call' grep -q "KPROBE hits $call 1000 missed 0" "$console"
trace_end "$out/one.json" 'one function'
equal 'each entry is counted' "$(total "$out/one.json" "fbt:vmlinux:$call:entry")" 3000
equal 'each return is counted, with its result' "$(total "$out/one.json" "fbt:vmlinux:$call:return")" 3000

# breakpoints elsewhere in the text; and one where the kprobe is
: >"$console"
trace_start "$out/others.json" 'fbt::__arm64_sys_c*:entry, fbt::__arm64_sys_c*:return { sum(1) }'
ask 'count 1000' 'COUNT 1000 on 4 wrong 0'
ask "kprobe hits $call" "KPROBE hits $call"
that 'a kprobe beside breakpoints counts each call' grep -q "KPROBE hits $call 2000 missed 0" "$console"
trace_end "$out/others.json" 'other functions'
says 'a function with a kprobe is refused, and the reason is given' \
	"$(control "{\"execute\": \"trace-enable\", \"arguments\": {\"program\": \"fbt::do_exit:entry, $probes\"}}")" \
	"fbt:vmlinux:$call:entry: the guest has a kprobe of its own"
equal 'nothing of what was refused is there' "$(member hardware)$(member text)" 00
ask "kprobe del $call" "KPROBE del $call ok"

# all system calls at once: in the text
: >"$console"
trace_start "$out/all.json" "$probes; fbt::__arm64_sys_*:entry, fbt::__arm64_sys_*:return { sum(1) }"
that 'hundreds are in the text' test "$(member text)" -ge 400
ask 'count 10000' 'COUNT 10000 on 4 wrong 0'
ask 'trap' 'TRAP ok'
that "the guest's own breakpoint was given back" test "$(member given_back)" -ge 2
ask "kprobe add $call" "KPROBE add $call"
that "the guest refuses a kprobe where its text has a breakpoint" grep -q "KPROBE add $call Invalid argument" "$console"
trace_end "$out/all.json" 'all system calls'
equal 'each entry is counted among hundreds' "$(total "$out/all.json" "fbt:vmlinux:$call:entry")" 10000
equal 'each return is counted among hundreds' "$(total "$out/all.json" "fbt:vmlinux:$call:return")" 10000
equal 'none is left' "$(member hardware)$(member text)" 00
equal 'the guest wrote over none' "$(member overwritten)" 0

# a module's functions: found when it comes, gone with it, and there again
: >"$console"
made='fbt:vsock:vsock_create'
program="$made:entry { count() }; $made:return /arg1 == 0/ { count() }; fbt:vsock::entry, fbt:vsock::return { sum(1) }; $made:entry { count() by symbol, stack }"
answer=$(control "{\"execute\": \"trace-enable\", \"arguments\": {\"persistent\": true, \"program\": \"$program\"}}")
says 'a module that is not there has no probes' "$answer" '"matched": 0,'
session=$(echo "$answer" | sed 's/.*"session": \([0-9]*\).*/\1/')
ask 'module load' 'MODULE load'
matched=$(of_session enable | sed 's/.*"matched": \([0-9]*\).*/\1/')
that 'functions of a module that was loaded since are found' test "$matched" -ge 60
that 'they are in the text' test "$(member text)" -ge 50
of_session go >/dev/null
ask 'count 400 sockets' 'COUNT 400 on 4 wrong 0'
take_sums
equal "each entry of a module's function is counted" "$(sum_of 1)" 400
equal 'each return is' "$(sum_of 2)" 400
that 'its functions have names' grep -q '\["vsock_create \[vsock\]", \["vsock_create \[vsock\]", "__sock_create+' "$work/entries"
ask 'module unload' 'MODULE unload'
says 'the session says that its probes are gone' "$(of_session status)" "\"gone\": $matched,"
equal 'none of their breakpoints is left' "$(member hardware)$(member text)" 00
: >"$console"
ask 'churn on' 'CHURN on'
ask 'count 1000' 'COUNT 1000 on 4 wrong 0'
ask 'churn off' 'CHURN off'
ask 'module load' 'MODULE load'
says 'they are there again when it is' "$(of_session enable)$(of_session status)" '"gone": 0,'
ask 'count 400 sockets' 'COUNT 400 on 4 wrong 0'
take_sums
equal 'each entry is counted as before' "$(sum_of 1)" 400
of_session close >/dev/null
equal 'nothing of a module is left when the session ends' "$(member hardware)$(member text)" 00
equal 'memory that was freed was not written to' "$(member overwritten)" 0

# enabled and disabled under load: a session ends with its connection
: >"$console"
say 'churn on'
await 'CHURN on'
rounds=0
while [ $rounds -lt "${FBT_ROUNDS:-25}" ]; do
	case $(control '{"execute": "trace-enable", "arguments": {"program": "fbt::__arm64_sys_c*:entry, fbt::do_*:return, fbt::wake_up_*:entry { count() }"}}') in
	*'"matched"'*) rounds=$((rounds + 1)) ;;
	*) give_up 'breakpoints can be set and taken away again and again' ;;
	esac
done
ok 'breakpoints can be set and taken away again and again'
ask 'churn off' 'CHURN off'
ask 'count 1000' 'COUNT 1000 on 4 wrong 0'
guestshot dump --control "$ctl" -o "$out/after.core" >/dev/null 2>&1 || give_up 'a dump after'
say poweroff
guest_end
equal 'the guest powers off' "$code" 0
finish
