"""The only way to the screen: nothing from outside (keys, names, files, values) can move the cursor or fake a line,
and no URI shows its user, query or fragment, but for the address that `smoothsweep ui` is asked for.

`tests/test_structure.py` sees to it that nothing else of the product prints; the live panel (`progress`) shows what
passed `printable`.
"""

from __future__ import annotations

import sys
from typing import TextIO

from smoothsweep.core.text import printable, printable_text
from smoothsweep.core.uris import hidden


def out(line: str) -> None:
    """One line on stdout: results, which may be piped."""
    _write(sys.stdout, printable(hidden(line), most=len(line)))


def out_text(text: str) -> None:
    """Text on stdout whose lines were put together of printable parts."""
    _write(sys.stdout, printable_text(hidden(text)))


def err(line: str, end: str = "\n") -> None:
    """One line on stderr: what is said about the work."""
    _write(sys.stderr, printable(hidden(line)), end)


def _write(stream: TextIO, safe: str, end: str = "\n") -> None:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    print(safe.encode(encoding, "backslashreplace").decode(encoding), end=end, file=stream, flush=True)
