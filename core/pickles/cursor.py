"""A position in borrowed bytes. Every length is checked against what is left before anything is made of it."""

from __future__ import annotations

SHOWN = 60  # characters of a foreign text that an error repeats


class Refused(ValueError):
    """What is wrong at the current opcode. The interpreter adds the file, the offset and the opcode."""


class Cursor:
    """Reads `view` from front to back. `offset` is where the view begins in the file, for error messages."""

    def __init__(self, view: memoryview, *, offset: int = 0) -> None:
        self.view = view
        self.offset = offset
        self.position = 0

    @property
    def here(self) -> int:
        """The offset of the next byte in the file."""
        return self.offset + self.position

    @property
    def left(self) -> int:
        """How many bytes remain."""
        return len(self.view) - self.position

    def take(self, length: int) -> memoryview:
        """The next `length` bytes, not copied. Raises Refused if fewer remain."""
        if length > self.left:
            raise Refused(f"{length} bytes are claimed and {self.left} remain")
        start = self.position
        self.position += length
        return self.view[start : self.position]

    def unsigned(self, width: int) -> int:
        """A little-endian whole number of `width` bytes."""
        return int.from_bytes(self.take(width), "little")

    def line(self, longest: int) -> str:
        """ASCII text up to a line feed, which is consumed. Raises Refused past `longest` bytes."""
        end = bytes(self.view[self.position : self.position + longest + 1]).find(b"\n")
        if end < 0:
            raise Refused(f"expected a line of at most {longest} bytes")
        text = bytes(self.take(end + 1))[:-1]
        if not text.isascii():
            raise Refused("expected ASCII text")
        return text.decode("ascii")


def describe(value: object) -> str:
    """A short, printable name of any value of a stream. It never walks into a container: those can be endless."""
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    if isinstance(value, str):
        return ascii(value if len(value) <= SHOWN else value[:SHOWN] + "...")
    if isinstance(value, dict | list | tuple | set):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a {type(value).__name__}"
