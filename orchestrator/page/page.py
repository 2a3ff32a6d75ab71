"""The frame of a page: one file, nothing fetched, scripts forbidden except the one it brings."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from typing import Any

from orchestrator.page.markup import Markup, join, tag
from orchestrator.page.svg import STYLE

PROTOCOLS = {
    "clean": "Protocol clean: correct conventions throughout. Compare within this page, not digit by digit with "
    "published tables.",
    "paper": "Protocol paper: the official code's conventions, its bugs included, so that numbers compare with the "
    "published tables.",
}


def page(title: str, colours: str, *body: Any) -> str:
    """A complete HTML document with our style and script inside."""
    style, script = resource("style.css") + STYLE + colours, resource("page.js")
    digest = base64.b64encode(sha256(script.encode()).digest()).decode("ascii")
    # Whatever a class name smuggled in: the browser loads nothing and runs nothing but our own script.
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("style", Markup(style)),
    )
    scripted = tag("script", Markup(script))
    return f"<!doctype html>\n{tag('html', head, tag('body', *body, scripted), lang='en')}\n"


def resource(name: str) -> str:
    """A file of this package as text."""
    return files("orchestrator.page").joinpath(name).read_text(encoding="utf-8")


def section(title: str, lead: Any, *content: Any, ident: str | None = None) -> Markup:
    """A headed section; nothing at all where none of the content has anything to show."""
    shown = [part for part in content if part]
    if not shown:
        return Markup("")
    return tag("section", tag("h2", title), tag("p", lead, class_="soft") if lead else "", *shown, id=ident)


def drawing(figure: Markup | None, caption: Any = "") -> Markup:
    """A figure with its caption, or nothing."""
    if figure is None:
        return Markup("")
    return tag("figure", figure, tag("figcaption", caption) if caption else "")


def paragraphs(lines: Sequence[str], class_: str | None = None) -> Markup:
    return join(*(tag("p", line, class_=class_) for line in lines))


def facts_list(facts: Mapping[str, Any]) -> Markup:
    """Name and value pairs."""
    if not facts:
        return Markup("")
    return tag("dl", *(join(tag("dt", name), tag("dd", value)) for name, value in facts.items()), class_="facts")
