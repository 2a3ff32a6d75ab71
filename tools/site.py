"""The pages of a site, gathered from the repository: `python -m tools.site FOLDER`; `make docs` builds them.

README becomes the first page, notebooks become pages, folders of docs/ stay folders. A link to another page of the site
stays a link; a file of the repository that a page links to is copied into the site as text, so that the link works
there, too. A link to a folder becomes its text.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
AT_THE_TOP = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
BESIDE = ("*.png", "*.svg", "*.html", "*.css", "*.js")
"""Files of docs/ that pages show, or that the site looks and acts by."""

LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
PICTURE = re.compile(r'(?<=<img src=")[^":]+(?=")')  # of a page that says how wide it is
FENCED = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)


def gather(out: Path) -> None:
    """Write every page, and every file that one shows or links to, into the folder `out`, which is made anew."""
    shutil.rmtree(out, ignore_errors=True)
    docs = ROOT / "docs"
    pages = {page: page.read_text() for page in (*(ROOT / name for name in AT_THE_TOP), *sorted(docs.rglob("*.md")))}
    pages |= {notebook: as_page(notebook) for notebook in sorted(docs.glob("*.ipynb"))}
    copied = {found for kind in BESIDE for found in docs.rglob(kind)}
    for page, text in pages.items():
        place = out / place_of(page)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(relinked(text, page.parent))
        links = LINK.findall("".join(FENCED.split(text)[::2]))
        copied |= {(page.parent / link.partition("#")[0]).resolve() for _, _, link in links if "://" not in link}
    for file in sorted(copied):
        if file.is_file() and file not in pages:
            place = out / place_of(file)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, place)


def place_of(page: Path) -> str:
    """The name of a file of the repository in the site."""
    if page.suffix == ".ipynb":
        return f"{page.stem}-notebook.md"
    if page == ROOT / "README.md":
        return "index.md"
    if page.is_relative_to(ROOT / "docs"):
        return str(page.relative_to(ROOT / "docs"))
    if _is_page(page) or not page.is_relative_to(ROOT):
        return page.name
    return f"files/{page.relative_to(ROOT)}.txt"  # as text: a browser shows it, whatever its kind


def _is_page(target: Path) -> bool:
    in_docs = target.is_relative_to(ROOT / "docs") and target.suffix in (".md", ".ipynb", ".png", ".svg", ".html")
    return in_docs or (target.parent == ROOT and target.name in AT_THE_TOP)


def relinked(text: str, folder: Path) -> str:
    """The text with its links as they are in the site; what is fenced stays. folder: of the page."""

    def whole(part: str) -> str:
        part = LINK.sub(lambda found: _link(found, folder), part)
        return PICTURE.sub(lambda found: _from(folder, (folder / found.group(0)).resolve()), part)

    return "".join(part if part.startswith("```") else whole(part) for part in FENCED.split(text))


def _link(found: re.Match[str], folder: Path) -> str:
    mark, words, place = found.groups()
    name, _, anchor = place.partition("#")
    if "://" in name or name.startswith("data:") or not name:
        return found.group(0)
    target = (folder / name).resolve()
    if not target.is_file():
        return words
    return f"{mark}[{words}]({_from(folder, target)}{'#' + anchor if anchor else ''})"


def _from(folder: Path, target: Path) -> str:
    """The way in the site from a page of the folder to a file of the repository."""
    docs = ROOT / "docs"
    beginning = folder.resolve().relative_to(docs) if folder.resolve().is_relative_to(docs) else Path()
    return os.path.relpath(place_of(target), beginning)


def as_page(notebook: Path) -> str:
    """A notebook's cells, one below the other, with what they answered."""
    cells = json.loads(notebook.read_text())["cells"]
    return "\n\n".join(part for cell in cells for part in _of_cell(cell)) + "\n"


def _of_cell(cell: dict[str, Any]) -> list[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return [source]
    return [f"```python\n{source}\n```", *(_answer(output) for output in cell.get("outputs", []))]


def _answer(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    for kind in ("image/jpeg", "image/png"):
        if kind in data:
            picture = "".join("".join(data[kind]).split())
            return f'<img alt="" src="data:{kind};base64,{picture}">'
    if "text/html" in data:
        return re.sub(r"<style.*?</style>\s*", "", "".join(data["text/html"]), flags=re.DOTALL)
    return "```text\n" + "".join(output.get("text", data.get("text/plain", ""))).rstrip() + "\n```"


if __name__ == "__main__":
    gather(Path(sys.argv[1]))
