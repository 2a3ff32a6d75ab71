"""Pages that tools write: results, the gallery and the site stand there as the program has them."""

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
import yaml

from smoothsweep.core.metrics.leak_comparisons import compare_leaks
from tools import reference, results
from tools.gallery import GALLERY, LARGEST
from tools.site import gather


@pytest.mark.parametrize("file", reference.TABLES, ids=lambda file: file.stem)
def test_a_reference_page_says_what_the_program_says(file):
    text = reference.page(file)
    assert file.read_text(encoding="utf-8") == text, "run `python -m tools.reference`"
    anchors = [reference.anchor(heading)[1:] for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)]
    anchors += re.findall(r'<a id="([^"]+)">', text)
    assert len(anchors) == len(set(anchors)) and set(re.findall(r"\]\(#([^)]*)\)", text)) <= set(anchors)


PAGES = sorted({sheet["page"] for sheet in results.SHOWN["tables"].values()})
MARKED = re.compile(r"<!-- ([\w-]+) table: begin -->\n(.*?)<!-- \1 table: end -->", re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_the_tables_of_a_page_are_those_of_the_files_of_numbers(page, repository):
    text = (repository / page).read_text()
    assert results.page(page, text) == text, "run `python -m tools.results`"
    left = re.findall(r"^\|.*\|$", MARKED.sub("", text), re.MULTILINE)
    typed = [row for row in left if re.search(r"\|\W*\d[\d.]* ?(%|points)", row)]
    assert typed == [], "numbers of a table come from a file of numbers"


def test_reductions_intervals_and_words_follow_from_the_cells():
    """The rule on recorded matches of every class, beside the numbers that a page shows."""
    frame = pd.read_csv(results.FOLDER / "cells" / "factors_small.csv", keep_default_na=False)
    leaks = {
        recipe: {
            attack: np.array([row.split() for row in rows["fractions"]], dtype=float)
            for attack, rows in mine.groupby("attack", sort=False)
        }
        for recipe, mine in frame.groupby("recipe", sort=False)
    }
    baseline = frame.loc[frame["baseline"] == 1, "recipe"].iloc[0]
    published = list(frame.loc[frame["published"] == 1, "attack"].unique())
    found = compare_leaks(leaks, baseline=baseline, published=published, span=1.0, every_pair=False).verdicts
    told = results.read("factors_small").query("measure == 'verdict'").set_index("recipe")
    assert len(found) == len(told) > 1
    for recipe, one in found.items():
        row = told.loc[recipe.replace("−", "-")]
        assert one.word == row["word"]
        for value, text in [(one.reduction, row["value"]), (one.low, row["low"]), (one.high, row["high"])]:
            digits = len(text.partition(".")[2])
            assert abs(100 * value - float(text)) <= 0.5 * 10**-digits + 1e-9, (recipe, value, text)


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


OTHERS = {"model_audit": "search_schedules", "search_small": "search_schedules"}
"""Pages that are no report of a shipped sweep under its name -> the sweep whose people they are of."""
PAGES_OF_GALLERY = sorted(GALLERY.glob("*.html"))
LOADING = {"src", "srcset", "href", "xlink:href", "data", "poster", "action", "formaction", "background"}


class Places(HTMLParser):
    """Where the attributes of a page lead."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found += [value for name, value in attrs if name in LOADING]


@pytest.mark.parametrize("page", PAGES_OF_GALLERY, ids=lambda page: page.stem)
def test_a_page_is_small_of_drawn_people_loads_nothing_and_names_no_machine(page, repository):
    sweep = yaml.safe_load((repository / "sweeps" / f"{OTHERS.get(page.stem, page.stem)}.yaml").read_text())
    assert sweep["data"]["kind"] == sweep["public"]["kind"] == "synthetic"
    text = page.read_text()
    assert {*re.findall(r'<a\b[^>]*href="#([^"]+)"', text)} <= {*re.findall(r'\bid="([^"]+)"', text)}
    assert len(text.encode()) <= LARGEST
    places = Places(text).found
    assert len(places) > (5 if page.stem == "model_audit" else 50)
    assert [place for place in places if not place.startswith(("#", "data:"))] == []
    styles = "".join(re.findall(r"<style.*?</style>|style=\"[^\"]*", text, flags=re.DOTALL))
    assert "@import" not in styles and not re.search(r"url\((?!\s*#)", styles)
    assert "default-src &#39;none&#39;" in text
    assert not re.search(r"(?<![\w.<])/(?:work|home|root|tmp|Users|mnt|data|var|opt)/", text)
