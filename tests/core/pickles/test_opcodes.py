"""The interpreter against Python's own pickle for plain data, and against every opcode there is."""

import dataclasses
import math
import pickle
import pickletools
import re
import struct
from sys import getsizeof

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothsweep.core.errors import InputError
from smoothsweep.core.pickles import opcode_names, opcodes
from smoothsweep.core.pickles.cursor import Cursor, Refused
from smoothsweep.core.pickles.machine import Global, Limits, Machine
from smoothsweep.core.pickles.opcode_names import CHECKPOINT_OPCODES, STORAGE_OPCODES
from smoothsweep.core.pickles.opcodes import NETWORK_OPCODES, run
from smoothsweep.core.priors.official.standins import network_dialect

BY_NAME = {opcode.name: opcode.code.encode("latin-1") for opcode in pickletools.opcodes}


def read(content):
    machine = run(Cursor(memoryview(content)), network_dialect("f.pkl"), name="f.pkl")
    return machine.stack[0]


def refusal(content):
    with pytest.raises(InputError) as caught:
        read(content)
    assert "\n" not in str(caught.value)
    return str(caught.value)


numbers = st.integers(-(2**127), 2**127 - 1) | st.floats(allow_nan=False)
plain = st.recursive(
    st.none() | st.booleans() | numbers | st.text() | st.sets(st.text(max_size=5)),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text() | st.integers(0, 99), inner),
    max_leaves=30,
)


@given(plain, st.sampled_from([3, 4, 5]))
def test_plain_data_are_what_pickle_wrote(value, protocol):
    assert read(pickle.dumps(value, protocol)) == value


def test_long_data_pass_the_batches_and_the_memo():
    value = {"list": list(range(3000)), "text": ["the same"] * 300, "dict": {str(key): key for key in range(2500)}}
    assert read(pickle.dumps(value, 4)) == value
    assert math.isnan(read(pickle.dumps(math.nan, 4)))


def test_the_table_of_opcodes_is_that_of_python():
    for name, code in ((name, code) for code, (name, _) in opcodes._STEPS.items()):
        assert BY_NAME[name] == bytes([code])
    assert {BY_NAME[name][0]: name for name in opcode_names.REFUSED.values()} == opcode_names.REFUSED
    assert NETWORK_OPCODES | CHECKPOINT_OPCODES | set(opcode_names.REFUSED.values()) == BY_NAME.keys()
    assert STORAGE_OPCODES - {"BINPERSID"} < NETWORK_OPCODES


ARGUMENTS = {
    "INST": b"posix\nsystem\n",
    "INT": b"1\n",
    "LONG": b"1L\n",
    "FLOAT": b"1\n",
    "STRING": b"'a'\n",
    "GET": b"0\n",
    "PUT": b"0\n",
    "UNICODE": b"a\n",
    "PERSID": b"a\n",
    "EXT1": b"\1",
    "EXT2": b"\1\0",
    "EXT4": b"\1\0\0\0",
}


@pytest.mark.parametrize("name", sorted(BY_NAME.keys() - NETWORK_OPCODES))
def test_every_other_opcode_is_refused(name):
    before = b"\x80\x04(}]K\x01"
    content = before + BY_NAME[name] + ARGUMENTS.get(name, b"\0" * 8) + b"."
    message = refusal(content)
    assert message == f"f.pkl: offset {len(before)}: {name}: this opcode is not of a StyleGAN2-ADA file"


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value.encode()


