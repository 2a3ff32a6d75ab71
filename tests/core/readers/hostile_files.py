"""Small files that stand for gigabytes. Run as a program: makes all, and reads each under a limit of memory.

    python tests/core/readers/hostile_files.py FOLDER

One line of JSON for each: its name; the error, or null; the growth of the peak memory while it was read, in bytes.
Each is read in a fork, whose limit is what it has before, and `ROOM`; where that is exceeded the line says MemoryError.
"""

import json
import os
import resource
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from smoothsweep.core.data.labelled import load_labelled, load_unlabelled
from smoothsweep.core.data.sources import list_labelled
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.official import import_target

MIB = 2**20
ROOM = 1536 * MIB


def zeros_in_pages(path):
    """Row groups of 256 MiB, compressed to nothing."""
    table = pa.table({"image": [bytes(MIB)] * 256, "label": np.arange(256)})
    with pq.ParquetWriter(path, table.schema, compression="zstd", use_dictionary=False) as writer:
        for _ in range(4):
            writer.write_table(table)


def zeros_of_one_group(path):
    """A single page of nearly 2 GiB, and a footer that says it is a small one."""
    with pq.ParquetWriter(path, pa.schema({"image": pa.binary()}), compression="zstd", use_dictionary=False) as writer:
        writer.write_table(pa.table({"image": [bytes(1024 * MIB)]}))
    true = pq.read_metadata(path).row_group(0).column(0).total_uncompressed_size
    written = varint(true)
    path.write_bytes(path.read_bytes().replace(written, padded(99, len(written))))
    assert pq.read_metadata(path).row_group(0).column(0).total_uncompressed_size == 99


def endless_rows(path):
    """Empty pictures of one class, 30 million of them."""
    count = 30_000_000
    index = pa.array(np.zeros(count, np.int8))
    entry = pa.DictionaryArray.from_arrays(index, pa.array([b""]))
    names = pa.DictionaryArray.from_arrays(index, pa.array(["a person"]))
    pq.write_table(pa.table({"image": entry, "identity": names}), path, store_schema=False)


def png(path, number, *, side, bits=8, colour=2):
    """Black, of so many pixels a side, but for so many pixels or pairs of its last row.

    bits: of a channel; colour: PNG's number of a kind: 2 RGB, 6 RGBA, 0 grey.
    """
    channels = {0: 1, 2: 3, 6: 4}[colour]
    row, packer = bytes(1 + side * channels * bits // 8), zlib.compressobj(1)
    data = b"".join(packer.compress(row) for _ in range(side - 1))
    data += packer.compress(row[: -4 * number] + b"\x7f" * 4 * number if number else row) + packer.flush()

    def chunk(name, body):
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    head = struct.pack(">IIBBBBB", side, side, bits, colour, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b""))


def sparse(path, number=0, *, start=b"\x89PNG\r\n\x1a\n", size=6 * 2**30):
    with path.open("wb") as file:
        file.write(start)
        file.truncate(size)


def webp(path, number):
    """A canvas of 16,384 pixels a side, and nothing on it."""
    side = (16383).to_bytes(3, "little")
    body = b"WEBPVP8X" + struct.pack("<I", 10) + bytes([0x02, 0, 0, 0]) + side + side + b"ANIM" + struct.pack("<I", 6)
    body += bytes(6)
    path.write_bytes(b"RIFF" + struct.pack("<I", len(body)) + body)


def folder_of(make):
    """Two classes, each with two pictures; `make` writes one, given its path and number."""

    def made(path):
        for number in range(4):
            (path / "ab"[number // 2]).mkdir(parents=True, exist_ok=True)
            make(path / "ab"[number // 2] / f"{number}.png", number)

    return made


def pictures(**kind):
    return folder_of(lambda path, number: png(path, number, **kind))


def sparse_safetensors(path):
    """The weights of a classification layer, and 6 GiB beside them."""
    sizes = {"fc.weight": [3, 512], "fc.bias": [3], "conv1.weight": [1610612736]}
    header, at = {}, 0
    for name, shape in sizes.items():
        end = at + 4 * int(np.prod(shape))
        header[name], at = {"dtype": "F32", "shape": shape, "data_offsets": [at, end]}, end
    text = json.dumps(header).encode()
    sparse(path, start=struct.pack("<Q", len(text)) + text, size=8 + len(text) + at)


def varint(number):
    """As thrift's compact protocol writes a whole number."""
    number, out = number << 1, bytearray()
    while True:
        out.append((number & 0x7F) | (0x80 if number >> 7 else 0))
        number >>= 7
        if not number:
            return bytes(out)


def padded(number, length):
    short = bytearray(varint(number))
    while len(short) < length:
        short[-1] |= 0x80
        short.append(0)
    return bytes(short)


def labelled(path):
    torch.set_num_threads(4)  # as many pictures are decoded at a time
    return load_labelled(path, size=16, test_fraction=0.4)


def unlabelled(path):
    return load_unlabelled(path, size=16)


def adopted(path):
    return import_target(path, architecture="resnet18", num_classes=3, transform_input=None, protocol="paper")


MAPPED = resource.RLIMIT_DATA  # a mapped file is address space, not memory
CASES = {
    "zeros in pages": (zeros_in_pages, list_labelled, "x.parquet", resource.RLIMIT_AS),
    "a page larger than said": (zeros_of_one_group, unlabelled, "x.parquet", resource.RLIMIT_AS),
    "endless rows": (endless_rows, list_labelled, "x.parquet", resource.RLIMIT_AS),
    "pictures of 9,400 pixels": (pictures(side=9400), labelled, "x", resource.RLIMIT_AS),
    "a canvas without end": (folder_of(webp), labelled, "x", resource.RLIMIT_AS),
    "6 GiB of weights": (sparse_safetensors, adopted, "x.safetensors", MAPPED),
    "large pictures, RGBA": (pictures(side=8000, colour=6), labelled, "x", resource.RLIMIT_AS),
}
"""What it is -> how it is made, who reads it, its name, the kind of memory that is limited."""

READ = ("large pictures, RGBA",)
"""Those that are read: large, and within the bounds."""


def status(name):
    """A line of /proc/self/status, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def apart(work):
    """What happens in a fork of this process: its memory is its own, and given back."""
    child = os.fork()
    if child == 0:
        try:
            work()
            sys.stdout.flush()
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def said_of(case, path):
    """Read it within the limit, and print what came of it."""
    _, read, _, kind = CASES[case]
    Path("/proc/self/clear_refs").write_text("5")
    before = status("VmHWM:")
    most = status("VmSize:" if kind == resource.RLIMIT_AS else "VmData:") + ROOM
    resource.setrlimit(kind, (most, most))
    try:
        read(path)
        error = None
    except (InputError, MemoryError, RuntimeError, OSError) as raised:
        error = f"{type(raised).__name__}: {raised}"
    print(json.dumps({"case": case, "error": error, "growth": status("VmHWM:") - before}))


def main():
    for number, (case, (make, _, name, _)) in enumerate(CASES.items()):
        folder = Path(sys.argv[1]) / str(number)
        folder.mkdir()
        apart(lambda make=make, path=folder / name: make(path))
        apart(lambda case=case, path=folder / name: said_of(case, path))


if __name__ == "__main__":
    main()
