#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: samples.py GUESTSHOT [CAPTURE...]

guestshot kcdata against files and a reader that are not in the tree:
- KCDATA_SAMPLES (default ../shared/kcdata-samples): each sample's JSON equals expected/*.plist[.gz]; each
  goes through convert in every way and comes back byte for byte.
- KCDATA_PY, the stock reader script: what it prints for our files, plain and zlib, equals our JSON after the
  normalisations of the oracle document; it refuses zstd.
Our files are the CAPTUREs given, and streams made here. What is absent is skipped, and said."""
import base64
import gzip
import json
import os
import plistlib
import struct
import subprocess
import sys
import tempfile
import zlib

PROGRAM = sys.argv[1]
PY = os.environ.get("KCDATA_PY")
SAMPLES = os.environ.get(
    "KCDATA_SAMPLES",
    os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../../shared/kcdata-samples"))
WAYS = ["none", "zlib", "zstd", "zstd:9"]
failures = 0
checks = 0


def check(good, what):
    global failures, checks
    checks += 1
    if not good:
        failures += 1
        print("FAILED:", what)


def run(*arguments, data=None):
    return subprocess.run([PROGRAM, "kcdata", *arguments], input=data, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False)


def our_json(data):
    r = run("json", "--bytes=stock", "-", data=data)
    return json.loads(r.stdout) if r.returncode == 0 else r.stderr.decode()


def stock_json(data):
    with tempfile.NamedTemporaryFile() as f:
        f.write(data)
        f.flush()
        r = subprocess.run([sys.executable, PY, f.name], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           check=False)
    if r.returncode:
        return r.stderr.decode().strip().split("\n")[-1]
    return json.loads(r.stdout)


def normal(value):
    """What the stock script does not show, or cuts (oracle document)."""
    if isinstance(value, dict):
        out = {}
        for k, v in value.items():
            if k == "tgs_name_cont":
                continue
            if k in ("boot_args", "osversion", "os_build_version") and isinstance(v, str):
                v = v[:256]
            if k == "wait_flags" and v >= 1 << 31:
                v -= 1 << 32
            if k.startswith("0x") and isinstance(v, list) and all(isinstance(b, int) for b in v):
                v = v + [0] * (-len(v) % 16)  # unknown types: it prints the padding too
            out[k] = normal(v)
        if "imageSlidBaseAddress" in out:
            out.pop("sharedCacheID", None)
            out.pop("sharedCacheFlags", None)
        return out
    if isinstance(value, list):
        return [normal(v) for v in value]
    return value


def check_ways(name, plain, data):
    """Every conversion and back is the identity; gzip around it changes nothing."""
    for way in WAYS:
        there = run("convert", "-q", "--compress", way, "-", data=data)
        check(there.returncode == 0, f"{name}: convert to {way}: {there.stderr.decode()}")
        back = run("convert", "-q", "-", data=gzip.compress(there.stdout, 1))
        check(back.stdout == plain, f"{name}: {way} and back")
        if way == "none":
            check(there.stdout == plain, f"{name}: plain stays as it is")
        else:
            check(there.stdout[:4] == b"PMOC", f"{name}: {way} is compressed")


def check_samples():
    names = []
    if os.path.isdir(SAMPLES):
        names = [n for n in sorted(os.listdir(SAMPLES))
                 if os.path.isfile(os.path.join(SAMPLES, n)) and n != "SHA256SUMS"]
    if not names:
        print("SKIP: no samples in", SAMPLES, "(KCDATA_SAMPLES names their folder)")
        return
    for n in names:
        with open(os.path.join(SAMPLES, n), "rb") as f:
            data = f.read()
        plain = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
        expected = os.path.join(SAMPLES, "expected", n + ".plist")
        if os.path.exists(expected + ".gz"):
            want = plistlib.loads(gzip.open(expected + ".gz").read())
        else:
            with open(expected, "rb") as f:
                want = plistlib.load(f)
        check(our_json(data) == want, f"{n}: JSON equals the property list")
        check_ways(n, plain, data)
        v = run("validate", "--tolerant", "-q", "-", data=data)
        check(v.returncode == 0, f"{n}: {v.stdout.decode()[:200]}")
        check(run("dump", "-", data=data).returncode == 0, f"{n}: dump")
        if PY:
            check(stock_json(plain) == our_json(data), f"{n}: JSON equals the stock script's")
    print(f"samples: {len(names)}")


# --- streams made here, without any code of ours ------------------------------------------------------------

def item(code, payload=b"", flags=None):
    pad = -len(payload) % 16
    return struct.pack("<IIQ", code, len(payload) + pad, 0x80 | pad if flags is None else flags) + payload + bytes(pad)


def array(code, size, data):
    pad = -len(data) % 16
    return struct.pack("<IIQ", 0x20 | pad, len(data) + pad, code << 32 | len(data) // size) + data + bytes(pad)


def container(code, ident, *items):
    return item(0x13, struct.pack("<I", code), ident) + b"".join(items) + item(0x14, b"", ident)


def u64(name, value):
    return item(3, struct.pack("<32sQ", name, value))


def definition(code, name, *fields):
    data = struct.pack("<II32s", code, len(fields), name)
    for kind, offset, size, count, label in fields:
        data += struct.pack("<BBHI32s", (1 if count else 0) | (2 if len(fields) == 1 else 0), kind, offset,
                            count << 16 | size if count else size, label)
    return item(0x12, data, -len(data) % 16)


def buffer(*items, magic=0x59A25807):
    return item(magic) + b"".join(items) + item(0xF19158ED, b"", 0)


def records_of_every_size():
    """A record of each type that the stock script decodes as a structure or a value, at some sizes.
    Not 0x83B to 0x83E: it has their layouts, but not their codes, and prints bytes."""
    sizes = {0x901: 160, 0x902: 61, 0x905: 120, 0x906: 128, 0x908: 40, 0x919: 24, 0x91B: 21, 0x91C: 24, 0x91F: 8,
             0x921: 8, 0x922: 4, 0x923: 32, 0x924: 16, 0x925: 4, 0x92A: 8, 0x92C: 80, 0x92D: 80, 0x92F: 48, 0x930: 60,
             0x932: 4, 0x938: 32, 0x940: 76, 0x943: 48, 0x945: 4, 0x946: 12, 0x948: 16, 0x94B: 16, 0x94D: 32,
             0x950: 40, 0x953: 20, 0x910: 4, 0x911: 4, 0x912: 8, 0x32: 8, 0x33: 8, 0x35: 8, 0x36: 4, 0x39: 56,
             0x802: 32, 0x805: 4, 0x806: 4, 0x808: 232, 0x80B: 16, 0x80C: 8, 0x80D: 4, 0x80E: 16, 0x810: 4,
             0x811: 1, 0x812: 4, 0x813: 4, 0x814: 4, 0x815: 4, 0x816: 4, 0x818: 4, 0x819: 4, 0x81A: 8, 0x81B: 8,
             0x840: 16, 0x842: 8, 0x1001: 20, 0x1004: 2108, 0x1005: 8, 0x1006: 8}
    for code, size in sizes.items():
        data = bytes((i * 7 + code) % 128 for i in range(size))
        yield f"{code:#x}", buffer(item(code, data))
        yield f"{code:#x} longer", buffer(item(code, data + bytes(8)))
        if size > 16:
            yield f"{code:#x} shorter", buffer(item(code, data[:size // 2]))
        yield f"{code:#x} with flags of old", buffer(item(code, data, 0))
    for code, size in {0x914: 8, 0x913: 4, 0x915: 4, 0x916: 8, 0x90B: 16, 0x90A: 8, 0x91D: 31, 0x929: 28, 0x91E: 48,
                       0x920: 32, 0x907: 4, 0x917: 8, 0x918: 8, 0x926: 8, 0x927: 24, 0x92E: 24, 0x31: 24, 0x30: 20,
                       0x933: 8, 0x939: 85, 0x941: 64, 0x94E: 8, 0x954: 32, 0x956: 88}.items():
        for count in (0, 1, 3):
            yield f"{code:#x}[{count}]", buffer(array(code, size, bytes((i * 5) % 128 for i in range(size * count))))
    for code in (0x90E, 0x90F, 0x928, 0x936, 0x947, 0x951, 0x37, 0x809, 0x80F, 0x1002):
        yield f"string {code:#x}", buffer(item(code, b"text \xc3\xa9 \xff with more\0"))
        yield f"string {code:#x} without end", buffer(item(code, b"0123456789abcdef"))
    yield "91A", buffer(item(0x91A, struct.pack("<3Q", 1, 2, 3)))
    yield "91A v1", buffer(item(0x91A, struct.pack("<2Q", 1, 2)))
    yield "port label", buffer(container(0x934, 5, item(0x936, b"x\0"), item(0x935, struct.pack("<hHB", -1, 2, 7))))
    yield "unknown", buffer(item(0x7777, b"abc"), array(0x7778, 3, b"abcdef"), container(0x7779, 1))


def whole_snapshots():
    thread = [container(0x904, 10 + i, item(0x906, struct.pack("<16Q", *range(16))), item(0x909, b"w".ljust(64, b"\0")),
                        array(0x914, 8, struct.pack("<3Q", 1 << 63, 2, i)), array(0x913, 4, struct.pack("<2I", 8, 9)))
              for i in range(5)]
    task = [container(0x903, 100 + i, item(0x905, bytes(88) + b"name".ljust(32, b"\0")), *thread) for i in range(3)]
    yield "snapshot", buffer(u64(b"stackshot_in_flags", 0x10000), *task, u64(b"stackshot_out_flags", 1))
    yield "delta", buffer(u64(b"x", 2), *task, magic=0xDE17A59A)
    yield "repeated", buffer(u64(b"x", 1), u64(b"x", 2), task[0], task[1], task[0], item(0x910, b"\1\0\0\0"),
                             item(0x910, b"\2\0\0\0"))
    yield "defined", buffer(
        definition(0x47530001, b"ours", (9, 0, 8, 0, b"address"), (6, 8, 4, 0, b"number"), (1, 12, 1, 16, b"name"),
                   (5, 28, 2, 3, b"some")),
        definition(0x47530002, b"one", (7, 0, 4, 0, b"only")),
        item(0x47530001, struct.pack("<Qi16s3H", 1, -2, b"na\xe9me", 3, 4, 5)), item(0x47530002, b"\5\0\0\0"),
        container(0x903, 1, array(0x47530001, 34, bytes(range(68)))))
    inner = buffer(item(0x1001, struct.pack("<IQQ", 1, 2, 3)), magic=0x53A20900)
    yield "nested", buffer(item(0x805, b"\7\0\0\0"), item(0x38, inner), magic=0xDEADF157)


def check_stock(name, plain):
    ours = normal(our_json(plain))
    check(isinstance(ours, dict), f"{name}: {ours}")
    stock = stock_json(plain)
    check(stock == ours, f"{name}: the stock script has {str(stock)[:300]}, we have {str(ours)[:300]}")
    packed = run("convert", "-q", "--compress=zlib", "-", data=plain)
    check(packed.returncode == 0, f"{name}: zlib: {packed.stderr.decode()}")
    check(stock_json(packed.stdout) == ours, f"{name}: zlib through the stock script")
    if name != "snapshot":
        return
    packed = run("convert", "-q", "--compress=zstd", "-", data=plain)
    check(stock_json(packed.stdout) == "NotImplementedError", f"{name}: the stock script refuses zstd")


def check_made():
    made = list(records_of_every_size()) + list(whole_snapshots())
    for n in sys.argv[2:]:
        with open(n, "rb") as f:
            data = f.read()
        r = run("convert", "-q", "-", data=data)
        made.append((n, r.stdout))
    for name, plain in made:
        check_ways(name, plain, plain) if name in ("snapshot", "nested") else None
        if PY:
            check_stock(name, plain)
    if PY:
        print(f"stock script: {len(made)} streams, plain and zlib")
    else:
        print("SKIP: the stock reader script was not run: KCDATA_PY does not name it")


def check_foreign_zlib():
    """A compressed buffer that our code has not written."""
    plain = next(whole_snapshots())[1]
    blob = zlib.compress(plain[16:-16], 9)
    data = (item(0x434F4D50) + u64(b"kcd_c_type", 1) + u64(b"kcd_c_totalout", len(blob)) +
            u64(b"kcd_c_totalin", len(plain) - 32) + item(0x59A25807) + blob + item(0xF19158ED, b"", 0))
    check(our_json(data) == our_json(plain), "zlib of another writer")
    check(run("validate", "-", data=data).returncode == 0, "zlib of another writer is valid")
    check(run("json", "-", data=base64.b64encode(plain)).returncode == 65, "what is no kcdata has its exit code")
    check(run("json", "/nonexistent").returncode == 66, "what is not there has its exit code")
    cut = run("json", "--salvage", "-", data=data[:-60])
    check(cut.returncode == 2 and json.loads(cut.stdout), "a cut file is salvaged")
    check(run("json", "-", data=data[:-60]).stdout == b"", "a cut file is nothing without --salvage")
    with tempfile.TemporaryDirectory() as d:
        out = os.path.join(d, "out")
        r = run("convert", "-q", "--compress=zstd:3", "-o", out, "-", data=plain)
        check(r.returncode == 0 and os.listdir(d) == ["out"], "a file is written at once")
        r = run("convert", "-q", "-o", out, "-", data=data[:-60])
        with open(out, "rb") as f:
            check(r.returncode == 65 and our_json(f.read()) == our_json(plain), "a failure leaves the old file")
        check(run("stat", out).returncode == 0, "stat of a compressed file")
        check(run("dump", "-o", os.path.join(d, "no/where"), out).returncode == 73, "output that cannot be written")
    other = next(iter(records_of_every_size()))[1]
    two = run("json", "--multiple", "--compact", "-", data=plain + bytes(64) + other)
    check([json.loads(line) for line in two.stdout.splitlines()] == [our_json(plain), our_json(other)],
          "several buffers are several documents")
    check(run("dump", "--multiple", "-", data=plain + bytes(64) + other).stdout.count(b"STACKSHOT {") == 2,
          "several buffers are dumped")
    odd = buffer(item(0x910, b"\1\0\0\0"), struct.pack("<IIQ", 0x911, 4, 0x80) + bytes(4))
    check(run("json", "-", data=odd).returncode == 0, "an oddity is no damage")
    for what in ("json", "dump"):
        r = run(what, "--strict", "-", data=odd)
        check(r.returncode == 65 and r.stdout == b"", f"{what} --strict: nothing of an odd file")
        check(run(what, "--strict", "--salvage", "-", data=odd).returncode == 2, f"{what} --strict --salvage")
    check(b"GUEST" in run("records").stdout, "records")


check_samples()
check_made()
check_foreign_zlib()
print(f"{checks} checks, {failures} failures")
sys.exit(1 if failures else 0)
