# kcdata: Apple's record format; stands alone
kcdata_SRCS  := kcdata/writer.c kcdata/reader.c kcdata/names.c kcdata/schema.c kcdata/json.c
kcdata_DOORS := kcdata/kcdata.h kcdata/stackshot_types.h kcdata/schema.h kcdata/json.h
