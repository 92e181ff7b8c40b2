# Test, lint and benchmark targets; included by the Makefile.
# Each unit suite is one Check program a room: tests/unit/<room>/*.c, linked with all rooms.

UNIT_SUITES := $(sort $(notdir $(patsubst %/,%,$(dir $(wildcard tests/unit/*/*.c)))))
# suites with threads of their own run under ThreadSanitizer too
TSAN_SUITES := $(filter control guest qemu vmm,$(UNIT_SUITES))

define unit_rules
unit_$(1)_SRCS := $$(wildcard tests/unit/$(1)/*.c)
$$B/tests/unit-$(1): $$(unit_$(1)_SRCS:%.c=$$B/%.o) $$B/guestshot.a
	$$(call say,LD,$$@)
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(ALL_CFLAGS) $$(LDFLAGS_$$(FLAVOUR)) -o $$@ $$^ $$(LIBS) -lcheck -lsubunit -lm -lrt
endef
$(foreach s,$(UNIT_SUITES),$(eval $(call unit_rules,$(s))))

.PHONY: unit-programs
unit-programs: $(UNIT_SUITES:%=$B/tests/unit-%)

# --- testbed --------------------------------------------------------------------------------------

T := $(BUILD)/testbed
export BUILD

# What runs in guests and beside guestshot on the ARM64 host is static, so that nothing else is needed.
ifeq ($(HOST_ARCH),aarch64)
  ARM64_CC := gcc
else
  ARM64_CC := aarch64-linux-gnu-gcc --sysroot=$(CURDIR)/$(SYSROOT)
endif

$(SYSROOT)/.complete:
	$(call say,FETCH,$(SYSROOT))
	$(Q)tests/testbed/sysroot

$T/bin/%: tests/guest/%.c $(SYSROOT)/.complete
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(ARM64_CC) -std=gnu17 -O2 -Wall -Wextra -Werror -static -pthread -o $@ $< -lz

$T/bin/%: tests/e2e/%.c $(SYSROOT)/.complete
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(ARM64_CC) -std=gnu17 -O2 -Wall -Wextra -Werror -static -o $@ $<

$T/guest.cpio: tests/testbed/pieces $T/bin/workload tests/guest/init
	$(call say,PACK,$@)
	$(Q)$< guest $T/bin/workload $@

$T/host.cpio: tests/testbed/pieces $T/bin/sockpoke tests/testbed/host-init
	$(call say,PACK,$@)
	$(Q)$< host $T/bin/sockpoke $@

# further kernels of the matrix: one line each
KERNEL_cloud := linux-image-cloud-arm64
KERNEL_full  := linux-image-arm64

$T/kernels/%: $(SYSROOT)/.complete
	$(call say,FETCH,$@)
	$(Q)tests/testbed/kernel $* $(KERNEL_$*)

.PRECIOUS: $T/bin/% $T/kernels/%

TESTBED_PARTS := $T/guest.cpio $T/host.cpio $T/kernels/cloud

# builds use all processors, unless make was told otherwise
PARALLEL = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell nproc))
SUBMAKE  = $(MAKE) --no-print-directory $(PARALLEL)

.PHONY: sysroot
sysroot: $(SYSROOT)/.complete ## fetch the ARM64 packages that a cross build and the testbed need

.PHONY: testbed
testbed: ## build what an emulated ARM64 host and its test guests need (see tests/testbed)
	+$(Q)$(SUBMAKE) testbed-parts
	+$(Q)$(SUBMAKE) ARCH=aarch64 FLAVOUR=release all

.PHONY: testbed-parts
testbed-parts: $(TESTBED_PARTS)

# --- what people type -----------------------------------------------------------------------------

.PHONY: deps
DEPS ?= build demo test
deps: ## install the Debian packages needed (DEPS="build demo test lint" to choose)
	$(Q)tools/deps $(DEPS)

.PHONY: demo
demo: ## boot a guest under guestshot, capture it, show the capture
	$(Q)tools/deps build demo
	+$(Q)$(SUBMAKE) demo-build
	$(Q)tests/testbed/demo

# The native build needs nothing of the sysroot: it goes on while that is fetched.
.PHONY: demo-build
demo-build: testbed-parts all
	+$(Q)$(SUBMAKE) ARCH=aarch64 FLAVOUR=release all

# --- suites ---------------------------------------------------------------------------------------

CASES ?=
unit_program = $(BUILD)/$(HOST_ARCH)/$(1)/tests/unit-$(2)
# ThreadSanitizer of gcc 12 does not know the wide address randomisation of newer kernels
UNIT_RUNS := $(foreach f,asan debug,$(foreach s,$(UNIT_SUITES),'unit-$s.$f=$(call unit_program,$f,$s)')) \
             $(foreach s,$(TSAN_SUITES),'unit-$s.tsan=setarch -R $(call unit_program,tsan,$s)') \
             'runner=tests/test-run-suites' 'compare=python3 -B tests/e2e/test_compare.py' \
             'fuzz=make --no-print-directory check-fuzz && echo ok - the fuzz corpus replays, and some seconds more find nothing' \
             'kcdata-samples=make --no-print-directory check-kcdata-samples && echo ok - every sample and made stream reads and converts as it should' \
             'kcdata-records=make --no-print-directory check-records && echo ok - docs/records.md is what the tables say' \
             'libkcdata=make --no-print-directory check-libkcdata && echo ok - libkcdata builds, links and exports its own names alone'
E2E_RUNS := 'cli=PATH=$(abspath $(BUILD)/$(HOST_ARCH)/release):$$PATH tests/e2e/cli/run-table any tests/e2e/cli/*.t' \
            'e2e=tests/e2e/run $(BUILD)/tests/e2e $(CASES)'

.PHONY: unit-build
unit-build:
	+$(Q)$(SUBMAKE) FLAVOUR=debug unit-programs
	+$(Q)$(SUBMAKE) FLAVOUR=asan unit-programs
	+$(Q)$(SUBMAKE) FLAVOUR=tsan UNIT_SUITES='$(TSAN_SUITES)' unit-programs

.PHONY: e2e-build
e2e-build:
	+$(Q)$(SUBMAKE) testbed-parts $T/kernels/full FLAVOUR=release all
	+$(Q)$(SUBMAKE) ARCH=aarch64 FLAVOUR=release all

.PHONY: unit
unit: ## unit tests: debug, with address and undefined-behaviour sanitizers, some with the thread sanitizer
	$(Q)tools/deps build test
	$(Q)$(MAKE) --no-print-directory unit-build
	$(Q)tests/run-suites $(BUILD)/tests/logs -j $(shell nproc) $(UNIT_RUNS)

.PHONY: e2e
e2e: ## end-to-end tests with real guests (CASES="truth churn" to choose)
	$(Q)tools/deps build demo test
	$(Q)$(MAKE) --no-print-directory e2e-build
	$(Q)tests/run-suites $(BUILD)/tests/logs -j 1 $(E2E_RUNS)

.PHONY: check
check: ## all tests
	$(Q)tools/deps build demo test
	$(Q)$(MAKE) --no-print-directory unit-build
	$(Q)$(MAKE) --no-print-directory e2e-build
	$(Q)tests/run-suites $(BUILD)/tests/logs -j $(shell nproc) $(UNIT_RUNS) -j 1 $(E2E_RUNS)

# --- fuzzing, benchmarks, the kcdata library --------------------------------------------------

include tests/fuzz/fuzz.mk tests/bench/bench.mk kcdata/lib.mk

# --- static checks ------------------------------------------------------------------------------

include tests/lint/lint.mk
