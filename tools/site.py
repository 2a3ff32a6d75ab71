"""The pages of a site, gathered from the repository: `python -m tools.site FOLDER`; `make docs` builds them.

The site has the layout of the repository, so that links hold: README is its first page, notebooks become pages, and a
file that a page links to is copied as text, which a browser shows whatever its kind. A link to a folder becomes its
text.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
SHOWN = (".md", ".png", ".svg", ".html", ".css", ".js")
"""Kinds of files of docs/ that keep their names: pages, what they show, and what the site looks and acts by."""

LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
FENCED = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)


def gather(out: Path) -> None:
    """Write every page, and every file that one shows or links to, into the folder `out`, which is made anew."""
    shutil.rmtree(out, ignore_errors=True)
    pages = {page: page.read_text() for page in (*ROOT.glob("C*.md"), README, *ROOT.glob("docs/**/*.md"))}
    pages |= {notebook: as_page(notebook) for notebook in ROOT.glob("docs/*.ipynb")}
    copied = {file for kind in SHOWN for file in ROOT.glob(f"docs/**/*{kind}")}
    for page, text in pages.items():
        place = out / name_of(page)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(relinked(text, page.parent))
        links = LINK.findall("".join(FENCED.split(text)[::2]))
        copied |= {(page.parent / link.partition("#")[0]).resolve() for _, _, link in links if "://" not in link}
    for file in sorted(copied):
        if file.is_file() and file not in pages:
            place = out / name_of(file)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, place)


def name_of(file: Path) -> str:
    """The place of a file of the repository in the site."""
    name = "index.md" if file == README else str(file.relative_to(ROOT))
    if file.suffix == ".ipynb":
        return name.replace(".ipynb", "-notebook.md")
    is_shown = file.suffix in SHOWN and name.startswith(("docs/", "index", "CHANGELOG", "CONTRIBUTING"))
    return name if is_shown else f"{name}.txt"


def relinked(text: str, folder: Path) -> str:
    """The text with its links as they are in the site; what is fenced stays. folder: of the page."""

    def link(found: re.Match[str]) -> str:
        mark, words, place = found.groups()
        name, _, anchor = place.partition("#")
        if "://" in name or name.startswith("data:") or not name:
            return found.group(0)
        target = (folder / name).resolve()
        if not target.is_file():
            return words
        renamed = name.removesuffix(target.name) + Path(name_of(target)).name
        return f"{mark}[{words}]({renamed}{'#' + anchor if anchor else ''})"

    return "".join(part if part.startswith("```") else LINK.sub(link, part) for part in FENCED.split(text))


def as_page(notebook: Path) -> str:
    """A notebook's cells, one below the other, with what they answered."""
    cells = json.loads(notebook.read_text())["cells"]
    return "\n\n".join(part for cell in cells for part in _of_cell(cell)) + "\n"


def _of_cell(cell: dict[str, Any]) -> Iterator[str]:
    source = "".join(cell["source"])
    yield source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```"
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        kind = next((one for one in ("image/jpeg", "image/png", "text/html") if one in data), None)
        shown = "".join(data[kind] if kind else output.get("text", data.get("text/plain", "")))
        if kind is None:
            yield f"```text\n{shown.rstrip()}\n```"
        elif kind == "text/html":
            yield re.sub(r"<style.*?</style>\s*", "", shown, flags=re.DOTALL)
        else:
            yield f'<img alt="" src="data:{kind};base64,{"".join(shown.split())}">'


if __name__ == "__main__":
    gather(Path(sys.argv[1]))
