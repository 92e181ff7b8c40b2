# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
# Packages for ARM64 of any suite on this machine's mirror, by an apt with folders of its own
# (build/testbed/apt-SUITE). The machine's apt configuration stays as it is. After lib.sh.

apt_root=

apt_arm64() { # COMMAND ARG...
	local tool=$1
	shift
	"$tool" -q -o Dir::State="$apt_root/state" -o Dir::State::status="$apt_root/status" \
		-o Dir::Cache="$apt_root/cache" -o Dir::Etc::sourcelist="$apt_root/sources.list" \
		-o Dir::Etc::sourceparts=- -o Dir::Etc::main=- -o APT::Architecture=arm64 -o APT::Architectures=arm64 \
		-o APT::Sandbox::User= -o Acquire::Languages=none -o APT::Get::List-Cleanup=1 "$@"
}

apt_update() {
	apt_arm64 apt-get update >"$apt_root/log" 2>&1 || {
		cat "$apt_root/log" >&2
		die "apt-get update for $1 failed"
	}
}

# What follows is about SUITE; its lists are fetched if there are none.
apt_use() { # SUITE
	apt_root=$(realpath -m "$testbed/apt-$1")
	mkdir -p "$apt_root"/{state/lists/partial,cache/archives/partial}
	# make runs several scripts at once; the lock is held until the script ends, or is about another suite
	exec 9>"$apt_root/lock"
	flock 9
	: >>"$apt_root/status"
	apt_sources "$1" >"$apt_root/sources.list"
	compgen -G "$apt_root/state/lists/*Packages*" >/dev/null || apt_update "$1"
}

apt_download() { # PACKAGE[=VERSION], into the current directory
	apt_arm64 apt-get download "$1" >"$apt_root/log" 2>&1
}

# boot/vmlinuz-VERSION; from 7.2 on usr/lib/modules/VERSION/vmlinuz
unpack_image() { # DEB FOLDER; prints the image's path
	local image
	mkdir -p "$2"
	dpkg-deb --fsys-tarfile "$1" | tar -x -C "$2" --wildcards --no-anchored 'vmlinu[xz]*'
	image=$(find "$2" -type f -name 'vmlinu[xz]*' | head -n 1)
	[ -n "$image" ] || die "no kernel image in $(basename "$1")"
	touch "$image" # the package's date would look older than what it was made from
	echo "$image"
}
