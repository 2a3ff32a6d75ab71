"""Which opcodes each dialect of pickles has, and what those are called that none has."""

from __future__ import annotations

OLD_TEXTS = frozenset(["SHORT_BINSTRING", "BINSTRING"])  # of Python 2, in which old checkpoints were written
STORAGE_OPCODES = frozenset(
    [
        "PROTO",
        "STOP",
        "MARK",
        "NONE",
        "NEWTRUE",
        "NEWFALSE",
        "BININT",
        "BININT1",
        "BININT2",
        "LONG1",
        "BINUNICODE",
        "EMPTY_DICT",
        "EMPTY_LIST",
        "TUPLE",
        "APPEND",
        "SETITEM",
        "SETITEMS",
        "BINPUT",
        "BINGET",
        "GLOBAL",
        "BINPERSID",
    ]
)

CHECKPOINT_OPCODES = (
    STORAGE_OPCODES
    | OLD_TEXTS
    | frozenset(
        [
            "FRAME",
            "BINFLOAT",
            "SHORT_BINUNICODE",
            "EMPTY_TUPLE",
            "EMPTY_SET",
            "TUPLE1",
            "TUPLE2",
            "TUPLE3",
            "APPENDS",
            "ADDITEMS",
            "LONG_BINPUT",
            "LONG_BINGET",
            "MEMOIZE",
            "STACK_GLOBAL",
            "REDUCE",
            "BUILD",
        ]
    )
)

REFUSED: dict[int, str] = {
    ord("I"): "INT",
    ord("L"): "LONG",
    0x8B: "LONG4",
    ord("S"): "STRING",
    ord("V"): "UNICODE",
    0x8D: "BINUNICODE8",
    0x96: "BYTEARRAY8",
    0x97: "NEXT_BUFFER",
    0x98: "READONLY_BUFFER",
    ord("F"): "FLOAT",
    ord("l"): "LIST",
    ord("d"): "DICT",
    0x91: "FROZENSET",
    ord("0"): "POP",
    ord("1"): "POP_MARK",
    ord("2"): "DUP",
    ord("g"): "GET",
    ord("p"): "PUT",
    0x82: "EXT1",
    0x83: "EXT2",
    0x84: "EXT4",
    ord("i"): "INST",
    ord("o"): "OBJ",
    0x92: "NEWOBJ_EX",
    ord("P"): "PERSID",
}
"""Byte -> name of an opcode that is always refused, for the sentence that refuses it."""
