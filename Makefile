# SPDX-License-Identifier: Apache-2.0
# guestshot: one non-recursive makefile. `make help` lists what can be made.
#
# ARCH=aarch64|x86_64   machine the program is for (default: this one); aarch64 on another machine is
#                       cross-built against build/arm64-root, which `make sysroot` fetches
# FLAVOUR=release|debug|asan|tsan
# V=1                   show commands

MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

VERSION := 0.1.0

HOST_ARCH := $(shell uname -m)
ARCH      ?= $(HOST_ARCH)
FLAVOUR   ?= release
BUILD     ?= build
B         := $(BUILD)/$(ARCH)/$(FLAVOUR)
SYSROOT   := build/arm64-root

Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-7s %s\n' '$(1)' '$(2)')

# --- toolchain ------------------------------------------------------------------------------------

ifeq ($(ARCH),$(HOST_ARCH))
  ifeq ($(origin CC),default)
    CC := gcc
  endif
  PKG_CONFIG := pkg-config
else ifeq ($(ARCH),aarch64)
  CC         := aarch64-linux-gnu-gcc --sysroot=$(CURDIR)/$(SYSROOT)
  PKG_CONFIG := PKG_CONFIG_SYSROOT_DIR=$(CURDIR)/$(SYSROOT) \
                PKG_CONFIG_LIBDIR=$(CURDIR)/$(SYSROOT)/usr/lib/aarch64-linux-gnu/pkgconfig:$(CURDIR)/$(SYSROOT)/usr/share/pkgconfig \
                pkg-config
  CROSS_DEPS := $(SYSROOT)/.complete
else
  $(error ARCH=$(ARCH): only aarch64 can be cross-built)
endif

WARN := -Wall -Wextra -Werror -Wshadow -Wformat=2 -Wstrict-prototypes -Wmissing-prototypes -Wundef \
        -Wvla -Wswitch-enum -Wcast-align -Wimplicit-fallthrough -Wframe-larger-than=2048
CPPFLAGS += -I. -D_GNU_SOURCE -DGUESTSHOT_VERSION='"$(VERSION)"'
CFLAGS_release := -O2 -g -D_FORTIFY_SOURCE=3 -fstack-protector-strong -fPIE
# gcc 12 has it for both machines, clang 14 for neither of ours under cross
CFLAGS_release += $(if $(findstring clang,$(CC)),,-fstack-clash-protection)
CFLAGS_release += $(if $(filter aarch64,$(ARCH)),-mbranch-protection=standard)
LDFLAGS_release := -pie -Wl,-z,relro,-z,now
CFLAGS_debug   := -Og -g -DGS_DEBUG
CFLAGS_asan    := -O1 -g -DGS_DEBUG -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
LDFLAGS_asan   := -fsanitize=address,undefined
CFLAGS_tsan    := -O1 -g -DGS_DEBUG -fno-omit-frame-pointer -fsanitize=thread
LDFLAGS_tsan   := -fsanitize=thread
ALL_CFLAGS = -std=gnu17 $(WARN) $(CFLAGS_$(FLAVOUR)) -fvisibility=hidden -pthread $(CFLAGS)
# sanitizers grow frames (the limit is for the real program) and hide values from gcc's flow analysis
ifneq ($(filter asan tsan,$(FLAVOUR)),)
  ALL_CFLAGS += -Wno-frame-larger-than -Wno-format-truncation -Wno-maybe-uninitialized
endif

# --- rooms ----------------------------------------------------------------------------------------

ROOMS := base kcdata guest arm64 linux stackshot btlog probe control cli vmm_portable
ROOM_DIRS := base kcdata introspect/guest introspect/arm64 introspect/linux introspect/stackshot \
             introspect/btlog introspect/probe control cli vmm
include $(addsuffix /room.mk,$(ROOM_DIRS) cli/report)
# KVM's ARM64 interface exists on ARM64 only
ifeq ($(ARCH),aarch64)
  ROOMS := $(filter-out vmm_portable,$(ROOMS)) vmm
  CPPFLAGS += -DGUESTSHOT_HAVE_VMM=1
else
  CPPFLAGS += -DGUESTSHOT_HAVE_VMM=0
endif

SRCS := $(foreach r,$(ROOMS),$($(r)_SRCS))
LIB_SRCS := $(filter-out cli/main.c,$(SRCS))
LIB_OBJS := $(LIB_SRCS:%.c=$B/%.o)

strict_DIRS := base/% kcdata/% introspect/arm64/%

LIBS := -lbpf -ldw -lelf -lz -ljansson -luv -lfdt -lurcu-bp
# by their files: in another machine's root -ltinfo is a link that leads nowhere, and the archive beside it would be
# a second libtinfo in one program
LIBS += -l:libncursesw.so.6 -l:libtinfo.so.6

# A missing library is named with its Debian package instead of by a compiler message.
lib_check = @for h in bpf/btf.h:libbpf-dev elfutils/libdw.h:libdw-dev zlib.h:zlib1g-dev zstd.h:libzstd-dev jansson.h:libjansson-dev uv.h:libuv1-dev \
    libfdt.h:libfdt-dev urcu/urcu-bp.h:liburcu-dev curses.h:libncurses-dev; do \
  printf '\#include <%s>\n' $${h%%:*} | $(CC) -E -o /dev/null -x c - 2>/dev/null || { \
    echo "make: no <$${h%%:*}> for $(ARCH): install the Debian package $${h\#\#*:} (or run: make deps)" >&2; exit 1; }; \
done

.PHONY: all
all: $B/guestshot ## build the program for this machine

$B/.libs-ok: $(CROSS_DEPS)
	@mkdir -p $(@D)
	$(lib_check)
	@touch $@

$B/%.o: %.c $B/.libs-ok
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) $(if $(filter $(strict_DIRS),$<),-Wconversion) -MMD -MP -c -o $@ $<

$B/guestshot.a: $(LIB_OBJS)
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $(LIB_OBJS)

$B/guestshot: $B/cli/main.o $B/guestshot.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS_$(FLAVOUR)) $(LDFLAGS) -o $@ $^ $(LIBS)

.PHONY: cross
cross: ## build the ARM64 program on another machine (build/aarch64/release/guestshot)
	$(Q)$(MAKE) ARCH=aarch64 all

# --- tests ----------------------------------------------------------------------------------------

include tests/tests.mk

# --- the rest -------------------------------------------------------------------------------------

PREFIX ?= /usr/local
DESTDIR ?=
MAN1 := $(wildcard docs/man/*.1)
PROFILES := $(wildcard guest-profiles/*.json)

.PHONY: install
install: all install-kcdata ## install program, man pages, profiles and libkcdata below PREFIX (/usr/local)
	install -D -m 755 $B/guestshot $(DESTDIR)$(PREFIX)/bin/guestshot
	for p in $(PROFILES); do install -D -m 644 $$p $(DESTDIR)$(PREFIX)/share/guestshot/$$p; done
	for m in $(MAN1); do install -D -m 644 $$m $(DESTDIR)$(PREFIX)/share/man/man1/$$(basename $$m); done

.PHONY: clean
clean: ## remove what was built; the fetched ARM64 root stays (make distclean)
	rm -rf build/x86_64 build/aarch64 build/tests

.PHONY: distclean
distclean: ## remove the whole build folder
	rm -rf build

.PHONY: help
help: ## this list
	@grep -hE '^[a-z0-9_-]+:.*## ' $(MAKEFILE_LIST) | sort | sed -E 's/^([a-z0-9_-]+):.*## /  make \1\t/' | expand -t 20

-include $(shell find $(B) -type f -name '*.d' 2>/dev/null)
