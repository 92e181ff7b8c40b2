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
