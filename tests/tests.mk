# Test, lint and benchmark targets; included by the Makefile.
# Each unit suite is one Check program a room: tests/unit/<room>/*.c, linked with all rooms.

UNIT_SUITES := $(sort $(notdir $(patsubst %/,%,$(dir $(wildcard tests/unit/*/*.c)))))
# suites with threads of their own run under ThreadSanitizer too
TSAN_SUITES := $(filter btlog btlogs control guest probe qemu stackshot vmm,$(UNIT_SUITES))

# Calls of the C library that go through tests/unit/stackshot/trap.c, and of ours through seam.c
comma := ,
TRAPPED := malloc calloc realloc reallocarray aligned_alloc memalign posix_memalign strdup strndup free \
           mmap munmap mremap madvise mlock mprotect brk sbrk btf__new qsort \
           pthread_create pthread_join pthread_mutex_lock pthread_mutex_trylock pthread_mutex_timedlock \
           pthread_mutex_unlock pthread_rwlock_rdlock pthread_rwlock_wrlock pthread_spin_lock \
           pthread_cond_wait pthread_cond_timedwait pthread_cond_signal pthread_cond_broadcast \
           sem_wait sem_post read write pread pwrite readv writev send recv sendmsg recvmsg open close \
           ioctl poll nanosleep fopen fclose fflush fwrite fread fputs fputc puts printf vprintf fprintf \
           vfprintf snprintf vsnprintf asprintf vasprintf
SEAMS := ss_context_enter ss_context_leave ss_queues_reset ss_queues_take ss_piece_take \
         kcd_append kcd_reserve kcd_append_array kcd_reserve_array kcd_append_string kcd_append_u32 \
         kcd_append_u64 kcd_append_typedef kcd_append_chain kcd_append_items kcd_container_begin \
         kcd_container_end kcd_writer_init kcd_writer_init_chain
unit_stackshot_LDFLAGS := $(patsubst %,-Wl$(comma)--wrap=%,$(TRAPPED) $(SEAMS))

# calls that are there to be seen must not be made into others
$B/tests/unit/stackshot/test_stopped.o: override CFLAGS += -fno-builtin

unit_CFLAGS_asan := -include tests/unit/marks.h
unit_CFLAGS_tsan := $(unit_CFLAGS_asan)

define unit_rules
unit_$(1)_SRCS := $$(wildcard tests/unit/$(1)/*.c)
$$(unit_$(1)_SRCS:%.c=$$B/%.o): override CFLAGS += $$(unit_CFLAGS_$(FLAVOUR))
$$B/tests/unit-$(1): $$(unit_$(1)_SRCS:%.c=$$B/%.o) $$B/guestshot.a
	$$(call say,LD,$$@)
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(ALL_CFLAGS) $$(LDFLAGS_$$(FLAVOUR)) $$(unit_$(1)_LDFLAGS) -o $$@ $$^ $$(LIBS) -lcheck -lsubunit -lm -lrt
endef
$(foreach s,$(UNIT_SUITES),$(eval $(call unit_rules,$(s))))

# books are checked with kcdata's validator; test_faults.c lets allocations fail
$B/tests/unit-btlog: LIBS += $(kcdata_LIBS) \
	$(foreach f,malloc calloc realloc aligned_alloc strdup mmap,-Wl,--wrap=$f)

# captures of dumps with several numbers of workers
$B/tests/dump-workers: $B/tests/e2e/dumps/workers.o $B/tests/unit/stackshot/picture.o $B/guestshot.a
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS_$(FLAVOUR)) -o $@ $^ $(LIBS)

.PHONY: dump-workers
dump-workers: $B/tests/dump-workers

# a vCPU followed step by step beside QEMU
steps_SRCS := $(addprefix tests/e2e/steps/,steps.c calls.c machine.c backtrace.c)
# ... and stopped at random
stops_SRCS := $(addprefix tests/e2e/steps/,stops.c cfi.c bare.c machine.c backtrace.c)
$B/tests/steps: $(steps_SRCS:%.c=$B/%.o) $B/guestshot.a
$B/tests/stops: $(stops_SRCS:%.c=$B/%.o) $B/guestshot.a
$B/tests/steps $B/tests/stops:
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS_$(FLAVOUR)) -o $@ $^ $(LIBS)

.PHONY: steps-program
steps-program: $B/tests/steps

.PHONY: stops-program
stops-program: $B/tests/stops

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

SYSROOT_PACKAGES := linux-image-cloud-arm64 busybox-static
ifneq ($(HOST_ARCH),aarch64)
  SYSROOT_PACKAGES += libc6-dev libzstd-dev zlib1g-dev libcapstone-dev libfdt-dev libbpf-dev libelf-dev libdw-dev \
                      libjansson-dev libuv1-dev liburcu-dev check libsubunit-dev libseccomp-dev libncurses-dev \
                      tmux ncurses-base libc-bin
endif
SYSROOT_PACKAGES := $(strip $(SYSROOT_PACKAGES))

# One that was fetched for another list of packages, by an older tree, is fetched again: the file has the list.
.PHONY: sysroot-is-old
ifneq ($(file <$(SYSROOT)/.complete),$(SYSROOT_PACKAGES))
  $(SYSROOT)/.complete: sysroot-is-old
endif
$(SYSROOT)/.complete:
	$(call say,FETCH,$(SYSROOT))
	$(Q)tests/testbed/sysroot $(SYSROOT_PACKAGES)

$T/bin/workload: $(addprefix tests/guest/,workload.c waits.c kinds.c listing.c mix.c calls.c count.c kprobe.c leak.c bpf.c retprobe.c surroundings.c workload.h) $(SYSROOT)/.complete
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(ARM64_CC) -std=gnu17 -O2 -Wall -Wextra -Werror -I. -static -pthread -o $@ $(filter %.c,$^) -lz

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

# kernels of make check, one line each; tests/matrix has more
KERNEL_cloud := linux-image-cloud-arm64
KERNEL_full  := linux-image-arm64

$T/kernels/%: $(SYSROOT)/.complete
	$(call say,FETCH,$@)
	$(Q)tests/testbed/kernel $* $(KERNEL_$*)

# modules of our own for the cloud kernel, as initramfs to append to the test guest's
MODULES := leak

$T/modules/%.cpio: $(wildcard tests/modules/*/*) tests/testbed/module $(SYSROOT)/.complete
	$(call say,BUILD,$@)
	$(Q)tests/testbed/module $* $@

# memory dumps of guests with some 200, 2,000 and 10,000 threads, and what the guests said of them
DUMP_SIZES := small medium large
DUMP_KINDS := core kdump ram

$T/dumps/%.made: tests/bench/make-dumps $T/guest.cpio $T/kernels/cloud
	$(call say,BOOT,$(@D)/*-$*)
	$(Q)$< $(@D) $*
	$(Q)touch $@

.PRECIOUS: $T/bin/% $T/kernels/% $T/modules/%.cpio $T/dumps/%.made

TESTBED_PARTS := $T/guest.cpio $T/host.cpio $T/kernels/cloud

# builds use all processors, unless make was told otherwise
PARALLEL = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell nproc))
SUBMAKE  = $(MAKE) --no-print-directory $(PARALLEL)

.PHONY: sysroot
sysroot: $(SYSROOT)/.complete ## fetch the ARM64 packages that a cross build and the testbed need

.PHONY: testbed
testbed: ## build what an emulated ARM64 host and its test guests need (see tests/testbed)
	+$(Q)$(SUBMAKE) testbed-parts $(MODULES:%=$T/modules/%.cpio)
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
             'runner=tests/test-run-suites' 'compare=python3 -B tests/e2e/test_compare.py' 'surroundings=python3 -B tests/e2e/test_surroundings.py' \
             'matrix-table=python3 -B tests/matrix/test_matrix.py' \
             'fuzz=make --no-print-directory check-fuzz && echo ok - the fuzz corpus replays, and some seconds more find nothing' \
             'kcdata-samples=make --no-print-directory check-kcdata-samples && echo ok - every sample and made stream reads and converts as it should' \
             'kcdata-records=make --no-print-directory check-records && echo ok - docs/records.md is what the tables say' \
             'libkcdata=make --no-print-directory check-libkcdata && echo ok - libkcdata builds, links and exports its own names alone'
dump_workers = $(BUILD)/$(HOST_ARCH)/$(1)/tests/dump-workers
steps_run = 'steps$(3)=tests/e2e/steps/run steps $(BUILD)/$(HOST_ARCH)/release/tests/steps $(BUILD)/tests/steps $(1) $(2)'
# slow, and apart from the others: beside the unit tests
DUMPS_RUNS := 'dumps=make --no-print-directory check-dumps'
E2E_RUNS := 'cli=PATH=$(abspath $(BUILD)/$(HOST_ARCH)/release):$$PATH tests/e2e/cli/run-table any tests/e2e/cli/*.t' \
            $(call steps_run,10000,$T/kernels/cloud) \
            'e2e=tests/e2e/run $(BUILD)/tests/e2e $(CASES)' \
            'live=tests/e2e/live/run $(BUILD)/tests/live' \
            'live-disk=tests/e2e/live/disk $(BUILD)/tests/live-disk'

.PHONY: unit-build
unit-build:
	+$(Q)$(SUBMAKE) FLAVOUR=debug unit-programs
	+$(Q)$(SUBMAKE) FLAVOUR=asan unit-programs
	+$(Q)$(SUBMAKE) FLAVOUR=tsan UNIT_SUITES='$(TSAN_SUITES)' unit-programs

.PHONY: e2e-build
e2e-build:
	+$(Q)$(SUBMAKE) testbed-parts $T/kernels/full $(MODULES:%=$T/modules/%.cpio) FLAVOUR=release all dump-workers steps-program
	+$(Q)$(SUBMAKE) ARCH=aarch64 FLAVOUR=release all
	+$(Q)$(SUBMAKE) FLAVOUR=asan UNIT_SUITES=guest unit-programs all
	+$(Q)$(SUBMAKE) FLAVOUR=debug UNIT_SUITES=qemu unit-programs

.PHONY: unit
unit: ## unit tests: debug, with address and undefined-behaviour sanitizers, some with the thread sanitizer
	$(Q)tools/deps build test
	$(Q)$(MAKE) --no-print-directory unit-build
	$(Q)tests/run-suites $(BUILD)/tests/logs -j $(shell nproc) $(UNIT_RUNS)

.PHONY: e2e
e2e: ## end-to-end tests with real guests (CASES="truth churn" to choose)
	$(Q)tools/deps build demo test
	$(Q)$(MAKE) --no-print-directory e2e-build
	$(Q)tests/run-suites $(BUILD)/tests/logs -j 1 $(DUMPS_RUNS) $(E2E_RUNS)

# The suite "dumps"; what it runs must have been built. Not all of the damage: that is dumps-damage.
.PHONY: check-dumps
check-dumps: $T/dumps/small.made
	$(Q)status=0; \
	tests/e2e/dumps/truth $T/dumps $(BUILD)/tests/dumps small || status=1; \
	$(call dump_workers,release) 5 $(DUMP_KINDS:%=$T/dumps/%-small) || status=1; \
	tests/e2e/dumps/damage $T/dumps small --part 5 --keep $(BUILD)/tests/damaged || status=1; \
	tests/e2e/dumps/schedules $T/dumps/core-small || status=1; \
	tests/e2e/dumps/watch $T/dumps/core-small || status=1; \
	tests/e2e/dumps/qemu-dumps $(call unit_program,asan,guest) || status=1; \
	tests/e2e/dumps/profiles $T/dumps $T/kernels/cloud || status=1; \
	exit $$status

# of those kernels whose profiles are shipped; to add one, give its vmlinux or Image to tools/guest-profiles
.PHONY: guest-profiles
guest-profiles: all $T/kernels/cloud $T/kernels/full ## make the profiles that are shipped anew
	$(Q)tools/guest-profiles $B/guestshot guest-profiles $(filter $T/kernels/%,$^)

.PHONY: dumps-truth
dumps-truth: ## captures of dumps of guests with up to 10,000 threads, judged by the guests, and with 1 to 8 workers
	$(Q)tools/deps build demo test
	+$(Q)$(SUBMAKE) testbed-parts FLAVOUR=release all dump-workers
	+$(Q)$(SUBMAKE) FLAVOUR=tsan dump-workers
	+$(Q)$(MAKE) --no-print-directory $(DUMP_SIZES:%=$T/dumps/%.made)
	$(Q)tests/run-suites $(BUILD)/tests/logs \
	  'dumps-truth=tests/e2e/dumps/truth $T/dumps $(BUILD)/tests/dumps $(DUMP_SIZES)' \
	  'dumps-workers=$(call dump_workers,release) 100 $(DUMP_KINDS:%=$T/dumps/%-small) $T/dumps/core-medium $T/dumps/core-large' \
	  'dumps-workers.tsan=setarch -R $(call dump_workers,tsan) 100 $T/dumps/core-small $T/dumps/kdump-small'

SEED ?= 1
.PHONY: dumps-damage
dumps-damage: ## captures of dumps that were cut, of flipped bits, of lost pages (SEED=number to choose)
	$(Q)tools/deps build demo test
	+$(Q)$(SUBMAKE) testbed-parts FLAVOUR=asan all
	+$(Q)$(MAKE) --no-print-directory $T/dumps/small.made
	$(Q)tests/run-suites $(BUILD)/tests/logs 'dumps-damage=tests/e2e/dumps/damage $T/dumps small --seed $(SEED) --keep $(BUILD)/tests/damaged'

.PHONY: live
live: ## guests of QEMU and libvirt, captured and left as they were
	$(Q)tools/deps build demo test
	$(Q)$(MAKE) --no-print-directory live-build
	$(Q)tests/run-suites $(BUILD)/tests/logs 'live=tests/e2e/live/run $(BUILD)/tests/live' \
	  'live-disk=tests/e2e/live/disk $(BUILD)/tests/live-disk'

.PHONY: live-build
live-build:
	+$(Q)$(SUBMAKE) testbed-parts FLAVOUR=release all
	+$(Q)$(SUBMAKE) FLAVOUR=debug UNIT_SUITES=qemu unit-programs

# one guest after the other, a minute or so for each
KERNELS ?=
.PHONY: matrix
matrix: ## long: a capture of every kernel of tests/matrix/kernels, judged by it (KERNELS="5.10 7.3/vmm" to choose)
	$(Q)tools/deps build demo test
	+$(Q)$(SUBMAKE) testbed-parts FLAVOUR=release all
	+$(Q)$(SUBMAKE) ARCH=aarch64 FLAVOUR=release all
	$(Q)SUITE_TIMEOUT=14400 tests/run-suites $(BUILD)/tests/logs 'matrix=tests/matrix/run $(BUILD)/matrix $(KERNELS)'

.PHONY: matrix-docs
matrix-docs: ## put the table of the last make matrix into docs/kernels.md
	$(Q)tests/matrix/run --update docs/kernels.md $(BUILD)/matrix

STEPS ?= 30000
STEPS_KERNELS ?= $T/kernels/cloud $T/kernels/full
.PHONY: steps
steps: ## STEPS=30000 stops of a vCPU, step by step, each backtrace judged (STEPS_KERNELS=files to choose)
	$(Q)tools/deps build demo test
	+$(Q)$(SUBMAKE) testbed-parts $T/kernels/full FLAVOUR=release steps-program
	$(Q)SUITE_TIMEOUT=14400 tests/run-suites $(BUILD)/tests/logs $(call steps_run,$(STEPS),$(STEPS_KERNELS),-long)

# needs the kernels' debug packages, some 300 MB each
CFI_STOPS ?= 10000
CFI_KERNELS ?= 5.10-cloud cloud 6.12-cloud 7.3-cloud
.PHONY: steps-cfi
steps-cfi: ## CFI_STOPS=10000 random stops, each backtrace judged by the kernel's DWARF (CFI_KERNELS=names of tests/matrix/kernels)
	$(Q)tools/deps build demo test
	+$(Q)$(SUBMAKE) testbed-parts FLAVOUR=release stops-program
	$(Q)for k in $(CFI_KERNELS); do tests/e2e/steps/vmlinux $$k || exit; done
	$(Q)SUITE_TIMEOUT=14400 tests/run-suites $(BUILD)/tests/logs 'steps-cfi=tests/e2e/steps/run stops \
	  $(BUILD)/$(HOST_ARCH)/release/tests/stops $(BUILD)/tests/steps-cfi $(CFI_STOPS) $(CFI_KERNELS:%=$T/kernels/%)'

# each takes some 15 s beside four others on two processors
KILLS ?= 300
.PHONY: soak
soak: ## long: guestshot killed KILLS=300 times in captures of each of five guests, none may stay paused
	$(Q)tools/deps build demo test
	$(Q)$(MAKE) --no-print-directory live-build
	$(Q)SUITE_TIMEOUT=14400 tests/run-suites $(BUILD)/tests/logs \
	  'soak-live=tests/e2e/live/run --kills $(KILLS) $(BUILD)/tests/soak'

# 10 million operations from 1 to 8 threads, under each of two sanitizers
.PHONY: soak-btlog
soak: soak-btlog
soak-btlog: ## long: random operations on a backtrace library beside a model of it
	$(Q)tools/deps build test
	+$(Q)$(SUBMAKE) FLAVOUR=asan UNIT_SUITES=btlog unit-programs
	+$(Q)$(SUBMAKE) FLAVOUR=tsan UNIT_SUITES=btlog unit-programs
	$(Q)SUITE_TIMEOUT=14400 tests/run-suites $(BUILD)/tests/logs $(foreach f,asan tsan,\
	  'soak-btlog.$f=CK_RUN_CASE=model BTL_MODEL_OPS=10000000 setarch -R $(call unit_program,$f,btlog)')

# a known mix of work at the rate and for the time that people sample; no more vCPUs than the emulated host has CPUs
.PHONY: soak-sampling
soak: soak-sampling
soak-sampling: ## long: shares of a known mix from 60 s of samples, and 60 s of a trace, at 99 Hz
	$(Q)tools/deps build demo test
	$(Q)$(MAKE) --no-print-directory e2e-build
	$(Q)E2E_SETTINGS="SAMPLE_SECONDS=60 SAMPLE_HZ=99 SAMPLE_CPUS=2 TRACE_SECONDS=60 TRACE_HZ=99" tests/run-suites $(BUILD)/tests/logs \
	  'soak-sampling=tests/e2e/run $(BUILD)/tests/soak-sampling sampling'

# of a guest in which locks are fought for, and always let go
.PHONY: soak-waits
soak: soak-waits
soak-waits: ## long: no deadlock is seen in 1,000 captures of a busy guest
	$(Q)tools/deps build demo test
	$(Q)$(MAKE) --no-print-directory e2e-build
	$(Q)SUITE_TIMEOUT=14400 E2E_SETTINGS="WAIT_CAPTURES=1000 CASE_SECONDS=10000" tests/run-suites $(BUILD)/tests/logs \
	  'soak-waits=tests/e2e/run $(BUILD)/tests/soak-waits waits'

# breakpoints set and taken away under load
.PHONY: soak-fbt
soak: soak-fbt
soak-fbt: ## long: hundreds of breakpoints set and taken away 1,000 times in a busy guest
	$(Q)tools/deps build demo test
	$(Q)$(MAKE) --no-print-directory e2e-build
	$(Q)SUITE_TIMEOUT=14400 E2E_SETTINGS="FBT_ROUNDS=1000 CASE_SECONDS=10000" tests/run-suites $(BUILD)/tests/logs \
	  'soak-fbt=tests/e2e/run $(BUILD)/tests/soak-fbt fbt'

# one capture a second for ten minutes, and 50 kills
.PHONY: soak-schedules
soak: soak-schedules
soak-schedules: ## long: a schedule killed 50 times, and one that keeps its budget for ten minutes
	$(Q)tools/deps build demo test
	+$(Q)$(SUBMAKE) testbed-parts FLAVOUR=release all
	+$(Q)$(MAKE) --no-print-directory $T/dumps/small.made
	$(Q)SUITE_TIMEOUT=14400 tests/run-suites $(BUILD)/tests/logs \
	  'soak-schedules=tests/e2e/dumps/schedules $T/dumps/core-small --kills 50 --seconds 600'

.PHONY: check
check: ## all tests
	$(Q)tools/deps build demo test
	$(Q)$(MAKE) --no-print-directory unit-build
	$(Q)$(MAKE) --no-print-directory e2e-build
	$(Q)tests/run-suites $(BUILD)/tests/logs -j $(shell nproc) $(DUMPS_RUNS) $(UNIT_RUNS) -j 1 $(E2E_RUNS)

# --- fuzzing, benchmarks, the kcdata library --------------------------------------------------

include tests/fuzz/fuzz.mk tests/bench/bench.mk kcdata/lib.mk

# --- static checks ------------------------------------------------------------------------------

include tests/lint/lint.mk
