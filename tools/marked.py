"""Parts of pages that a tool writes: what stands between two marks, `<!-- NAME table: begin -->` and `... end -->`."""

from __future__ import annotations

from collections.abc import Mapping

from smoothsweep.core.errors import InputError


def with_tables(text: str, tables: Mapping[str, str], where: object) -> str:
    """The text of a page with its tables written anew. tables: name -> lines; where: what a refusal calls the page.

    Raises InputError where the marks of one are missing.
    """
    for name, table in tables.items():
        begin, end = f"<!-- {name} table: begin -->\n", f"<!-- {name} table: end -->"
        before, found, rest = text.partition(begin)
        _, ended, after = rest.partition(end)
        if not (found and ended):
            raise InputError(f"{where}: expected the marks of the table {name}, got none")
        text = f"{before}{begin}{table}{end}{after}"
    return text
