"""The pages: links lead somewhere, the glossary has the words of the code, the citation is of this version."""

import re
import tomllib

import pytest
import yaml

from smoothsweep.core.attacks.shared.access import ACCESS_LEVELS
from smoothsweep.core.judges.table import measured
from smoothsweep.core.metrics.leak_comparisons import Word
from smoothsweep.core.metrics.verdicts import Verdict
from smoothsweep.sweeps.judging import Judges

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def pages(repository):
    found = [
        *repository.glob("*.md"),
        *(repository / "docs").rglob("*.md"),
        *(repository / "sweeps").rglob("*.md"),
        *(repository / "core").rglob("*.md"),
        *(repository / "deploy").rglob("*.md"),
    ]
    return sorted(found)


def anchors(page):
    """As GitHub makes them of headings."""
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in HEADING.findall(page.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in plain}


def test_every_link_between_pages_leads_somewhere(repository):
    lost, followed = [], 0
    for page in pages(repository):
        for link in LINK.findall(FENCED.sub("", page.read_text())):
            place, _, anchor = link.partition("#")
            if "://" in place or place.startswith("mailto:"):
                continue
            followed += 1
            target = (page.parent / place) if place else page
            if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
                lost.append(f"{page.relative_to(repository)}: {link}")
    assert followed > 60 and not lost


def test_a_page_that_is_linked_from_nowhere_is_found(repository):
    linked = {
        (page.parent / link.partition("#")[0]).resolve()
        for page in pages(repository)
        for link in LINK.findall(page.read_text())
    }
    lonely = [page.name for page in (repository / "docs").rglob("*.md") if page.resolve() not in linked]
    assert not lonely


@pytest.mark.parametrize(
    "word",
    sorted(
        {*ACCESS_LEVELS, *Judges.model_fields, *Verdict.__args__, *Word.__args__, "paper", "clean"} - set(measured())
    ),
)
def test_the_glossary_has_the_words_of_the_code(word, repository):
    assert re.search(rf"\b{word}\b", (repository / "docs" / "glossary.md").read_text())


def test_the_citation_is_of_this_version_and_names_the_paper(repository):
    cited = yaml.safe_load((repository / "CITATION.cff").read_text())
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    assert (cited["version"], cited["license"]) == (project["version"], project["license"])
    assert {"cff-version", "message", "title", "authors"} <= cited.keys()
    numbers = [one["value"] for reference in cited["references"] for one in reference["identifiers"]]
    assert numbers == ["arXiv:2310.06549", "arXiv:2201.12179"]
    assert all(number.removeprefix("arXiv:") in (repository / "README.md").read_text() for number in numbers)
