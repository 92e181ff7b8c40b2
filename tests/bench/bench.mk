# Benchmarks: kcdata's bytes per second beside memcpy of the same data in the same run; the backtrace library beside
# a locked hash table; captures of memory dumps beside drgn, where PEER_DRGN and PEER_VMLINUX name one (tests/bench/dumps);
# collecting a stopped guest beside the latency of its memory; how long a libvirt guest is stopped, beside virsh dump
# (tests/bench/live).

bench_kcdata_SRCS := tests/bench/kcdata.c tests/bench/kcdata_capture.c

$B/bench-kcdata: $(bench_kcdata_SRCS:%.c=$B/%.o) $B/guestshot.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS_$(FLAVOUR)) $(LDFLAGS) -o $@ $^ $(LIBS)

.PHONY: bench-kcdata
bench-kcdata: $B/bench-kcdata
	$(Q)$<

# beside a hash table of uthash
$B/bench-btlog: $B/tests/bench/btlog.o $B/guestshot.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS_$(FLAVOUR)) $(LDFLAGS) -o $@ $^ $(LIBS)

.PHONY: bench-btlog
bench-btlog:
	$(Q)tools/deps build bench
	+$(Q)$(MAKE) --no-print-directory $B/bench-btlog
	$(Q)$B/bench-btlog

.PHONY: bench-dumps
bench-dumps:
	$(Q)tools/deps build demo test
	+$(Q)$(SUBMAKE) testbed-parts FLAVOUR=release all
	+$(Q)$(MAKE) --no-print-directory $(DUMP_SIZES:%=$T/dumps/%.made)
	$(Q)tests/bench/dumps $T/dumps $(DUMP_SIZES)

# beside virsh dump of the same guest
.PHONY: bench-live
bench-live:
	$(Q)tools/deps build demo test
	+$(Q)$(SUBMAKE) testbed-parts FLAVOUR=release all
	$(Q)tests/bench/live

# the largest of the dumps that bench-dumps makes, or another one
BENCH_DUMP ?= $T/dumps/core-large

$B/bench-collect: $B/tests/bench/collect.o $B/guestshot.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS_$(FLAVOUR)) $(LDFLAGS) -o $@ $^ $(LIBS)

.PHONY: bench-collect
bench-collect:
	$(Q)tools/deps build demo test
	+$(Q)$(MAKE) --no-print-directory $B/bench-collect \
	  $(patsubst $T/dumps/core-%,$T/dumps/%.made,$(filter $T/dumps/core-%,$(BENCH_DUMP)))
	$(Q)$B/bench-collect '$(BENCH_DUMP)'

# one after the other, also under -j
.PHONY: bench
bench: ## measure: figures beside those of others in the same run
	+$(Q)$(MAKE) --no-print-directory bench-kcdata
	+$(Q)$(MAKE) --no-print-directory bench-btlog
	+$(Q)$(MAKE) --no-print-directory bench-dumps
	+$(Q)$(MAKE) --no-print-directory bench-collect
	+$(Q)$(MAKE) --no-print-directory bench-live
