# Test, lint and benchmark targets; included by the Makefile.
# Each unit suite is one Check program a room: tests/unit/<room>/*.c, linked with all rooms.

UNIT_SUITES := $(notdir $(patsubst %/,%,$(wildcard tests/unit/*/)))
# suites with threads of their own run under ThreadSanitizer too
TSAN_SUITES := $(filter control vmm,$(UNIT_SUITES))

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

.PHONY: testbed
testbed: $(TESTBED_PARTS) ## build what an emulated ARM64 host and its test guests need
	$(Q)$(MAKE) --no-print-directory ARCH=aarch64 FLAVOUR=release all
