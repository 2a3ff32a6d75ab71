"""What a running pickle stream has and may use: its dialect, its limits, its stack, marks and memo."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from sys import getsizeof
from typing import Any, NoReturn

from smoothsweep.core.pickles.cursor import Cursor, Refused, describe


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one stream may use. A 1024-pixel file with its three networks needs some 33,000 opcodes."""

    opcodes: int = 150_000
    memo: int = 100_000
    stack: int = 10_000
    data: int = 512 * 2**20  # bytes of one BINBYTES
    text: int = 4 * 2**20  # bytes of one text
    all_text: int = 16 * 2**20
    name: int = 200  # characters of a global's module or name
    integer: int = 16  # bytes
    memory: int = 64 * 2**20  # bytes of all values ever made, as Python holds them; bytes of the file are not copied


OVERHEAD = 64  # bytes beside a value's own: its place in the memo, a record's attributes


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Data:
    """Bytes of the file, not copied, and where they begin in it."""

    view: memoryview
    offset: int


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Global:
    """An inert name. `reduce` is what REDUCE does with its arguments, `new` what NEWOBJ without arguments makes."""

    name: str
    reduce: Callable[[tuple[Any, ...]], object] | None = None
    new: Callable[[], object] | None = None


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """What one kind of stream may hold.

    Attributes:
        what: The kind of file, in words.
        explained: Globals outside the table that deserve a better sentence.
        unknown: What to raise for the others, instead of the usual sentence.
    """

    what: str
    globals: Mapping[tuple[str, str], Global]
    opcodes: frozenset[str]
    explained: Mapping[tuple[str, str], str] = field(default_factory=dict)
    build: Callable[[Any, Any], None] | None = None
    persistent: Callable[[Any], object] | None = None
    unknown: Callable[[str, str], NoReturn] | None = None
    limits: Limits = field(default_factory=Limits)

    def resolve(self, module: object, name: object) -> Global:
        if not isinstance(module, str) or not isinstance(name, str):
            raise Refused(f"expected two texts, got {describe(module)} and {describe(name)}")
        if (module, name) in self.explained:
            raise Refused(self.explained[module, name])
        if (module, name) not in self.globals:
            if self.unknown is not None:
                self.unknown(module, name)
            raise Refused(f"the global {describe(module)} {describe(name)} is not of {self.what}")
        return self.globals[module, name]


class Machine:
    """Stack, marks and memo of one running stream."""

    def __init__(self, cursor: Cursor, dialect: Dialect) -> None:
        self.cursor = cursor
        self.dialect = dialect
        self.limits = dialect.limits
        self.stack: list[Any] = []  # of a stream from elsewhere: code that takes a value looks at its type
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}
        self.text = 0
        self.memory = 0
        self.protocol = 0
        self.operations = 0
        self.stopped = False

    def push(self, value: object) -> None:
        if len(self.stack) >= self.limits.stack:
            raise Refused(f"the stack is deeper than {self.limits.stack}")
        self.stack.append(value)

    def make(self, value: object) -> None:
        """Push a value that did not exist before, and count it."""
        self.spend(getsizeof(value) + OVERHEAD)
        self.push(value)

    def spend(self, size: int) -> None:
        """Count so many bytes. What is given up again stays counted: no stream has to make things to drop them."""
        self.memory += size
        if self.memory > self.limits.memory:
            raise Refused(f"the values take more than {self.limits.memory >> 20} MiB")

    def fill(self, target: list[Any] | dict[Any, Any] | set[Any], grow: Callable[[], None]) -> None:
        """Let a container grow, and count by how much it did."""
        before = getsizeof(target)
        grow()
        self.spend(max(0, getsizeof(target) - before))

    def top(self) -> Any:
        if len(self.stack) <= (self.marks[-1] if self.marks else 0):
            raise Refused("the stack is empty")
        return self.stack[-1]

    def pop(self) -> Any:
        self.top()
        return self.stack.pop()

    def pop_marked(self) -> list[Any]:
        if not self.marks:
            raise Refused("there is no mark")
        start = self.marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def remember(self, place: int) -> None:
        if len(self.memo) >= self.limits.memo and place not in self.memo:
            raise Refused(f"the memo holds more than {self.limits.memo} values")
        self.memo[place] = self.top()

    def recall(self, place: int) -> None:
        if place not in self.memo:
            raise Refused(f"the memo has no value {place}")
        self.push(self.memo[place])

    def container(self, kind: type) -> Any:
        target = self.top()
        if type(target) is not kind:
            raise Refused(f"expected a {kind.__name__} to fill, got {describe(target)}")
        return target
