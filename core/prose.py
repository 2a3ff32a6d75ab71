"""Sentences that stand in a text file beside the code, in sections, with places for values.

A file is a Jinja template. A line `[name]` begins a section, `- ` at the start of a line a sentence; the lines after it
go on with it. It gets a capital. Values may hold anything: no line break or dash in them begins a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Template

_HELD = {" ": "\x1e", "\n": "\x1f"}
"""Characters of values -> what stands for them until the template's own are taken together."""
_FREED = str.maketrans({held: character for character, held in _HELD.items()})


def sections(package: str, file: str, known: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Name of a section -> its sentences.

    Args:
        package: Module that the file lies beside.
        file: Name of the file.
        known: Values, functions and filters (functions of a value before them) by their names in the file.

    Raises jinja2.UndefinedError for a name that is not known.
    """
    found: dict[str, list[str]] = {}
    for line in _template(package, file).render(known).split("\n"):
        if section := re.fullmatch(r"\[(\w+)\]", line):
            sentences = found.setdefault(section[1], [])
        elif line.startswith("- "):
            sentences.append(line[2:])
        elif line.strip():
            sentences[-1] += f" {line}"
    return {name: tuple(map(_plain, sentences)) for name, sentences in found.items()}


def _plain(sentence: str) -> str:
    plain = re.sub(" +", " ", sentence).strip(" ").translate(_FREED)
    return plain[:1].upper() + plain[1:]


@cache
def _template(package: str, file: str) -> Template:
    from importlib.resources import files

    from jinja2 import Environment, StrictUndefined

    made = Environment(
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
        finalize=lambda value: str(value).translate(str.maketrans(_HELD)),
    )
    return made.from_string(files(package).joinpath(file).read_text(encoding="utf-8"))