EASYDICT = b"cdnnlib.util\nEasyDict\n"
ORDERED = b"ccollections\nOrderedDict\n"
NETWORK = b"ctorch_utils.persistence\n_reconstruct_persistent_obj\n"
DTYPE = b"cnumpy\ndtype\n" + text("f8") + b"\x89\x88\x87R"
ORDER = b"(K\x03" + text("<") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00t"
SCALAR = b"cnumpy.core.multiarray\nscalar\n"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        # Globals: anything but the table, and nothing of the table used otherwise than officially.
        (b"cposix\nsystem\n.", "GLOBAL: the global 'posix' 'system' is not of a StyleGAN2-ADA file"),
        (b"cbuiltins\neval\n.", "'builtins' 'eval' is not of"),
        (b"ctorch._utils\n_rebuild_tensor_v2.__globals__\n.", "is not of a StyleGAN2-ADA file"),
        (text("torch") + text("load") + b"\x93.", "STACK_GLOBAL: the global 'torch' 'load' is not of"),
        (b"K\x01" + text("load") + b"\x93.", "expected two texts, got 1 and 'load'"),
        (text("a\nb\x1b[31m") + text("c") + b"\x93.", r"the global 'a\nb\x1b[31m' 'c' is not of"),
        (b"c" + b"a" * 300 + b"\nb\n.", "expected a line of at most 200 bytes"),
        (b"c\xff\nb\n.", "expected ASCII text"),
        (b"cposix\nsystem", "expected a line of at most"),
        # REDUCE
        (b"K\x01)R.", "REDUCE: expected a known global and a tuple, got 1 and a tuple of 0"),
        (ORDERED + b"}R.", "expected a known global and a tuple, got a Global and a dict of 0"),
        (ORDERED + b"](KKe\x85R.", "OrderedDict: expected no arguments"),
        (EASYDICT + b")R.", "dnnlib.util EasyDict is not made this way"),
        (ORDERED + b"\x85" + b")R.", "got a tuple of 1 and a tuple of 0"),
        (NETWORK + b")R.", "expected the keys type, version"),
        (NETWORK + b"}\x85R.", "expected the keys type, version"),
        (b"ctorch._utils\n_rebuild_parameter\nK\x01\x88}\x87R.", "expected a tensor, a bool and no hooks"),
        (b"ctorch.storage\n_load_from_bytes\n" + text("x") + b"\x85R.", "expected the bytes of one storage"),
        (b"cbuiltins\nset\n]K\x01a\x85R.", "builtins set: expected a list of texts"),
        # NEWOBJ
        (ORDERED + b")\x81.", "NEWOBJ: expected an EasyDict without arguments"),
        (EASYDICT + b"K\x01\x85\x81.", "expected an EasyDict without arguments, got a Global and a tuple of 1"),
        (b"}" + b")\x81.", "got a dict of 0 and a tuple of 0"),
        # BUILD
        (ORDERED + b"}b.", "BUILD: only a numpy type may be completed, got a Global"),
        (EASYDICT + b")\x81}b.", "only a numpy type may be completed, got a dict of 0"),
        (NETWORK + b"N}" + text("__defaults__") + b")s\x86b.", "only a numpy type may be completed, got a Global"),
        (DTYPE + b"}b.", "expected a little-endian numpy type"),
        (DTYPE + ORDER.replace(b"<", b">") + b"b.", "expected a little-endian numpy type"),
        # numpy
        (b"cnumpy\ndtype\n" + text("O") + b"\x89\x88\x87R.", "numpy dtype: expected one of f8, f4, i8, i4, b1, got"),
        (SCALAR + DTYPE + b"C\x08aaaaaaaa\x86R.", "expected a complete numpy type and bytes"),
        (SCALAR + DTYPE + ORDER + b"bC\x04aaaa\x86R.", "expected 8 bytes, got 4"),
        # Containers
        (b"}(K\x01K\x02K\x01K\x03u.", "SETITEMS: the key 1 is given twice"),
        (b"}" + text("a") + b"Ns" + text("a") + b"Ns.", "SETITEM: the key 'a' is given twice"),
        (b"}(K\x01u.", "expected pairs of key and value"),
        (b"})Ns.", "expected a text or a small whole number as key, got a tuple of 0"),
        (b"}\x8a\x08" + b"\xff" * 7 + b"\x1fNs.", "small whole number as key"),
        (b"}\x88Ns.", "small whole number as key, got True"),
        (b"]K\x01K\x02s.", "expected a dict to fill, got a list of 0"),
        (b"}K\x01a.", "APPEND: expected a list to fill"),
        (b")(K\x01e.", "APPENDS: expected a list to fill, got a tuple of 0"),
        (b"\x8f(K\x01\x90.", "expected a set of texts"),
        (b"](" + text("a") + b"\x90.", "expected a set to fill"),
        # Stack, marks, memo
        (b".", "expected one value at the end, got 0 and 0 marks"),
        (b"NN.", "expected one value at the end, got 2 and 0 marks"),
        (b"(N.", "expected one value at the end, got 1 and 1 marks"),
        (b"t.", "TUPLE: there is no mark"),
        (b"\x85.", "TUPLE1: the stack is empty"),
        (b"N(\x85.", "the stack is empty"),
        (b"](e(a.", "the stack is empty"),
        (b"q\x00.", "BINPUT: the stack is empty"),
        (b"h\x00.", "BINGET: the memo has no value 0"),
        (b"j\xff\xff\xff\xff.", "LONG_BINGET: the memo has no value 4294967295"),
        # Lengths
        (b"X\x05\x00\x00\x00abc.", "BINUNICODE: 5 bytes are claimed and 4 remain"),
        (b"\x8c\xff.", "255 bytes are claimed and 1 remain"),
        (b"B\xff\xff\xff\xffa.", "BINBYTES: 4294967295 bytes are claimed, at most"),
        (b"B\x00\x00\x00\x10a.", "268435456 bytes are claimed and 2 remain"),
        (b"\x8e" + b"\xff" * 8 + b".", "18446744073709551615 bytes are claimed"),
        (b"\x95" + b"\xff" * 8 + b".", "FRAME: 18446744073709551615 bytes are claimed and 1 remain"),
        (b"X\xff\xff\xff\x7f.", "one holds at most 4194304"),
        (b"\x8a\xff" + b"\1" * 255 + b".", "expected a whole number of at most 16 bytes, got 255"),
        (b"J\x00.", "4 bytes are claimed and 2 remain"),
        (b"G\x00.", "8 bytes are claimed and 2 remain"),
        (b"\x8c\x02\xff\xfe.", "expected UTF-8 text"),
        (b"\x8c\x03\xed\xa0\x80.", "expected UTF-8 text"),
        (b"\x80\x04.", "PROTO: expected protocol 3 to 5, once, got 4"),
    ],
)
def test_misuse_is_refused_with_its_offset(body, words):
    message = refusal(b"\x80\x03" + body)
    assert words in message, message
    assert re.match(r"f\.pkl: offset \d+: [A-Z0-9_]+: ", message)


