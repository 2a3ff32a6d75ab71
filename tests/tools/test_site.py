"""The pages of the site: every page has its place, links lead to pages, notebooks are pages."""

import re

import pytest
import yaml

from tools.site import gather, relinked


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    out = tmp_path_factory.mktemp("site") / "pages"
    gather(out)
    gather(out)  # again: nothing of the first time is in the way
    return out


def places(entry):
    if isinstance(entry, str):
        return [entry]
    values = entry.values() if isinstance(entry, dict) else entry
    return [place for value in values for place in places(value)]


def test_every_page_has_one_place_in_the_menu(pages, repository):
    menu = places(yaml.safe_load((repository / "mkdocs.yml").read_text())["nav"])
    assert sorted(menu) == sorted(str(page.relative_to(pages)) for page in pages.rglob("*.md")) and len(menu) > 15


def test_no_link_of_a_page_leaves_the_site(pages):
    links = [
        (page, link)
        for page in pages.rglob("*.md")
        for text in (re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL),)
        for link in re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'<img src="([^":]+)"', text)
        if "://" not in link and link.partition("#")[0]
    ]
    assert len(links) > 300
    assert not [(name, link) for name, link in links if not (name.parent / link.partition("#")[0]).is_file()]


@pytest.mark.parametrize(
    ("folder", "text", "expected"),
    [
        (
            "",
            "[a](docs/judges.md#x) [h](core) [c](https://d.e) [f](#g)",
            "[a](docs/judges.md#x) h [c](https://d.e) [f](#g)",
        ),
        (
            "",
            '[`b`](core/text.py)\n```\n[a](core)\n```\n<img src="docs/overview.png">',
            '[`b`](core/text.py.txt)\n```\n[a](core)\n```\n<img src="docs/overview.png">',
        ),
        ("docs", "[r](../README.md#x) ![o](overview.png)", "[r](../index.md#x) ![o](overview.png)"),
        ("docs", "[n](audit.ipynb) [p](judges.md#d)", "[n](audit-notebook.md) [p](judges.md#d)"),
        ("docs/results", "[c](../../core/text.py)", "[c](../../core/text.py.txt)"),
    ],
)
def test_links_and_fenced_text(folder, text, expected, repository):
    assert relinked(text, repository / folder) == expected


def test_a_notebook_is_a_page_with_what_its_cells_answered(pages):
    text = (pages / "docs/audit-notebook.md").read_text()
    assert text.startswith("# How much does my model leak?") and "import smoothsweep" in text
    assert "<table" in text and "data:image/jpeg;base64," in text and "<style" not in text
    assert "the judge matches" in text


def test_tables_that_can_be_filtered_are_those_of_the_reference(pages):
    """docs/site.js puts its field above pages all of whose tables begin with one of two words."""
    script = (pages / "docs/site.js").read_text()
    [words] = re.findall(r"\[(\"key\", \"column\")\]", script)
    first = {
        page.name: {line.split("|")[1].strip() for line in tables_of(page.read_text())} for page in pages.rglob("*.md")
    }
    filtered = [name for name, names in first.items() if names and names <= set(words.replace('"', "").split(", "))]
    assert sorted(filtered) == ["columns.md", "sweep-keys.md"]


def tables_of(text):
    """The first line of every table."""
    return re.findall(r"^(\|.*)\n\| ?-", text, flags=re.MULTILINE)
