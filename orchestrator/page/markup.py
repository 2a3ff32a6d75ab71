"""HTML and SVG text that is safe by construction: whatever is not already `Markup` is escaped."""

from __future__ import annotations

from html import escape
from typing import Any

from core.words import upright

VOID = frozenset({"br", "hr", "img", "link", "meta", "wbr"})


class Markup(str):
    """Text that is markup already. Made by `tag` and `join`; make one by hand only of constants."""

    __slots__ = ()


def text(value: Any) -> Markup:
    """Any value as escaped text; `Markup` stays, None is empty.

    Control characters, which no page may hold, and marks that would reverse what stands beside them are written as
    escapes.
    """
    if isinstance(value, Markup):
        return value
    if value is None:
        return Markup("")
    encodable = str(value).encode("utf-8", "replace").decode("utf-8")
    return Markup(escape(upright(encodable), quote=True))


def join(*parts: Any, separator: str = "") -> Markup:
    """The parts, escaped where needed, one after the other."""
    return Markup(separator.join(text(part) for part in parts))


def tag(name: str, /, *children: Any, **attributes: Any) -> Markup:
    """`<name attribute="...">children</name>`. Underscores become hyphens (`stroke_width`), a trailing one is
    dropped (`class_`), None drops the attribute, True gives it without a value."""
    parts = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        shown = key.rstrip("_").replace("_", "-")
        parts.append(shown if value is True else f'{shown}="{text(_number(value))}"')
    opening = f"<{' '.join(parts)}>"
    return Markup(opening if name in VOID else f"{opening}{join(*children)}</{name}>")


def _number(value: Any) -> Any:
    """Coordinates with two decimals: enough for a screen, half the size of the page."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else value
