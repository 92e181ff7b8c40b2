# libkcdata: kcdata/ as a library of its own, static and shared. `make install-kcdata` installs it.
# The soname changes when a program that was linked before would no longer run.

KCD_SOVERSION := 0
KCD_VERSION   := $(VERSION)
KCD_SO        := libkcdata.so.$(KCD_SOVERSION)
KCD_SO_FILE   := libkcdata.so.$(KCD_VERSION)
KCD_OBJS      := $(kcdata_SRCS:%.c=$B/pic/%.o)
KCD_CFLAGS     = $(filter-out -fPIE,$(ALL_CFLAGS)) -fPIC -Wconversion

# guestshot and its tests link the same objects out of guestshot.a
LIBS += $(filter-out $(LIBS),$(kcdata_LIBS))

$B/pic/kcdata/%.o: kcdata/%.c
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(CPPFLAGS) $(KCD_CFLAGS) -MMD -MP -c -o $@ $<

$B/libkcdata.a: $(KCD_OBJS)
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $(KCD_OBJS)

$B/$(KCD_SO_FILE): $(KCD_OBJS) kcdata/libkcdata.map
	$(call say,LD,$@)
	$(Q)$(CC) $(KCD_CFLAGS) $(filter-out -pie,$(LDFLAGS_$(FLAVOUR))) $(LDFLAGS) -shared -Wl,-soname,$(KCD_SO) \
		-Wl,--version-script=kcdata/libkcdata.map -o $@ $(KCD_OBJS) $(kcdata_LIBS)
	$(Q)ln -sf $(KCD_SO_FILE) $(@D)/$(KCD_SO) && ln -sf $(KCD_SO) $(@D)/libkcdata.so

.PHONY: libkcdata
libkcdata: $B/libkcdata.a $B/$(KCD_SO_FILE) ## build kcdata as a library: static and shared

.PHONY: install-kcdata
install-kcdata: libkcdata ## install libkcdata, its headers and its pkg-config file below PREFIX
	install -D -m 644 $B/libkcdata.a $(DESTDIR)$(PREFIX)/lib/libkcdata.a
	install -D -m 755 $B/$(KCD_SO_FILE) $(DESTDIR)$(PREFIX)/lib/$(KCD_SO_FILE)
	ln -sf $(KCD_SO_FILE) $(DESTDIR)$(PREFIX)/lib/$(KCD_SO)
	ln -sf $(KCD_SO) $(DESTDIR)$(PREFIX)/lib/libkcdata.so
	for h in $(kcdata_DOORS); do install -D -m 644 $$h $(DESTDIR)$(PREFIX)/include/$$h || exit 1; done
	mkdir -p $(DESTDIR)$(PREFIX)/lib/pkgconfig
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(KCD_VERSION)|' kcdata/libkcdata.pc.in \
		>$(DESTDIR)$(PREFIX)/lib/pkgconfig/libkcdata.pc

# Installs into a folder of its own, builds the example there with what pkg-config says, and runs it with
# either library; and the names that the library exports are those of the version script.
.PHONY: check-libkcdata
check-libkcdata: libkcdata
	$(call say,CHECK,libkcdata)
	$(Q)sh tests/unit/kcdata/check-libkcdata $B/$(KCD_SO_FILE) "$(MAKE) -f $(firstword $(MAKEFILE_LIST))" "$(CC)" "$(CFLAGS_$(FLAVOUR))"

# docs/records.md is written by the program from its tables.
.PHONY: docs/records.md
docs/records.md: $B/guestshot
	$(call say,DOC,$@)
	$(Q)$< kcdata records >$@.new && mv $@.new $@

.PHONY: check-records
check-records: $B/guestshot
	$(call say,CHECK,docs/records.md)
	$(Q)$< kcdata records | cmp - docs/records.md || { \
		echo "docs/records.md is out of date: make docs/records.md" >&2; exit 1; }

$B/made.kcdata: $B/bench-kcdata
	$(call say,MAKE,$@)
	$(Q)$< $@ 300

# The samples that are not in the tree, and the stock reader (KCDATA_PY): says what it ran without.
# KCDATA_CAPTURES: captures of ours to be looked at, besides a made one.
.PHONY: check-kcdata-samples
check-kcdata-samples: $B/guestshot $B/made.kcdata
	$(call say,CHECK,kcdata samples)
	$(Q)python3 tests/unit/kcdata/samples.py $< $B/made.kcdata $(KCDATA_CAPTURES)

.PHONY: check-kcdata
check-kcdata: $B/tests/unit-kcdata check-libkcdata check-records check-kcdata-samples ## all checks of kcdata but fuzzing
	$(Q)$B/tests/unit-kcdata
