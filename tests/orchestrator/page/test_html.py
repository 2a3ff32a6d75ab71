"""The page: whole, well formed, harmless, and holding every number."""

import io
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from smoothsweep.orchestrator.page.render import render, resource, write_report
from smoothsweep.orchestrator.result.data import Axis, ReportData, StageLink
from smoothsweep.orchestrator.result.summary import summarise
from tests.orchestrator.made_reports import make_frames

VOID = frozenset({"br", "hr", "img", "link", "meta", "wbr"})
SECTIONS = """trade-off results limits recipes attacks standing hiding sheets judges exposure advantage training paper
cost everything troubles about method provenance"""

FIGURES = """accuracy-leak.svg judges.svg exposure.svg advantage.svg alpha-curves.svg training-curves.svg
sheet-1.png overview.png"""


class Page(HTMLParser):
    """Reads a page strictly: every element closed in order; collects text, elements and attributes."""

    def __init__(self, page):
        super().__init__()
        self.open, self.elements, self.text = [], [], ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.text += data

    def of(self, name):
        return [attributes for tag, attributes in self.elements if tag == name]


@pytest.fixture(scope="module")
def written(make_data, tmp_path_factory):
    """The folder of a report."""
    folder = tmp_path_factory.mktemp("report")
    pd.DataFrame({"a": [1]}).to_parquet(folder / "results.parquet")
    assert write_report(make_data(), folder) == folder / "report.html"
    return folder


@pytest.fixture(scope="module")
def page(written):
    return (written / "report.html").read_text(encoding="utf-8")


def test_the_page_is_well_formed_and_complete_and_the_same_data_give_it_again(make_data, page):
    read = Page(page)
    assert page.startswith("<!doctype html>") and page.endswith("</html>\n")
    assert [attributes["id"] for attributes in read.of("section")] == SECTIONS.split()
    anchors = {a["href"][1:] for a in read.of("a") if a["href"].startswith("#")}
    assert anchors <= {attributes["id"] for _, attributes in read.elements if "id" in attributes}
    assert read.of("html") == [{"lang": "en"}]
    assert all("scope" in attributes for attributes in read.of("th"))
    assert all(attributes.get("alt") for attributes in read.of("img"))
    figures = [a for a in read.of("svg") if a.get("class") == "fig"]
    assert figures and all(a["role"] == "img" and a["aria-label"] for a in figures)
    assert render(make_data(), results_file=True) == page


def test_the_figures_lie_beside_it_and_can_be_read(written):
    figures = {path.name: path.read_bytes() for path in (written / "figures").iterdir()}
    assert {*figures} == {*FIGURES.split()}
    for name, content in figures.items():
        if name.endswith(".svg"):
            assert ElementTree.fromstring(content).tag.endswith("svg")
        else:
            assert min(Image.open(io.BytesIO(content)).size) > 200


