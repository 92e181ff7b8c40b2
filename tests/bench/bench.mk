# Benchmarks: bytes per second beside memcpy of the same data in the same run.

bench_kcdata_SRCS := tests/bench/kcdata.c tests/bench/kcdata_capture.c

$B/bench-kcdata: $(bench_kcdata_SRCS:%.c=$B/%.o) $B/guestshot.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS_$(FLAVOUR)) $(LDFLAGS) -o $@ $^ $(LIBS)

.PHONY: bench-kcdata
bench-kcdata: $B/bench-kcdata
	$(Q)$<

.PHONY: bench
bench: bench-kcdata ## measure: figures beside memcpy's of the same run
