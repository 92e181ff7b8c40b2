# SPDX-License-Identifier: Apache-2.0
"""Where things are in ELF cores and kdump-compressed dumps; and a kdump compressed in other ways.

Formats: makedumpfile's diskdump_mod.h, and "flattened" in makedumpfile(8). QEMU's pages are of 64 KiB there.
"""
import bisect
import ctypes
import os
import struct
import zlib

PAGE = 4096
KDUMP_ZLIB, KDUMP_LZO, KDUMP_SNAPPY, KDUMP_ZSTD = 1, 2, 4, 32  # flags of a page
FLAT_START = 4096  # bytes of the flattened form's own header
DESC = struct.Struct('<QIIQ')  # offset, size, flags, page_flags
# offsets in the 64-bit disk_dump_header
STATUS, BLOCK_SIZE = 424, 428


class Core:
    """An ELF core."""

    def __init__(self, path):
        self.path = path
        with open(path, 'rb') as f:
            header = f.read(64)
            phoff, = struct.unpack_from('<Q', header, 32)
            size, count = struct.unpack_from('<HH', header, 54)
            f.seek(phoff)
            table = f.read(size * count)
        self.loads = []  # (guest-physical start, file offset, bytes)
        for at in range(0, len(table), size):
            kind, _, offset, _, pa, filesz = struct.unpack_from('<IIQQQQ', table, at)
            if kind == 1:
                self.loads.append((pa, offset, filesz))
        self.start = min(offset for _, offset, _ in self.loads)

    def headers(self):
        """(file offset, bytes) of what describes the dump."""
        return [(0, self.start)]

    def page(self, pa):
        """(file offset, bytes) of what holds a page; [] if there is none."""
        return [(offset + pa - start, PAGE) for start, offset, size in self.loads if start <= pa < start + size]

    def pages(self):
        """The same for all pages that were ever written."""
        with open(self.path, 'rb') as f:
            for pa, offset, size in self.loads:
                for start, end in extents(f.fileno(), offset, offset + size):
                    first = max(0, start - offset + PAGE - 1) // PAGE
                    for n in range(first, (end - offset) // PAGE):
                        yield pa + n * PAGE, offset + n * PAGE


class Kdump:
    """A kdump-compressed file, flattened or not."""

    def __init__(self, path):
        self.path, self.file = path, open(path, 'rb')
        self.flat = self.file.read(12) == b'makedumpfile'
        self.runs = sorted(self.flat_runs()) if self.flat else [(0, os.path.getsize(path), 0)]
        self.starts = [run[0] for run in self.runs]
        self.block, sub, bitmap_blocks, _ = struct.unpack('<iiII', self.read(BLOCK_SIZE, 16))
        self.bitmaps = (1 + sub) * self.block
        self.descs = self.bitmaps + bitmap_blocks * self.block
        self.bitmap = self.read(self.bitmaps + bitmap_blocks * self.block // 2, bitmap_blocks * self.block // 2)
        self.by_pfn = {}  # pfn: offset of its descriptor
        for n, byte in enumerate(self.bitmap):
            for bit in range(8) if byte else ():
                if byte >> bit & 1:
                    self.by_pfn[n * 8 + bit] = self.descs + len(self.by_pfn) * DESC.size

    def flat_runs(self):
        """(offset in the dump, bytes, offset in the file), in the order of the file."""
        at = FLAT_START
        while True:
            self.file.seek(at)
            offset, size = struct.unpack('>qq', self.file.read(16))
            if offset < 0:
                return
            yield offset, size, at + 16
            at += 16 + size

    def pieces(self, offset, size):
        """(offset in the dump, file offset, bytes) of what the file holds of the bytes of the dump."""
        end = offset + size
        for i in range(max(0, bisect.bisect_right(self.starts, offset) - 1), len(self.runs)):
            start, length, at = self.runs[i]
            if start >= end:
                break
            first, last = max(offset, start), min(end, start + length)
            if first < last:
                yield first, at + first - start, last - first

    def place(self, offset, size):
        return [(at, n) for _, at, n in self.pieces(offset, size)]

    def read(self, offset, size):
        """Bytes of the dump; what the file does not hold is zero."""
        data = bytearray(size)
        for where, at, n in self.pieces(offset, size):
            self.file.seek(at)
            data[where - offset:where - offset + n] = self.file.read(n)
        return bytes(data)

    def headers(self):
        return self.place(0, self.descs)

    def page(self, pa):
        """Its descriptor and its compressed data."""
        at = self.by_pfn.get(pa // self.block)
        if at is None:
            return []
        offset, size, _, _ = DESC.unpack(self.read(at, DESC.size))
        return [*self.place(at, DESC.size), *self.place(offset, size)]

    def content(self, desc):
        """A page, from its descriptor's bytes."""
        offset, size, flags, _ = DESC.unpack(desc)
        data = self.read(offset, size)
        return zlib.decompress(data) if flags & KDUMP_ZLIB else data

    def rewrite(self, path, flag):
        """The same dump, not flattened, each page compressed as FLAG says where that makes it smaller."""
        pack = packer(flag)
        table = self.read(self.descs, len(self.by_pfn) * DESC.size)
        with open(path, 'wb') as out:
            head = bytearray(self.read(0, self.descs))
            struct.pack_into('<I', head, STATUS, flag)
            out.write(head)
            out.write(bytes(len(table)))
            written, descs = {}, bytearray()
            for at in range(0, len(table), DESC.size):
                desc = table[at:at + DESC.size]
                if desc not in written:  # all pages of zeros share one
                    page = self.content(desc)
                    packed = pack(page)
                    used = flag if len(packed) < len(page) else 0
                    written[desc] = DESC.pack(out.tell(), len(packed if used else page), used, 0)
                    out.write(packed if used else page)
                descs += written[desc]
            out.seek(self.descs)
            out.write(descs)


def packer(flag):
    """A function that compresses a page; OSError: this machine has no library for it."""
    if flag == KDUMP_ZLIB:
        return zlib.compress
    out = ctypes.create_string_buffer(256 << 10)
    size = ctypes.c_size_t()
    if flag == KDUMP_ZSTD:
        zstd = ctypes.CDLL('libzstd.so.1').ZSTD_compress
        zstd.restype = ctypes.c_size_t

        def pack(page):
            size.value = zstd(out, ctypes.c_size_t(len(out)), page, ctypes.c_size_t(len(page)), 1)
            return out.raw[:size.value]
    elif flag == KDUMP_SNAPPY:
        snappy = ctypes.CDLL('libsnappy.so.1').snappy_compress

        def pack(page):
            size.value = len(out)
            snappy(page, ctypes.c_size_t(len(page)), out, ctypes.byref(size))
            return out.raw[:size.value]
    else:
        lzo = ctypes.CDLL('liblzo2.so.2').lzo1x_1_compress
        memory = ctypes.create_string_buffer(1 << 17)

        def pack(page):
            lzo(page, ctypes.c_size_t(len(page)), out, ctypes.byref(size), memory)
            return out.raw[:size.value]
    return pack


def extents(fd, start, end):
    """(start, end) of what is no hole."""
    while start < end:
        try:
            start = os.lseek(fd, start, os.SEEK_DATA)
            hole = os.lseek(fd, start, os.SEEK_HOLE)
        except OSError:  # nothing but a hole up to the end
            return
        if start < end:
            yield start, min(hole, end)
        start = hole
