"""The page: whole, well formed, harmless, holding every number with its unit; tables as LaTeX, Markdown and CSV."""

import csv
import io
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from html import unescape
from html.parser import HTMLParser

import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jinja2 import UndefinedError
from PIL import Image

from smoothsweep.core.judges.columns import METRICS
from smoothsweep.core.text import escape_controls
from smoothsweep.orchestrator.commands.audit.pages import audit_page
from smoothsweep.orchestrator.page.figures.canvas import Canvas
from smoothsweep.orchestrator.page.render import (
    environment,
    fill,
    render,
    resource,
    write_report,
)
from smoothsweep.orchestrator.page.tables import Table, csv_table, escaped, latex_tables, terminal_text
from smoothsweep.orchestrator.result.data import StageLink
from smoothsweep.orchestrator.result.summary import summarise
from smoothsweep.orchestrator.result.sweep_result import result_of
from tests.orchestrator.result import test_audit
from tests.orchestrator.result.test_published import sweep_data
from tests.orchestrator.result.test_standing import attacked, audited

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


def test_links_are_relative_and_results_are_linked_where_they_lie(make_data, page):
    trial = make_data().results["trial"].iloc[0]
    links = {trial: (StageLink(stage="data", path="../../store/da ta/é/manifest.json", seconds=1.0),)}
    hrefs = [attributes["href"] for attributes in Page(render(make_data(links=links))).of("a")]
    assert "../../store/da%20ta/%C3%A9/manifest.json" in hrefs and "results.parquet" not in hrefs
    assert "results.parquet" in [a["href"] for a in Page(page).of("a")]


PARAGRAPH = environment().from_string('<p title="{{ value }}">{{ value }}</p>')


def test_a_name_that_nobody_set_is_an_error():
    with pytest.raises(UndefinedError):
        fill(environment().from_string("{{ nobody }}"))


class Reader(HTMLParser):
    tags, data = 0, ""

    def handle_starttag(self, tag, attrs):
        self.tags += 1

    def handle_data(self, data):
        self.data += data


@given(st.text())
def test_a_parser_reads_back_any_text_as_text_only(value):
    reader = Reader()
    made = fill(PARAGRAPH, value=value)
    reader.feed(made)
    reader.close()
    assert reader.tags == 1
    made.encode("utf-8")  # no lone surrogate is left to stop the file from being written
    assert set(reader.data) <= set(escape_controls(value)) | {"?"}


@pytest.mark.parametrize("words", ["a <b> & $x$", "\x1b[2J\u202e\x00", "\ud800", "fill: #aabbcc"])
def test_a_drawing_holds_any_words(words):
    canvas = Canvas(200, 100, words)
    axes = canvas.axes((0, 0, 200, 100))
    (mark,) = axes.plot([1], [1], "o")
    canvas.describe(mark, words, recipe=words, link="#row-1")
    drawn = canvas.svg()
    assert escape_controls(drawn) == drawn and "<b>" not in drawn
    assert drawn == canvas.svg() and b"<script" not in canvas.file("a.svg")


UNIT = re.compile(r"%|\bpoints\b|\bmin\b|\bh\b|\bseeds?\b|\bs\b|×")
PURE = {metric.label.lower() for metric in METRICS if metric.unit != "percent"}
"""Metrics that are counts, distances or scores: pure numbers, as their descriptions say."""
COUNTS = "n|seed|no.|stages|runs|queries|the paper|this sweep|difference|test accuracy|setting|trial"
"""Heads of counts and names, and those of rows that are of a metric each, whose unit is the row's."""
NAMES = "recipe|metric|of its images|person|class||attack|strongest attack|best attack|cause|state|images"


def tables(page):
    """Class, heads, and rows of cells as text, of every table of a page."""
    found = []
    for name, inside in re.findall(r'<table class="([^"]*)">(.*?)</table>', page, re.DOTALL):
        head, _, body = inside.partition("</thead>")
        rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in (head, *body.split("<tr")[1:])]
        heads, *cells = [[" ".join(unescape(re.sub(r"<[^>]+>", " ", cell)).split()) for cell in row] for row in rows]
        found.append((name, heads, cells))
    return found