def test_what_the_table_makes():
    assert read(b"\x80\x03" + EASYDICT + b")\x81" + text("a") + b"K\x01s.") == {"a": 1}
    assert read(b"\x80\x03" + ORDERED + b")R" + text("a") + b"K\x01s.") == {"a": 1}
    assert read(b"\x80\x03cbuiltins\nset\n]" + text("a") + b"a\x85R.") == {"a"}
    assert read(b"\x80\x03" + SCALAR + DTYPE + ORDER + b"bC\x08" + struct.pack("<d", 0.25) + b"\x86R.") == 0.25
    token = read(b"\x80\x03" + EASYDICT + b".")
    assert type(token) is Global and not callable(token)


def test_messages_never_walk_into_a_value():
    # Ten lists of the same ten lists, twelve deep: printing it would take 10^12 words.
    content = b"\x80\x03]q\x00"
    for level in range(12):
        content += b"](" + b"h" + bytes([level]) + (b"h" + bytes([level])) * 9 + b"eq" + bytes([level + 1])
    assert "got a list of 10" in refusal(content + b"}b.")


@pytest.mark.parametrize("values", [0, 5, 17])
def test_as_many_opcodes_as_are_allowed_and_no_more(values):
    """Counted by Python's own disassembler."""
    content = pickle.dumps(list(range(values)), 2)
    count = sum(1 for _ in pickletools.genops(content))
    for most, fine in ((count, True), (count - 1, False)):
        dialect = dataclasses.replace(network_dialect("f.pkl"), limits=Limits(opcodes=most, memo=99, memory=2**20))
        if fine:
            assert run(Cursor(memoryview(content)), dialect, name="f.pkl").stack == [list(range(values))]
            continue
        with pytest.raises(InputError, match=f"there are more than {most} opcodes"):
            run(Cursor(memoryview(content)), dialect, name="f.pkl")


def test_what_a_stream_may_use_ends_exactly_where_it_says():
    """Of memory, of the stack, and of both at once; what was given up stays counted."""
    limits = Limits(opcodes=9, memo=9, stack=3, memory=3 * 2**20)
    dialect = dataclasses.replace(network_dialect("f.pkl"), limits=limits)
    machine = Machine(Cursor(memoryview(b"")), dialect)
    machine.spend(2 * 2**20)
    machine.spend(2**20)
    with pytest.raises(Refused, match="the values take more than 3 MiB"):
        machine.spend(1)
    machine = Machine(Cursor(memoryview(b"")), dialect)
    for value in (1, None, "a"):
        machine.push(value)
    with pytest.raises(Refused, match="the stack is deeper than 3"):
        machine.push(2)
    assert machine.stack == [1, None, "a"]


MANY = range(200)
KEPT = b"\x80\x04" + text("a") + b"q\x00"
FILLINGS = {
    "APPEND": ([], "", b"]" + b"h\x00a" * len(MANY)),
    "APPENDS": ([], "", b"](" + b"h\x00" * len(MANY) + b"e"),
    "SETITEM": ({}, "keys", b"}" + b"".join(b"K" + bytes([key]) + b"h\x00s" for key in MANY)),
    "SETITEMS": ({}, "keys", b"}(" + b"".join(b"K" + bytes([key]) + b"h\x00" for key in MANY) + b"u"),
    "ADDITEMS": (set(), "texts", b"\x8f(" + b"".join(text(str(key)) for key in MANY) + b"\x90"),
}


@pytest.mark.parametrize("opcode", FILLINGS)
def test_what_a_container_grows_by_counts_against_the_memory(opcode):
    """By Python's own sizes: of every value that was made, and of the container when it is full."""
    empty, made, body = FILLINGS[opcode]
    machine = run(Cursor(memoryview(KEPT + body + b"\x86.")), network_dialect("f.pkl"), name="f.pkl")
    filled = machine.stack[0][1]
    values = ["a", *{"": [], "keys": MANY, "texts": map(str, MANY)}[made]]
    assert len(filled) == len(MANY) and getsizeof(filled) > getsizeof(empty)
    each = sum(getsizeof(value) + 64 for value in values) + getsizeof(("a", filled)) + 64
    assert machine.memory == each + getsizeof(filled) + 64
