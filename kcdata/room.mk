# kcdata: Apple's record format; stands alone
kcdata_SRCS  := kcdata/writer.c kcdata/reader.c kcdata/names.c kcdata/schema.c kcdata/json.c \
                kcdata/compress.c kcdata/inflate.c kcdata/walk.c kcdata/spans.c kcdata/dict.c \
                kcdata/decode.c kcdata/json_view.c kcdata/text.c kcdata/validate.c kcdata/stat.c
kcdata_DOORS := kcdata/kcdata.h kcdata/stackshot_types.h kcdata/crashinfo_types.h kcdata/schema.h \
                kcdata/json.h kcdata/compress.h kcdata/json_view.h kcdata/text.h kcdata/validate.h \
                kcdata/stat.h
kcdata_LIBS  := -lz -lzstd
# what is linked with compress.o; the others do without
$B/guestshot $B/tests/unit-kcdata: LIBS += $(kcdata_LIBS)