def bare(page):
    """(class of the table, head, cell) of numbers without a unit in cell or head; and how many columns were read."""
    found, read = [], 0
    for name, heads, rows in tables(page):
        for place, head in enumerate(heads):
            cells = [row[place] for row in rows if len(row) == len(heads)]
            numbers = [cell for cell in cells if re.search(r"(?<![\w.])[+\N{MINUS SIGN}]?\d+(\.\d+)?(?![\w.-])", cell)]
            read += bool(numbers)
            if not UNIT.search(head):
                found += [(name, head, cell) for cell in numbers if not UNIT.search(cell)]
    return found, read


def is_pure(name, head):
    """Whether the numbers of this column have no unit to be told."""
    plain = head.lower()
    known = {words for words in PURE if plain.startswith(words) or plain.endswith(words)}
    return name == "sheet" or plain in f"{COUNTS}|{NAMES}".split("|") or bool(known) or "auc" in plain


PAGES = {
    "sweep": lambda made, _: made(),
    "defenses": lambda _, defended: defended(only=("dropout", "mixup"), seeds=2, classes=6),
    "hiding": lambda *_: attacked(),
    "fresh": lambda *_: audited({-0.2: 0.2, -0.1: 0.3, 0.0: 0.5}, {-0.2: 0.26, -0.1: 0.36}),
    "published": lambda *_: sweep_data(),
}


@pytest.mark.parametrize("name", PAGES)
def test_every_column_of_numbers_has_its_unit(name, make_data, defense_data):
    data = PAGES[name](make_data, defense_data)
    found, read = bare(render(data, result_of(data, summarise(data))))
    assert read > 4 and not [one for one in found if not is_pure(*one[:2])]


def test_a_difference_from_the_paper_is_in_points_where_the_row_is_a_rate():
    data = sweep_data()
    page = render(data, result_of(data, summarise(data)))
    (rows,) = (rows for name, _, rows in tables(page) if name == "published")
    told = [row for row in rows if len(row) == 6 and row[4][-1:] != "\u2013"]
    assert {"%" in row[2] for row in told} == {True, False}
    assert all(row[4].endswith(" points") == ("%" in row[2]) for row in told)


def test_so_has_the_page_of_an_audit():
    page = audit_page(test_audit.read(test_audit.data()), name="model.pt", facts={}, portraits={})
    found, read = bare(page)
    assert read > 4 and not [one for one in found if not is_pure(*one[:2])]


METRICS_OF_TABLES = ("test_acc", "embedder_acc1", "attack_acc1")


def table(*names, metrics=METRICS_OF_TABLES, attacks=("Plug & Play", "CMA-ES")):
    number = {"": 0.25, "_low": 0.2, "_high": 0.3, "_n": 3, "_differs": False}
    clear = {"": 0.5, "_low": 0.1, "_high": 0.9, "_n": 3, "_differs": True}
    rows = [
        {
            "recipe": name,
            "attack": attacks[place % len(attacks)] if attacks else "",
            "role": "" if place else "baseline",
            "seeds": "3",
            **{f"{key}{end}": value for key in metrics for end, value in number.items()},
            **{f"reduction{end}": value if place else None for end, value in clear.items()},
            "reduction_differs": place > 0,
            "verdict": "reduces" if place else None,
            "p": 0.01 if place else None,
        }
        for place, name in enumerate(names)
    ]
    captions = ("Means & intervals, 95 %.", "The other judges.")
    return Table(stem="recipes", captions=captions, metrics=metrics, leak="embedder_acc1", rows=pd.DataFrame(rows))


def body(latex):
    """The cells of the rows of a LaTeX table."""
    lines = latex.partition("\\midrule\n")[2].partition("\\bottomrule")[0].splitlines()
    return [re.split(r" ?(?<!\\)& ?", line.removesuffix(" \\\\")) for line in lines]


