"""A pickle stream run as data: plain values and records come out, nothing is imported or called.

The opcodes are those that official StyleGAN2 files (protocols 3 to 5) and torch's checkpoints (2 and later) use, and no
other. A global becomes an inert token of a table that the caller gives; the functions of that table are ours and check
their arguments. Whatever is made counts against a budget (`Machine.make`, `Machine.fill`). There is no use of Python's
`pickle`: subclassing its Unpickler leaves BUILD able to rewrite whatever the table names, and allocates what a length
claims before looking whether the bytes exist.

Source of the opcodes' meaning: Lib/pickletools.py of CPython.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from smoothsweep.core.checks import present
from smoothsweep.core.errors import InputError
from smoothsweep.core.pickles.cursor import Cursor, Refused, describe
from smoothsweep.core.pickles.machine import Data, Dialect, Global, Machine
from smoothsweep.core.pickles.opcode_names import OLD_TEXTS, REFUSED

PROTOCOLS = (2, 3, 4, 5)
"""2 is read only as far as needed to say what is wrong with it, and inside storages."""


def run(cursor: Cursor, dialect: Dialect, *, name: str) -> Machine:
    """Run one stream up to its STOP. The result is the only value on the returned machine's stack.

    Raises InputError, one line with `name`, the offset in the file and the opcode, for anything unexpected.
    """
    machine = Machine(cursor, dialect)
    while not machine.stopped:
        at, code = cursor.here, -1
        try:
            code = cursor.unsigned(1)
            _step(machine, code)
        except Refused as error:
            opcode = _opcode_name(code) if machine.protocol or code < 0 else f"byte 0x{code:02x}"
            raise InputError(f"{name}: offset {at}: {opcode}: {error}") from None
    return machine


def _step(machine: Machine, code: int) -> None:
    machine.operations += 1
    if machine.operations > machine.limits.opcodes:
        raise Refused(f"there are more than {machine.limits.opcodes} opcodes")
    if machine.protocol == 0 and code != _PROTO:
        raise Refused("expected the opcode PROTO first: this is no pickle of protocol 2 or later")
    if code not in _STEPS or _STEPS[code][0] not in machine.dialect.opcodes:
        raise Refused(f"this opcode is not of {machine.dialect.what}")
    _STEPS[code][1](machine)


def _opcode_name(code: int) -> str:
    if code < 0:
        return "end of data"
    known = _STEPS[code][0] if code in _STEPS else REFUSED.get(code)
    return known or f"byte 0x{code:02x}"


def _proto(machine: Machine) -> None:
    version = machine.cursor.unsigned(1)
    if machine.protocol or version not in PROTOCOLS:
        raise Refused(f"expected protocol {PROTOCOLS[1]} to {PROTOCOLS[-1]}, once, got {version}")
    machine.protocol = version


def _frame(machine: Machine) -> None:
    length = machine.cursor.unsigned(8)
    if length > machine.cursor.left:
        raise Refused(f"{length} bytes are claimed and {machine.cursor.left} remain")


def _stop(machine: Machine) -> None:
    if len(machine.stack) != 1 or machine.marks:
        raise Refused(f"expected one value at the end, got {len(machine.stack)} and {len(machine.marks)} marks")
    machine.stopped = True


def _mark(machine: Machine) -> None:
    if len(machine.marks) >= machine.limits.stack:
        raise Refused(f"there are more than {machine.limits.stack} marks")
    machine.marks.append(len(machine.stack))


def _push(make: Callable[[Machine], object]) -> Callable[[Machine], None]:
    return lambda machine: machine.make(make(machine))


def _long(machine: Machine) -> int:
    length = machine.cursor.unsigned(1)
    if length > machine.limits.integer:
        raise Refused(f"expected a whole number of at most {machine.limits.integer} bytes, got {length}")
    return int.from_bytes(machine.cursor.take(length), "little", signed=True)


def _text(width: int) -> Callable[[Machine], None]:
    def step(machine: Machine) -> None:
        length = machine.cursor.unsigned(width)
        machine.text += length
        if length > machine.limits.text or machine.text > machine.limits.all_text:
            raise Refused(
                f"text of {length} bytes: one holds at most {machine.limits.text}, all of them at most "
                f"{machine.limits.all_text}"
            )
        try:
            machine.make(str(machine.cursor.take(length), "utf-8"))
        except UnicodeDecodeError as error:
            raise Refused(f"expected UTF-8 text: {error.reason}") from None

    return step


def _data(width: int) -> Callable[[Machine], None]:
    def step(machine: Machine) -> None:
        length = machine.cursor.unsigned(width)
        if length > machine.limits.data:
            raise Refused(f"{length} bytes are claimed, at most {machine.limits.data} are allowed")
        offset = machine.cursor.here
        machine.make(Data(view=machine.cursor.take(length), offset=offset))

    return step


def _tuple(length: int) -> Callable[[Machine], None]:
    def step(machine: Machine) -> None:
        items = [machine.pop() for _ in range(length)]
        machine.make(tuple(reversed(items)))

    return step


def _set_items(machine: Machine, items: list[Any]) -> None:
    target, new = machine.container(dict), {}
    if len(items) % 2:
        raise Refused("expected pairs of key and value")
    for key, value in zip(items[::2], items[1::2], strict=True):
        # Small keys only: whole numbers can be chosen so that a dictionary degenerates.
        if not (type(key) is str or (type(key) is int and abs(key) < 2**31)):
            raise Refused(f"expected a text or a small whole number as key, got {describe(key)}")
        if key in target or key in new:
            raise Refused(f"the key {describe(key)} is given twice")
        new[key] = value
    machine.fill(target, lambda: target.update(new))


def _set_item(machine: Machine) -> None:
    value, key = machine.pop(), machine.pop()
    _set_items(machine, [key, value])


def _append(machine: Machine) -> None:
    value = machine.pop()
    target = machine.container(list)
    machine.fill(target, lambda: target.append(value))


def _appends(machine: Machine) -> None:
    values = machine.pop_marked()
    target = machine.container(list)
    machine.fill(target, lambda: target.extend(values))


def _add_items(machine: Machine) -> None:
    values = machine.pop_marked()
    if not all(type(value) is str for value in values):
        raise Refused("expected a set of texts")
    target = machine.container(set)
    machine.fill(target, lambda: target.update(values))


def _global(machine: Machine) -> None:
    module, name = machine.cursor.line(machine.limits.name), machine.cursor.line(machine.limits.name)
    machine.push(machine.dialect.resolve(module, name))


def _stack_global(machine: Machine) -> None:
    name, module = machine.pop(), machine.pop()
    machine.push(machine.dialect.resolve(module, name))


def _reduce(machine: Machine) -> None:
    arguments, token = machine.pop(), machine.pop()
    if type(token) is not Global or type(arguments) is not tuple:
        raise Refused(f"expected a known global and a tuple, got {describe(token)} and {describe(arguments)}")
    if token.reduce is None:
        raise Refused(f"{token.name} is not made this way")
    try:
        machine.make(token.reduce(arguments))
    except Refused as error:
        raise Refused(f"{token.name}: {error}") from None


def _new_object(machine: Machine) -> None:
    arguments, token = machine.pop(), machine.pop()
    if type(token) is not Global or token.new is None or type(arguments) is not tuple or arguments:
        raise Refused(f"expected an EasyDict without arguments, got {describe(token)} and {describe(arguments)}")
    machine.make(token.new())


def _build(machine: Machine) -> None:
    state = machine.pop()
    present(machine.dialect.build, "build")(machine.top(), state)


def _persistent_id(machine: Machine) -> None:
    machine.make(present(machine.dialect.persistent, "persistent")(machine.pop()))


_PROTO = 0x80

_STEPS: dict[int, tuple[str, Callable[[Machine], None]]] = {
    _PROTO: ("PROTO", _proto),
    0x95: ("FRAME", _frame),
    ord("."): ("STOP", _stop),
    ord("("): ("MARK", _mark),
    ord("N"): ("NONE", _push(lambda machine: None)),
    0x88: ("NEWTRUE", _push(lambda machine: True)),
    0x89: ("NEWFALSE", _push(lambda machine: False)),
    ord("J"): ("BININT", _push(lambda machine: int.from_bytes(machine.cursor.take(4), "little", signed=True))),
    ord("K"): ("BININT1", _push(lambda machine: machine.cursor.unsigned(1))),
    ord("M"): ("BININT2", _push(lambda machine: machine.cursor.unsigned(2))),
    0x8A: ("LONG1", _push(_long)),
    ord("G"): ("BINFLOAT", _push(lambda machine: struct.unpack(">d", machine.cursor.take(8))[0])),
    ord("U"): ("SHORT_BINSTRING", _text(1)),
    ord("T"): ("BINSTRING", _text(4)),
    ord("X"): ("BINUNICODE", _text(4)),
    0x8C: ("SHORT_BINUNICODE", _text(1)),
    ord("C"): ("SHORT_BINBYTES", _data(1)),
    ord("B"): ("BINBYTES", _data(4)),
    0x8E: ("BINBYTES8", _data(8)),
    ord("}"): ("EMPTY_DICT", _push(lambda machine: {})),
    ord("]"): ("EMPTY_LIST", _push(lambda machine: [])),
    0x8F: ("EMPTY_SET", _push(lambda machine: set())),
    ord(")"): ("EMPTY_TUPLE", _push(lambda machine: ())),
    ord("t"): ("TUPLE", _push(lambda machine: tuple(machine.pop_marked()))),
    0x85: ("TUPLE1", _tuple(1)),
    0x86: ("TUPLE2", _tuple(2)),
    0x87: ("TUPLE3", _tuple(3)),
    ord("a"): ("APPEND", _append),
    ord("e"): ("APPENDS", _appends),
    ord("s"): ("SETITEM", _set_item),
    ord("u"): ("SETITEMS", lambda machine: _set_items(machine, machine.pop_marked())),
    0x90: ("ADDITEMS", _add_items),
    ord("q"): ("BINPUT", lambda machine: machine.remember(machine.cursor.unsigned(1))),
    ord("r"): ("LONG_BINPUT", lambda machine: machine.remember(machine.cursor.unsigned(4))),
    0x94: ("MEMOIZE", lambda machine: machine.remember(len(machine.memo))),
    ord("h"): ("BINGET", lambda machine: machine.recall(machine.cursor.unsigned(1))),
    ord("j"): ("LONG_BINGET", lambda machine: machine.recall(machine.cursor.unsigned(4))),
    ord("c"): ("GLOBAL", _global),
    0x93: ("STACK_GLOBAL", _stack_global),
    ord("R"): ("REDUCE", _reduce),
    0x81: ("NEWOBJ", _new_object),
    ord("b"): ("BUILD", _build),
    ord("Q"): ("BINPERSID", _persistent_id),
}

NETWORK_OPCODES = frozenset(name for name, _ in _STEPS.values()) - {"BINPERSID"} - OLD_TEXTS
