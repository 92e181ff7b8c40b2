# Static checks; included by tests/tests.mk. `make lint` runs all, `make lint-quick` what a commit can wait for.

LINT_C := $(shell git ls-files -co --exclude-standard '*.c' '*.h' 2>/dev/null)
LINT_SH := $(shell git ls-files -co --exclude-standard 2>/dev/null | xargs -r grep -lE '^\#!(/usr)?/bin/(env )?(ba)?sh' 2>/dev/null)
LINT_TEXT := $(shell git ls-files -co --exclude-standard 2>/dev/null | grep -vE '^(LICENSE|tests/fuzz/corpus/)')

# these need the ARM64 KVM headers; the cross compiler's warnings are what they get
KVM_SRCS := $(filter-out $(vmm_portable_SRCS),$(vmm_SRCS)) cli/run_machine.c

.PHONY: lint-quick
lint-quick: lint-format lint-layers lint-spdx lint-shell lint-spell lint-man ## the quick part of lint

.PHONY: lint
lint: lint-deps lint-quick lint-names lint-headers lint-cppcheck lint-tidy ## all static checks

.PHONY: lint-deps
lint-deps:
	$(Q)tools/deps build lint

.PHONY: lint-format
lint-format:
	@echo "  LINT    clang-format"
	$(Q)clang-format --dry-run --Werror $(LINT_C)

.PHONY: lint-layers
lint-layers:
	@echo "  LINT    layers"
	$(Q)tests/lint/layers.py

.PHONY: lint-spdx
lint-spdx:
	@echo "  LINT    SPDX lines"
	$(Q)for f in $(LINT_C) $(LINT_SH); do \
	  head -n 3 $$f | grep -q 'SPDX-License-Identifier: Apache-2.0' || { echo "$$f: no SPDX line"; exit 1; }; \
	done

.PHONY: lint-shell
lint-shell:
	@echo "  LINT    shellcheck"
	$(Q)shellcheck -x $(LINT_SH)

.PHONY: lint-spell
lint-spell:
	@echo "  LINT    codespell"
	$(Q)codespell --ignore-words=tests/lint/words $(LINT_TEXT)

.PHONY: lint-man
lint-man:
	@echo "  LINT    mandoc"
	$(Q)mandoc -T lint -W warning docs/man/*.1

.PHONY: lint-names
lint-names: $B/guestshot
	@echo "  LINT    exported names"
	$(Q)tests/lint/names.py $B

# each header alone: it includes what it needs
.PHONY: lint-headers
lint-headers: $B/.libs-ok
	@echo "  LINT    headers"
	$(Q)for h in $(filter-out vmm/%,$(filter %.h,$(LINT_C))); do \
	  printf '#include "%s"\n' $$h | $(CC) $(CPPFLAGS) -std=gnu17 -Wall -Wextra -Werror -fsyntax-only -I. -x c - || exit 1; \
	done

.PHONY: lint-cppcheck
lint-cppcheck:
	@echo "  LINT    cppcheck"
	$(Q)cppcheck --quiet --error-exitcode=1 --std=c11 --enable=warning,portability --inline-suppr \
	  --suppressions-list=tests/lint/cppcheck-suppressions -I. -D__BYTE_ORDER__=1234 -D__ORDER_LITTLE_ENDIAN__=1234 \
	  --include=tests/lint/cppcheck-macros.h \
	  $(filter %.c,$(LINT_C))

.PHONY: lint-tidy
lint-tidy:
	@echo "  LINT    clang-tidy"
	$(Q)printf '%s\n' $(filter-out $(KVM_SRCS),$(filter $(LIB_SRCS),$(LINT_C))) | xargs -P $(shell nproc) -n 4 tests/lint/tidy
