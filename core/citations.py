"""What to cite for a member of a family: BibTeX entries by key, all of them in citations.bib.

A member of a family names its sources beside itself, in `cites`: keys of citations.bib, or, of a member that another
package brings, whole BibTeX entries. Reading them loads no torch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from smoothsweep.core.errors import InputError
from smoothsweep.core.text import quoted

FILE = Path(__file__).parent / "citations.bib"
SOFTWARE, PAPER = "smoothsweep", "struppek2024careful"
_ENTRY = re.compile(r"\s*@\w+\{\s*([^,\s{}]+)\s*,.*\}\s*", re.DOTALL)


@lru_cache(maxsize=1)
def known_citations() -> Mapping[str, str]:
    """Key -> its BibTeX entry, of all that citations.bib holds."""
    entries = re.split(r"^(?=@)", FILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return MappingProxyType({key_of(entry): entry.strip() for entry in entries if entry.strip()})


def key_of(entry: str) -> str:
    """The key of a BibTeX entry. Raises InputError for what is none, such as a key that citations.bib lacks."""
    match = _ENTRY.fullmatch(entry)
    if not match or entry.count("{") != entry.count("}"):
        raise InputError(f"cites: expected a key of citations.bib or a BibTeX entry, got {quoted(entry)}")
    return match[1]


def bibliography(cites: Iterable[str]) -> str:
    """A BibTeX file of these keys and entries, each once, by key. Raises InputError for what is neither."""
    known = known_citations()
    entries = [known.get(key, key) for key in cites]
    by_key = {key_of(entry): entry.strip() for entry in entries}
    return "\n\n".join(by_key[key] for key in sorted(by_key)) + "\n"
