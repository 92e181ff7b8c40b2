# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# Shared by the testbed's scripts. They run from the top of the source tree; BUILD is make's BUILD.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$top" || exit 1
BUILD=${BUILD:-build}
sysroot=build/arm64-root
testbed=$BUILD/testbed

die() {
	echo "${0##*/}: $*" >&2
	exit "${die_status:-1}"
}

# Progress is for people: nothing in a pipe or a log.
say() {
	[ ! -t 2 ] || echo "testbed: $*" >&2
}

have_native_kvm() {
	[ "$(uname -m)" = aarch64 ] && [ -r /dev/kvm ] && [ -w /dev/kvm ]
}

# Directory -> newc archive on standard output, everything owned by root.
pack() {
	(cd "$1" && find . -mindepth 1 | LC_ALL=C sort | cpio -o -H newc -R 0:0 --quiet)
}

# The source lines of this machine's own Debian mirrors, for SUITE (bookworm, trixie-backports, …) and
# its updates.
apt_sources() {
	local suite=$1 lines
	# deb822 and one-line sources look the same here; SITE and the suite's path come from REPO_URI
	# shellcheck disable=SC2016 # apt's own variables
	lines=$(apt-get indextargets --format '$(ORIGIN) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
		awk '$1 == "Debian" && !seen[$2]++ { print $2 }')
	[ -n "$lines" ] || die "apt has no lists of a Debian mirror: run apt-get update"
	local uri
	for uri in $lines; do
		case $uri in
		*-security/ | *//security*)
			case $suite in
			*-*) ;;
			*) echo "deb $uri $suite-security main" ;;
			esac
			;;
		*)
			echo "deb $uri $suite main"
			case $suite in
			*-*) ;;
			*) echo "deb $uri $suite-updates main" ;;
			esac
			;;
		esac
	done
}
