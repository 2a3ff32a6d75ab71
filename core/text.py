"""Text from outside (keys, names, files, values) as it may be shown: one line, no escapes, of a sensible length; the
closest known name; lengths of time."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

MAX_VALUE = 160  # characters of a value within a line
MAX_LINE = 2000

NBSP = "\u00a0"
MINUS = "\u2212"
_BEFORE_A_NUMBER = re.compile(r"(?<![\w.])-(?=\.?\d)")

_NEVER_SHOWN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories that move the cursor, reverse the reading direction, break the line, or show nothing."""

_DIRECTIONS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")

_RAISED = re.compile(r"^(?:[A-Za-z_][\w.]*)?(?:Error|Exception): ", re.MULTILINE)
_SENTENCE = re.compile(r".*?[\w)\]'\"`][.!?](?=\s+[A-Z]|$)")

_MOVING = re.compile(f"[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u2028\\u2029{''.join(sorted(_DIRECTIONS))}]")
"""Control characters but tabs and line breaks, breaks of lines and paragraphs, marks of direction."""


def printable(text: str, *, most: int = MAX_LINE) -> str:
    """The text as one line that changes nothing but itself on a terminal or a page.

    Control and format characters (terminal escapes, line breaks, bidirectional marks) are written as escapes, e.g.
    \\x1b. Of a text of more than `most` characters the middle is left out.
    """
    if len(text) > most:
        text = f"{text[: 2 * most // 3]} ... {text[-most // 4 :]}"
    if text.isprintable():
        return text
    return "".join(character if _is_harmless(character) else _escaped(character) for character in text)


def minus(text: str) -> str:
    """The typographer's minus in front of a number."""
    return text.replace("-", MINUS, 1) if text.startswith("-") else text


def minuses(text: str) -> str:
    """Replace hyphens before numbers by minus signs: `alpha −0.8`; hyphens within words and dates stay."""
    return _BEFORE_A_NUMBER.sub(MINUS, text)


def typable(text: str) -> str:
    """The text with the minus and the space of a keyboard, as a user types a name to look for it."""
    return text.replace(MINUS, "-").replace(NBSP, " ")


def printable_text(text: str) -> str:
    """Text of several lines, each as `printable` leaves it; none is cut."""
    return "\n".join(printable(line, most=len(line)) for line in text.split("\n"))


def escape_controls(text: str) -> str:
    """Text for a page: control characters but tabs and line breaks, and marks of direction, are written as escapes.

    What else `printable` escapes (joiners, say) belongs to how names are written.
    """
    return text if text.isprintable() else _MOVING.sub(lambda match: _escaped(match[0]), text)


def counted(number: int, noun: str, plural: str = "", *, space: str = " ") -> str:
    """`1 trial`, `2 trials`, `3 classes`. plural: where it is not the noun with an s."""
    return f"{number:,}{space}{noun if number == 1 else plural or noun + 's'}"


def note(text: str) -> str:
    """Text as a Markdown page shows it: printable, with no tags and no hidden direction; its own marks stay marks."""
    return printable_text(text).replace("<", "&lt;").replace(">", "&gt;")


def quoted(value: object, *, most: int = MAX_VALUE) -> str:
    """A value as Python writes it, printable and cut: what an error line says it got."""
    return printable(repr(value), most=most)


def shortened(text: str) -> str:
    """A key, a name or a path as an error line shows it: printable and cut."""
    return printable(text, most=MAX_VALUE)


def first_sentence(error: BaseException, *, most: int = 300) -> str:
    """What a library says went wrong: its first sentence; where it shows a traceback, that of the error at its end."""
    text = str(error)
    if "Traceback" in text:
        text = _RAISED.split(text)[-1]
    text = " ".join(text.split()) or type(error).__name__
    sentence = _SENTENCE.match(text)
    return (sentence[0] if sentence else text)[:most]


def _is_harmless(character: str) -> bool:
    return character.isprintable() or unicodedata.category(character) not in _NEVER_SHOWN


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def few(items: Sequence[object], most: int = 5) -> str:
    """The first items, and how many more there are."""
    text = ", ".join(str(item) for item in items[:most])
    return f"{text} and {len(items) - most} more" if len(items) > most else text


def listed(title: str, items: Sequence[str], most: int = 20) -> list[str]:
    """Lines with the number of items and the first of them; none without items."""
    if not items:
        return []
    more = [f"    and {len(items) - most} more"] if len(items) > most else []
    return [f"  {len(items)} {title}:", *(f"    {item}" for item in items[:most]), *more]


def suggestion(got: object, known: Iterable[str]) -> str:
    """The end of a message: "; did you mean 'recipe'?", or nothing where no known word is close."""
    if not isinstance(got, str):
        return ""
    close = get_close_matches(got[:200], sorted(known), n=1, cutoff=0.6)
    return f"; did you mean {shortened(close[0])!r}?" if close and close[0] != got else ""


def duration(seconds: float) -> str:
    """Seconds in words: 42 s, 3 min 05 s, 2 h 10 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
