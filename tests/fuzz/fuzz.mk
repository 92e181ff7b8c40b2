# Fuzzing of kcdata and of tracing with libFuzzer (clang). `make fuzz FUZZ_SECONDS=600` runs each target for so long;
# `make check-fuzz` replays the corpus and fuzzes shortly. What is found goes to tests/fuzz/corpus/.

FUZZ_CC      ?= clang
FUZZ_SECONDS ?= 60
FUZZ_TARGETS := reader inflate json
# linked with nearly all rooms, so it is built for a whole fuzzing only
FUZZ_WHOLE   := trace
FUZZ_CFLAGS  := -std=gnu17 $(WARN) -Wno-frame-larger-than -I. -D_GNU_SOURCE -O1 -g \
                -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
FUZZ_B       := $(BUILD)/$(HOST_ARCH)/fuzz
FUZZ_LIB     := $(kcdata_SRCS:%.c=$(FUZZ_B)/%.o)
FUZZ_RUN     := -max_len=16384 -timeout=20 -rss_limit_mb=2048 -verbosity=0

$(FUZZ_B)/kcdata/%.o: kcdata/%.c
	@mkdir -p $(@D)
	$(call say,FUZZ-CC,$@)
	$(Q)$(FUZZ_CC) $(FUZZ_CFLAGS) -fsanitize=fuzzer-no-link -MMD -MP -c -o $@ $<

$(FUZZ_B)/tests/%.o: tests/%.c
	@mkdir -p $(@D)
	$(call say,FUZZ-CC,$@)
	$(Q)$(FUZZ_CC) $(FUZZ_CFLAGS) -fsanitize=fuzzer-no-link -MMD -MP -c -o $@ $<

FUZZ_ALL := $(filter-out $(kcdata_SRCS) cli/%,$(LIB_SRCS))
$(FUZZ_ALL:%.c=$(FUZZ_B)/%.o) $(FUZZ_WHOLE:%=$(FUZZ_B)/tests/fuzz/fuzz_%.o): $(FUZZ_B)/%.o: %.c
	@mkdir -p $(@D)
	$(call say,FUZZ-CC,$@)
	$(Q)$(FUZZ_CC) $(CPPFLAGS) $(FUZZ_CFLAGS) -pthread -fsanitize=fuzzer-no-link -MMD -MP -c -o $@ $<

$(FUZZ_WHOLE:%=$(FUZZ_B)/fuzz-%): $(FUZZ_B)/fuzz-%: $(FUZZ_B)/tests/fuzz/fuzz_%.o $(FUZZ_ALL:%.c=$(FUZZ_B)/%.o) $(FUZZ_LIB)
	$(call say,LD,$@)
	$(Q)$(FUZZ_CC) $(FUZZ_CFLAGS) -pthread -fsanitize=fuzzer -o $@ $^ $(kcdata_LIBS) $(LIBS)

$(FUZZ_B)/fuzz-%: $(FUZZ_B)/tests/fuzz/fuzz_%.o $(FUZZ_LIB)
	$(call say,LD,$@)
	$(Q)$(FUZZ_CC) $(FUZZ_CFLAGS) -fsanitize=fuzzer -o $@ $^ $(kcdata_LIBS)

# without libFuzzer's main, so that any compiler that has the sanitizers can replay
$(FUZZ_B)/replay-%: $(FUZZ_B)/tests/fuzz/fuzz_%.o $(FUZZ_B)/tests/fuzz/replay.o $(FUZZ_LIB)
	$(call say,LD,$@)
	$(Q)$(FUZZ_CC) $(FUZZ_CFLAGS) -fsanitize=fuzzer-no-link -o $@ $^ $(kcdata_LIBS)

$(FUZZ_B)/seeds: $(FUZZ_B)/tests/fuzz/seeds.o $(FUZZ_LIB)
	$(call say,LD,$@)
	$(Q)$(FUZZ_CC) $(FUZZ_CFLAGS) -fsanitize=fuzzer-no-link -o $@ $^ $(kcdata_LIBS)

# each allocation of kcdata fails once
$(FUZZ_B)/faults: $(FUZZ_B)/tests/fuzz/faults.o $(FUZZ_LIB)
	$(call say,LD,$@)
	$(Q)$(FUZZ_CC) $(FUZZ_CFLAGS) -fsanitize=fuzzer-no-link -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc \
		-o $@ $^ $(kcdata_LIBS)

$(FUZZ_B)/corpus/.seeded: $(FUZZ_B)/seeds
	$(call say,SEEDS,$(@D))
	$(Q)$< $(@D) && touch $@

.PRECIOUS: $(FUZZ_B)/kcdata/%.o $(FUZZ_B)/tests/%.o $(FUZZ_B)/fuzz-% $(FUZZ_B)/replay-%

# $(1): target, $(2): seconds. Its chatter goes to a file; of a finding the end is shown.
fuzz_one = mkdir -p $(FUZZ_B)/findings/$(1) $(FUZZ_B)/corpus/$(1) && \
	$(FUZZ_B)/fuzz-$(1) $(FUZZ_RUN) -max_total_time=$(2) -artifact_prefix=$(FUZZ_B)/findings/$(1)/ \
		$(FUZZ_B)/corpus/$(1) $(wildcard tests/fuzz/corpus/$(1)) >$(FUZZ_B)/log-$(1) 2>&1 || { \
	tail -n 60 $(FUZZ_B)/log-$(1); echo "fuzz-$(1): see $(FUZZ_B)/findings/$(1)/" >&2; exit 1; }

.PHONY: fuzz fuzz-reader fuzz-inflate fuzz-json fuzz-trace
fuzz: $(FUZZ_TARGETS:%=fuzz-%) $(FUZZ_WHOLE:%=fuzz-%) ## fuzz kcdata and tracing, FUZZ_SECONDS (60) for each of the targets

$(FUZZ_TARGETS:%=fuzz-%) $(FUZZ_WHOLE:%=fuzz-%): fuzz-%: $(FUZZ_B)/fuzz-% $(FUZZ_B)/corpus/.seeded
	$(call say,FUZZ,$* for $(FUZZ_SECONDS) s)
	$(Q)$(call fuzz_one,$*,$(FUZZ_SECONDS))

.PHONY: check-fuzz
check-fuzz: $(FUZZ_B)/faults $(FUZZ_TARGETS:%=$(FUZZ_B)/replay-%) $(FUZZ_TARGETS:%=$(FUZZ_B)/fuzz-%) $(FUZZ_B)/corpus/.seeded ## replay the fuzz corpus, then fuzz for some seconds
	$(Q)for t in $(FUZZ_TARGETS); do \
		$(FUZZ_B)/replay-$$t $(FUZZ_B)/corpus/$$t $$(ls -d tests/fuzz/corpus/$$t 2>/dev/null) || exit 1; \
	done
	$(Q)$(FUZZ_B)/faults $(FUZZ_B)/corpus/json/seed-stackshot $(FUZZ_B)/corpus/json/seed-nested >$(FUZZ_B)/faults.log
	$(Q)$(foreach t,$(FUZZ_TARGETS),{ $(call fuzz_one,$t,5); } &&) true
