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
        for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL))
        if "://" not in link and link.partition("#")[0]
    ]
    assert len(links) > 40
    assert not [(name, link) for name, link in links if not (name.parent / link.partition("#")[0]).is_file()]


def test_links_and_fenced_text(repository):
    text = (
        "[a](docs/judges.md#x) [`b`](core/text.py) [h](core) [c](https://d.e) [f](#g)\n```\n[a](docs/judges.md)\n```\n"
    )
    expected = (
        "[a](judges.md#x) [`b`](files/core/text.py.txt) h [c](https://d.e) [f](#g)\n```\n[a](docs/judges.md)\n```\n"
    )
    assert relinked(text, repository) == expected
    assert relinked("[r](../README.md#from-python) ![o](overview.png)", repository / "docs") == (
        "[r](index.md#from-python) ![o](overview.png)"
    )
    assert relinked(
        '[p](../paper.md#data) [c](../../core/text.py) <img src="figures/lfw.svg">', repository / "docs/results"
    ) == ('[p](../paper.md#data) [c](../files/core/text.py.txt) <img src="figures/lfw.svg">')


def test_a_file_that_a_page_links_to_lies_in_the_site_as_it_is(pages, repository):
    for name in ("cluster.yaml", "sweeps/quickstart.yaml", "core/defenses/registry.py"):
        assert (pages / f"files/{name}.txt").read_bytes() == (repository / name).read_bytes()


def test_pictures_with_a_width_are_found_in_the_site(repository, pages):
    text = relinked('<img src="docs/overview.png" width="500"> <img src="data:x">', repository)
    assert text == '<img src="overview.png" width="500"> <img src="data:x">'
    named = [
        page.parent / name
        for page in pages.rglob("*.md")
        for name in re.findall(r'<img src="([^":]+)"', page.read_text())
    ]
    assert len(named) > 10 and all(name.is_file() for name in named)


def test_a_notebook_is_a_page_with_what_its_cells_answered(pages):
    text = (pages / "audit-notebook.md").read_text()
    assert text.startswith("# How much does my model leak?") and "import smoothsweep" in text
    assert "<table" in text and "data:image/jpeg;base64," in text and "<style" not in text
    assert "the judge matches" in text


def test_what_the_site_looks_and_acts_by_lies_in_it(pages, repository):
    settings = yaml.safe_load((repository / "mkdocs.yml").read_text())
    for name in (*settings["extra_css"], *settings["extra_javascript"]):
        assert (pages / name).read_bytes() == (repository / "docs" / name).read_bytes()


def test_tables_that_can_be_filtered_are_those_of_the_reference(pages):
    """docs/site.js puts its field above pages all of whose tables begin with one of two words."""
    script = (pages / "site.js").read_text()
    [words] = re.findall(r"\[(\"key\", \"column\")\]", script)
    first = {
        page.name: {line.split("|")[1].strip() for line in tables_of(page.read_text())} for page in pages.rglob("*.md")
    }
    filtered = [name for name, names in first.items() if names and names <= set(words.replace('"', "").split(", "))]
    assert sorted(filtered) == ["columns.md", "sweep-keys.md"]


def tables_of(text):
    """The first line of every table."""
    return re.findall(r"^(\|.*)\n\| ?-", text, flags=re.MULTILINE)