def test_latex_has_the_deciding_numbers_and_then_those_of_the_other_judges():
    files = latex_tables(table("plain", "alpha\u00a0\u22120.2"), "tab:t")
    assert list(files) == ["", "-judges"]
    rate = "25.0 [20,~30]"
    assert body(files[""]) == [
        ["plain (baseline)", r"Plug \& Play", "3", rate, rate, ""],
        ["alpha~$-$0.2", "CMA-ES", "3", rate, rate, r"\textbf{+50.0 [+10,~+90]}"],
    ]
    assert [row[3] for row in body(files["-judges"])] == [rate, rate]
    assert r"\caption{Means \& intervals, 95 \%.} \label{tab:t}" in files[""] and "tab:t-judges" in files["-judges"]
    assert list(latex_tables(table("a", "b", metrics=METRICS_OF_TABLES[:2]), "t")) == [""]


NAMES_OF_TABLES = st.text(min_size=1, max_size=30)


@given(name=NAMES_OF_TABLES)
@example(name='a,"b"\n=1')
def test_csv_gives_names_and_unrounded_numbers_back(name):
    rows = list(csv.DictReader(io.StringIO(csv_table(table("plain", name)))))
    assert len(rows) == 2 and (name == rows[1]["recipe"] or not name.isprintable())
    assert float(rows[1]["reduction"]) == 0.5 and rows[1]["reduction_differs"] == "yes" and rows[0]["reduction"] == ""
    assert rows[0]["embedder_acc1_differs"] == "no" and rows[1]["p"] == "0.01"


def unescaped(text):
    """Which characters LaTeX would print; only commands that print one are known."""
    shown = {r"\textbackslash{}": "\\", r"\textasciitilde{}": "\x01", r"\textasciicircum{}": "^", "--": "\u2013"}
    shown |= {r"\textless{}": "<", r"\textgreater{}": ">", r"\textbar{}": "|", r"\textquotedbl{}": '"', "~": " "}
    shown |= {r"\textperiodcentered{}": "\u00b7", r"$\times$": "\u00d7", "$-$": "-"}
    shown |= {f"\\{character}": character for character in "&%$#_{}"}
    pattern = "|".join(map(re.escape, sorted(shown, key=len, reverse=True)))
    rest = re.sub(pattern, "", text)
    assert not re.search(r"[\\{}$&#%_^]", rest), f"a character that LaTeX reads as its own is left: {rest!r}"
    return re.sub(pattern, lambda found: shown[found[0]], text).replace("\x01", "~")


PRINTED = st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126), max_size=40)


@given(text=PRINTED.filter(lambda text: "--" not in text))
@example(text=r"\input{/etc/passwd} 100% $x_1^2$ #~&<>|\"")
def test_every_ascii_text_is_printed_as_it_is(text):
    assert unescaped(escaped(text)) == text


@given(text=NAMES_OF_TABLES)
@example(text="模")
def test_no_text_is_read_as_a_command_or_lacks_a_font(text):
    out = escaped(text)
    unescaped(out)
    assert all(ord(character) < 0x180 and (character.isprintable() or character == "\xad") for character in out)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex here")
@pytest.mark.parametrize("names", [("plain", "[3pt] a", "*b", "w" * 70), [f"recipe {n}" for n in range(60)]])
def test_tex_sets_every_table_within_the_text(names, tmp_path):
    (packages,) = {re.search(r"% (\\usepackage\{.*)", text)[1] for text in latex_tables(table(*names), "t").values()}
    text = "\n".join(latex_tables(table(*names), "t").values())
    head = rf"\documentclass{{article}}\usepackage[T1]{{fontenc}}{packages}\begin{{document}}"
    (tmp_path / "t.tex").write_text(f"{head}{text}\\end{{document}}")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
    if "File `adjustbox.sty' not found" in done.stdout:
        pytest.skip("no adjustbox here")
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout


def test_a_control_beside_the_only_attack_has_a_line_without_a_verdict():
    attacks = {name: test_audit.ATTACKS[name] for name in ("ppa", "random_latents")}
    text = terminal_text(result_of(test_audit.data(attacks=attacks)))
    [attack, control] = (next(line for line in text.splitlines() if name in line) for name in attacks)
    assert "43.8" in attack and "6.2" in control and "None" not in text
