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

guest_start fbt cloud '' --cpus 4 --memory 128M --control "$ctl"
await READY
guestshot dump --control "$ctl" -o "$out/before.core" >/dev/null 2>&1 || give_up 'a dump before'

# one function: hardware breakpoints
trace_start "$out/one.json" "$probes"
equal 'few are in hardware' "$(member text)" 0
ask 'count 2000' 'COUNT 2000 on 4 wrong 0'
ask 'trap' 'TRAP ok'
trace_end "$out/one.json" 'one function'
equal 'each entry is counted' "$(total "$out/one.json" "fbt:vmlinux:$call:entry")" 2000
equal 'each return is counted, with its result' "$(total "$out/one.json" "fbt:vmlinux:$call:return")" 2000

# all system calls at once: in the text
: >"$console"
trace_start "$out/all.json" "$probes; fbt::__arm64_sys_*:entry, fbt::__arm64_sys_*:return { sum(1) }"
that 'hundreds are in the text' test "$(member text)" -ge 400
ask 'count 10000' 'COUNT 10000 on 4 wrong 0'
ask 'trap' 'TRAP ok'
that "the guest's own breakpoint was given back" test "$(member given_back)" -ge 2
trace_end "$out/all.json" 'all system calls'
equal 'each entry is counted among hundreds' "$(total "$out/all.json" "fbt:vmlinux:$call:entry")" 10000
equal 'each return is counted among hundreds' "$(total "$out/all.json" "fbt:vmlinux:$call:return")" 10000
equal 'none is left' "$(member hardware)$(member text)" 00
equal 'the guest wrote over none' "$(member overwritten)" 0

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