def test_the_page_loads_nothing_and_runs_only_its_own_script(page):
    read = Page(page)
    for name, attributes in read.elements:
        for key, value in attributes.items():
            if key in ("src", "href", "action", "data", "srcset", "poster"):
                assert not re.match(r"(?i)\s*([a-z][a-z0-9+.-]*:|//)", value) or value.startswith("data:image/png")
            assert not key.startswith("on"), (name, key)
    assert not re.search(r"url\((?!#)|@import|https?://(?!www\.w3\.org/2000/svg)", page)
    assert page.count("<script") == 1 and resource("page.js") in page
    policy = next(a["content"] for a in read.of("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; img-src data:;") and "script-src 'sha256-" in policy
    assert not read.of("link") and not read.of("iframe")


def test_hostile_names_stay_text(page):
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    read = Page(page)
    assert 'Zoë "Z" O\'Hara & Söhne' in read.text and "王小明" in read.text
    assert "worker died: <script>alert(1)</script>" in read.text
    assert not any("alert" in str(a.get("href", "")) and ":" in a["href"] for a in read.of("a"))


def test_failures_gaps_and_provenance_are_listed(make_data, page):
    data, text = make_data(), Page(page).text
    for trial in data.results["trial"]:
        assert trial in text
    assert "22\u00a0done, 1\u00a0failed and 1\u00a0missing" in text
    assert "it has not run; run the sweep again to fill it in" in text
    assert "no FID judge at this scale" in text and "the sweep does not ask for it" in text
    assert "1\u00a0h 2\u00a0min" in text
    assert "Twenty look-alike identities." in text and "cpu, 2 cores" in text


def test_one_seed_is_shown_without_interval(make_data):
    data = make_data()
    one = data.results[data.results["seed"] == 1]
    text = Page(render(make_data(results=one))).text
    assert "no interval" in text and "one seed is always inconclusive" in text
    assert not re.search("points (lower|higher)|it reduces the leak|it leaks more|least leak", text)
    assert "With one seed, hit rates resample classes only" in text


def test_quiet_corners(make_data):
    bare = {key: {} for key in ("histories", "links", "facts", "reasons")}
    bare |= {"per_class": None, "paper": None, "sheets": (), "intro": ()}
    sections = [attributes["id"] for attributes in Page(render(make_data(**bare))).of("section")]
    assert "sheets" not in sections and "paper" not in sections and "training" not in sections
    nothing = make_data().results.assign(status="missing")
    read = Page(render(make_data(results=nothing, **bare)))
    assert "No leak has been measured yet" in read.text
    assert read.of("section")[0]["id"] == "results"
    rows = [row["data-recipe"] for row in read.of("tr") if "data-recipe" in row]
    recipes = list(summarise(make_data(results=nothing, **bare)).recipes)
    assert rows[: len(recipes) + 1] == [*recipes, recipes[0]], "each once, then the next table"
    for untrue in ("works best against it", "intervals. ", "rests on", "How sure"):
        assert untrue not in read.text.split("Every recipe")[0], "of numbers that are not there"
    done = make_data().results.query("status == 'done'")
    read = Page(render(make_data(results=done, **bare)))
    assert "troubles" not in [attributes["id"] for attributes in read.of("section")] and "all done" in read.text


def test_many_recipes_keep_the_page_readable():
    rng, places = np.random.default_rng(0), np.arange(40)
    rows = {
        "trial": [f"t{place}" for place in places],
        **{"seed": 0, "status": "done", "failure": None, "alpha": places / 39 - 1, "lr": 0.1 * (places % 2)},
        "test_acc": 0.8 + rng.uniform(0, 0.1, 40),
        "embedder_acc1": rng.uniform(0, 1, 40),
    }
    data = ReportData(title="t", results=pd.DataFrame(rows), axes=(Axis(key="alpha"), Axis(key="lr")))
    page = render(data)
    read = Page(page)
    assert "no other beats in both accuracy and leak" in read.text
    plot = page[page.index('id="trade-off"') : page.index('id="results"')]
    named = [text for text in re.findall(r"<text[^>]*>([^<]*)</text>", plot) if text.startswith("alpha")]
    assert 0 < len(named) < 20 and len(set(re.findall(r'data-recipe="([^"]*)"', plot))) == 40
    assert read.of("details")


def test_links_are_relative_and_results_are_linked_where_they_lie(make_data, page):
    trial = make_data().results["trial"].iloc[0]
    links = {trial: (StageLink(stage="data", path="../../store/da ta/é/manifest.json", seconds=1.0),)}
    hrefs = [attributes["href"] for attributes in Page(render(make_data(links=links))).of("a")]
    assert "../../store/da%20ta/%C3%A9/manifest.json" in hrefs and "results.parquet" not in hrefs
    assert "results.parquet" in [a["href"] for a in Page(page).of("a")]


def test_recipes_have_one_colour_in_table_figure_and_sheet(page):
    read = Page(page)
    used = {}
    for _, attributes in read.elements:
        if "data-recipe" in attributes and attributes.get("class"):
            names = [c for c in attributes["class"].split() if re.fullmatch(r"r\d+|rx", c)]
            used.setdefault(attributes["data-recipe"], set()).update(names)
    assert all(len(classes) == 1 for classes in used.values()) and len(used) >= 4


def test_the_mark_is_green_only_where_the_gain_is_clear(make_data):
    results, per_class = make_frames(noise=0.002)
    assert 'best clear"' in render(make_data(results=results, per_class=per_class))
    data = make_data()
    results = data.results.assign(embedder_acc1=np.random.default_rng(1).uniform(0.2, 0.6, len(data.results)))
    page = render(make_data(results=results, per_class=None))
    assert " best" in page and 'best clear"' not in page
