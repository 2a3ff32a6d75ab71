"""Small files that ask for endless memory or time. Run as a program: reads every one of them and tells the costs.

    python tests/core/pickles/bombs.py FOLDER

One line of JSON per bomb: its name, its size, the seconds, the growth of the peak memory in bytes, the error.
"""

import io
import json
import pickle
import struct
import sys
import time
import zipfile
from pathlib import Path

MIB = 2**20
MAGIC = 0x1950A86A20F9469CFC6C


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def numbered(count):
    """`count` different short texts on the stack."""
    return b"".join(text(str(i)) for i in range(count))


def archive(stream, **data):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        made.writestr("a/data.pkl", b"\x80\x02" + stream)
        for key, content in data.items():
            made.writestr(f"a/data/{key[1:]}", content)
    return buffer.getvalue()


def legacy(stream):
    heads = b"".join(pickle.dumps(value, 2) for value in (MAGIC, 1001, {"little_endian": True}))
    return heads + b"\x80\x02" + stream + pickle.dumps([], 2)


def amplified(token, argument, calls, wrap=b"\x85"):
    """`argument` is made once and handed to a global again and again; all results are kept in one list."""
    remembered = argument + b"r\x00\x10\x00\x00" + token + b"r\x01\x10\x00\x00"
    call = b"j\x01\x10\x00\x00j\x00\x10\x00\x00" + wrap + b"R"
    return remembered + b"](" + (call * 40 + b"e(") * (calls // 40) + b"e."


MANY_TEXTS = b"](" + numbered(9000) + b"e"
MANY_PAIRS = b"](" + b"".join(text(str(i)) + b"N\x86" for i in range(4000)) + b"e"
STORAGE = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + text("cpu") + b"J\x00\x00\x10\x00tQ"
REBUILD = b"ctorch._utils\n_rebuild_tensor_v2\n"

ONE_NUMBER = b"".join(pickle.dumps(value, 2) for value in (MAGIC, 1001, {"little_endian": True}))
ONE_NUMBER += b"\x80\x02(" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + text("cpu") + b"K\x01NtQ."
ONE_NUMBER += pickle.dumps(["0"], 2) + struct.pack("<Qf", 1, 1.0)

PRIORS = {
    "a set again and again": amplified(b"cbuiltins\nset\n", MANY_TEXTS, 40_000),
    "ordered dicts": amplified(b"ccollections\nOrderedDict\n", b")", 40_000, wrap=b""),
    "sets that grow": b"](" + (b"\x8f(" + numbered(30) + b"\x90") * 4000 + b"e.",
    "dicts that grow": b"](" + (b"}(" + b"".join(text(str(i)) + b"N" for i in range(20)) + b"u") * 4000 + b"e.",
    "wide texts": b"](" + (b"X\x00\x00\x10\x00" + b"a" * (MIB - 4) + "\U0001f600".encode()) * 15 + b"e.",
    "tuples of the same": b"]" + b"q\x00(" + (b"(" + b"h\x00" * 3000 + b"t") * 45 + b"e.",
    "storages that are parsed again": amplified(
        b"ctorch.storage\n_load_from_bytes\n", b"B" + struct.pack("<I", len(ONE_NUMBER)) + ONE_NUMBER, 40_000
    ),
    "deep tuples": b")" + b"\x85" * 140_000 + b".",
}
TARGETS = {
    "a nested tuple as a key": archive(b"})" + b"q\x00h\x00\x86" * 60 + b"K\x01s."),
    "a deep tuple as a key": legacy(b"})" + b"\x85" * 200_000 + b"K\x01s."),
    "bytearray of 3 GiB": archive(b"cbuiltins\nbytearray\n\x8a\x05\x00\x00\x00\xc0\x00\x85R."),
    "bytearray of Python 2": archive(b"c__builtin__\nbytearray\n\x8a\x05\x00\x00\x00\xc0\x00\x85R."),
    "a huge whole number": archive(b"\x8b\xff\xff\xff\x7f" + bytes(100) + b"."),
    "a number of 255 bytes": archive(b"\x8a\xff" + b"\xff" * 255 + b"."),
    "a huge storage": archive(STORAGE.replace(b"\x00\x00\x10\x00t", b"\xff\xff\xff\x7ft") + b".", _0=bytes(8)),
    "tensors without end": archive(
        STORAGE
        + b"q\x00"
        + REBUILD
        + b"q\x01]("
        + b"".join([b"h\x01(h\x00K\x00J\x00\x00\x10\x00\x85K\x01\x85\x89}tR"] * 9000)
        + b"e.",
        _0=bytes(4 * MIB),
    ),
    "one element everywhere": archive(
        STORAGE + b"q\x00" + REBUILD + b"(h\x00K\x00" + b"J\xff\xff\xff\x7f" + b"\x85K\x00\x85\x89}tR.",
        _0=bytes(4 * MIB),
    ),
    "ordered dicts of pairs": archive(amplified(b"ccollections\nOrderedDict\n", MANY_PAIRS, 200_000)),
    "sizes": archive(amplified(b"ctorch\nSize\n", b"(" + b"K\x01" * 9000 + b"t", 200_000)),
    "a million opcodes": archive(b"]" + b"Na" * 700_000 + b"."),
    "a million of the legacy format": legacy(b"]" + b"Na" * 700_000 + b"."),
    "strings of the stack": archive(b"N" * 300_000 + b"."),
    "marks": archive(b"(" * 300_000 + b"."),
    "laughs": archive(
        b"]("
        + b"N" * 10
        + b"e"
        + b"".join(b"r" + struct.pack("<I", i) + b"](" + (b"j" + struct.pack("<I", i)) * 10 + b"e" for i in range(200))
        + b"."
    ),
    "members": archive(b"}.", **{f"_{i}": b"" for i in range(20_000)}),
}


def peak():
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines["VmHWM"].split()[0]) * 1024


def main(folder):
    from smoothsweep.core.errors import InputError
    from smoothsweep.core.models.official_targets import import_target
    from smoothsweep.core.priors.official.importer import import_prior

    def target(path):
        import_target(path, architecture="resnet18", num_classes=3, transform_input=None, protocol="paper")

    for kind, read, bombs in (("prior", import_prior, PRIORS), ("target", target, TARGETS)):
        for name, content in bombs.items():
            path = folder / "bomb"
            path.write_bytes(content if kind == "target" else b"\x80\x04" + content)
            Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
            before, start, error = peak(), time.process_time(), None
            try:
                read(path)
            except InputError as problem:
                error = str(problem)
            told = {"seconds": time.process_time() - start, "growth": peak() - before, "error": error}
            print(json.dumps({"name": f"{kind}: {name}", "bytes": len(content), **told}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
