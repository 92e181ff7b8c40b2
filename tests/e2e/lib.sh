# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2153,SC2154,SC2120,SC2119
# For the scripts in cases/, which run on the ARM64 host (in the emulated one by busybox): a guest to talk to,
# and TAP lines. $case is the case's name, $out its folder in the results, $ctl a path for a control socket.

out=$RESULTS/$case
work=/tmp/e2e-$case.$$
ctl=$work/ctl
guest='' failures=0
mkdir -p "$out" "$work"
trap leave EXIT
trap 'exit 143' TERM INT

leave() {
	[ -z "$guest" ] || kill -9 "$guest" 2>/dev/null
	rm -rf "$work"
}

ok() { # SENTENCE
	echo "ok - $case: $1"
}

not_ok() { # SENTENCE [DETAIL]...
	echo "not ok - $case: $1"
	shift
	[ $# -eq 0 ] || printf '%s\n' "$@" | sed 's/^/#   /'
	failures=$((failures + 1))
}

# A case that cannot go on.
give_up() {
	not_ok "$@"
	exit 1
}

equal() { # SENTENCE GOT WANTED
	if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1" "got $2, wanted $3"; fi
}

# COMMAND succeeds.
that() { # SENTENCE COMMAND [ARG]...
	sentence=$1
	shift
	if "$@" >"$work/that" 2>&1; then ok "$sentence"; else not_ok "$sentence" "$*: status $?" "$(cat "$work/that")"; fi
}

# FILE holds nothing that matches REGEX.
free_of() { # SENTENCE REGEX FILE
	if grep -q -E "$2" "$3"; then not_ok "$1" "$(grep -E "$2" "$3" | head -n 5)"; else ok "$1"; fi
}

finish() {
	exit $((failures > 0))
}

# --- a guest --------------------------------------------------------------------------------------

# The initramfs with the module of a kernel that brings its own; that of "cloud" is in the guest's.
module_of() { # KERNEL
	echo "modules/$1.modules.cpio"
}

# A module of our own that the next guest has: one of those that the case's head asks for.
guest_module=''

# Start guestshot with the test guest; its console is $out/$guest_name.console.
guest_start() { # NAME KERNEL APPEND [OPTION of guestshot run]...
	guest_name=$1 kernel=$2 append=$3 initrd=$GUEST
	shift 3
	for more in "$(module_of "$kernel")" "modules/$guest_module.cpio"; do
		[ -e "$more" ] || continue
		cat "$initrd" "$more" >"$work/initrd.more"
		initrd=$work/initrd
		mv "$work/initrd.more" "$initrd"
	done
	console=$out/$guest_name.console errors=$out/$guest_name.errors
	: >"$console"
	exec 3>&- # of an earlier guest
	rm -f "$work/input"
	mkfifo "$work/input"
	exec 3<>"$work/input"
	guestshot run --kernel "$KERNELS/$kernel" --initrd "$initrd" \
		--append "console=ttyAMA0 loglevel=4 panic=-1 $append" "$@" <&3 >>"$console" 2>"$errors" &
	guest=$!
}

say() { # a line for the guest's console
	echo "$1" >&3
}

# Wait until a line of the guest's console matches.
await() { # REGEX [SECONDS]
	tries=$((${2:-180} * 10))
	until grep -q "$1" "$console"; do
		tries=$((tries - 1))
		[ $tries -gt 0 ] || give_up "the guest says $1" "$(tail -n 5 "$console")" "$(cat "$errors")"
		if ! kill -0 "$guest" 2>/dev/null; then
			grep -q "$1" "$console" && return
			guest=''
			give_up "the guest lives until it says $1" "$(tail -n 5 "$console")" "$(cat "$errors")"
		fi
		sleep 0.1
	done
}

ask() { # LINE REGEX [SECONDS]
	say "$1"
	await "$2" "${3:-}"
}

# Wait until a file has a line that matches, for a minute or so.
await_in() { # FILE REGEX
	tries=60
	until grep -q "$2" "$1" || [ $tries = 0 ]; do
		sleep 1
		tries=$((tries - 1))
	done
}

# Wait until the guest is gone; its exit code is $code afterwards.
guest_end() { # [SECONDS]
	tries=$((${1:-90} * 10))
	while kill -0 "$guest" 2>/dev/null; do
		tries=$((tries - 1))
		[ $tries -gt 0 ] || give_up "guestshot run ends" "$(tail -n 5 "$console")" "$(cat "$errors")"
		sleep 0.1
	done
	code=0
	wait "$guest" || code=$?
	guest=''
}

# Power off and see that guest and guestshot found nothing wrong.
guest_poweroff() {
	ask "dmesg $guest_name" "DMESG END $guest_name"
	say poweroff
	guest_end
	equal "$guest_name powers off with exit code 0" "$code" 0
	guest_is_healthy
}

# The words need what base64 cannot hold (a space, a colon): a listing on the console (listing.c) is
# long enough to have any three letters.
guest_is_healthy() {
	free_of "$guest_name notices nothing" \
		'rcu:.*stall|soft lockup|BUG: |kernel BUG at|WARNING: |Internal error: |Call trace:' "$console"
	equal "guestshot has no complaint about $guest_name" "$(cat "$errors")" ''
}

# One request to the control socket; prints the answer (the second line, after the greeting).
control() { # JSON
	echo "$1" | sockpoke -n 2 "$ctl" | sed -n 2p
}
