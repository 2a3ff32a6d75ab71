"""Pages in a real browser: they open from disk, ask for nothing, and do what they seem to offer."""

import json
import time
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.commands.audit.pages import audit_page
from smoothsweep.orchestrator.page.render import render
from smoothsweep.orchestrator.result.audit import read_audit
from smoothsweep.orchestrator.result.data import StageLink
from smoothsweep.orchestrator.result.summary import summarise
from smoothsweep.orchestrator.result.sweep_result import result_of
from tests.chromium import browsing, find_chromium
from tests.made_searches import halving
from tests.orchestrator.result.test_audit import data
from tests.study_answers import made_sweep

pytestmark = pytest.mark.skipif(
    find_chromium() is None, reason="no Chromium on this machine: apt-get install chromium, or make browser"
)

POINT = "#trade-off svg.fig a.pt"


@pytest.fixture(scope="module")
def report(defense_data, tmp_path_factory):
    """A page with everything that moves: 26 recipes, two attacks, a search by halving."""
    data = defense_data(seeds=2, search=halving([(0.1 * k, 0.1 * k) for k in range(1, 9)], kept=4, audited=2))
    links = {
        trial: (StageLink(stage="target", path=f"../store/target/{trial}/manifest.json", seconds=61.0),)
        for trial in data.results["trial"]
    }
    data = replace(data, links=links, min_test_acc=0.9)
    page = tmp_path_factory.mktemp("page") / "report.html"
    page.write_text(render(data, result_of(data, summarise(data))), encoding="utf-8")
    return page


@pytest.fixture(scope="module")
def tab(report, tmp_path_factory):
    with browsing(find_chromium(), tmp_path_factory.mktemp("profile")) as tab:
        tab.resize(1280)
        tab.open(report.as_uri())
        yield tab


def test_it_opens_from_disk_without_complaint_and_asks_for_nothing_else(tab, report):
    assert tab.run("document.querySelectorAll('section').length") >= 10
    assert tab.run("document.title") == "Which defense?"
    assert {url.split("#")[0] for url in tab.requests() if not url.startswith("data:")} == {report.as_uri()}
    assert tab.complaints() == []


@pytest.mark.parametrize("width", [1280, 400])
def test_nothing_is_wider_than_the_window_or_too_small_to_be_read(tab, width):
    tab.resize(width)
    tab.run("document.querySelectorAll('details').forEach(node => { node.open = true; })")
    drawn = (
        "[...document.querySelectorAll('svg.fig')].map(s => s.getBoundingClientRect().width / s.viewBox.baseVal.width)"
    )
    assert min(tab.run(drawn)) > 0.6
    tab.run("document.querySelectorAll('details').forEach(node => { node.open = false; })")
    assert tab.run("document.documentElement.scrollWidth") <= width
    # Tables may be wider, but then they scroll by themselves.
    wide = tab.run(
        "[...document.querySelectorAll('table')].filter(t => t.getBoundingClientRect().width > innerWidth"
        " && !t.closest('.scroll')).length"
    )
    assert wide == 0
    tab.resize(1280)


def test_hovering_over_a_point_names_its_recipe_with_its_numbers(tab):
    recipe = tab.run(f"[...document.querySelectorAll('{POINT}')].pop().getAttribute('data-recipe')")  # nothing is above
    assert tab.run("getComputedStyle(document.querySelector('#tip')).visibility") == "hidden"
    tab.hover(f'{POINT}[data-recipe="{recipe}"]')
    told = tab.run("document.querySelector('#tip').textContent")
    assert told.startswith(recipe) and "test accuracy" in told and "independent judge" in told and "n = 2" in told
    assert tab.run("getComputedStyle(document.querySelector('#tip')).visibility") == "visible"
    lit = tab.run("[...document.querySelectorAll('[data-recipe].on')].map(n => n.getAttribute('data-recipe'))")
    assert set(lit) == {recipe} and len(lit) > 2
    box = tab.run("(b => [b.left, b.top, b.right])(document.querySelector('#tip').getBoundingClientRect())")
    assert box[0] >= 0 and box[1] >= 0 and box[2] <= 1280


def test_a_point_leads_to_its_row_and_the_row_to_its_manifests(tab):
    tab.run(f"document.querySelector('{POINT}').focus()")
    recipe = tab.run("document.activeElement.getAttribute('data-recipe')")
    tab.press("Enter", 13)
    tab.call("Runtime.evaluate", expression="new Promise(done => setTimeout(done, 50))", awaitPromise=True)
    assert tab.run("document.querySelector('tr:target').getAttribute('data-recipe')") == recipe
    assert not tab.run("document.querySelector('#provenance details').open")
    tab.click("tr:target .seeds a")
    tab.call("Runtime.evaluate", expression="new Promise(done => setTimeout(done, 50))", awaitPromise=True)
    assert tab.run("document.querySelector('#provenance details').open")
    assert tab.run("document.querySelector('tr:target a').getAttribute('href')").endswith("/manifest.json")


def test_tables_sort_by_their_numbers_and_back(tab):
    def column(number):
        return tab.run(
            f"[...document.querySelectorAll('.proposals tbody tr')].map(r => parseFloat(r.cells[{number}].dataset.v))"
        )

    tab.run("document.querySelectorAll('#search details').forEach(node => { node.open = true; })")
    before = column(0)
    assert before == sorted(before)
    leak = tab.run("[...document.querySelectorAll('.proposals th')].findIndex(h => /judge/.test(h.textContent))")
    button = f".proposals th:nth-child({leak + 1}) button"
    tab.click(button)
    assert column(leak) == sorted(column(leak))
    assert tab.run(f"document.querySelector('{button}').parentNode.getAttribute('aria-sort')") == "ascending"
    tab.click(button)
    assert column(leak) == sorted(column(leak), reverse=True)
    tab.click(".proposals th:first-child button")
    assert column(0) == before


def test_headings_are_in_order_and_everything_drawn_has_words(tab):
    levels = tab.run("[...document.querySelectorAll('h1,h2,h3,h4')].map(h => +h.localName[1])")
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    bare = "[...document.querySelectorAll('svg:not([aria-hidden])')].filter(s => !s.getAttribute('aria-label')).length"
    assert tab.run(bare) == 0
    assert tab.run("[...document.images].filter(i => !i.alt).length") == 0
    assert tab.run("[...document.querySelectorAll('[tabindex]')].filter(n => n.tabIndex > 0).length") == 0


NAMES = ["Konstantin_Schwarzenberger", "Ann_Featherstonehaugh", "Bob", "Maria_de_la_Concepcion"]

CUT = """
(() => {
  const cut = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (!node.parentElement.offsetParent || node.parentElement.closest('script, style, svg')) continue;
    for (const word of node.data.matchAll(/--[a-z-]+(?: [0-9]+)?|[^\\s]+/g)) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      const lines = new Set([...range.getClientRects()].filter(r => r.width > 0).map(r => Math.round(r.top)));
      const pieces = word[0].startsWith('--') ? 1 : word[0].split(/(?<=[-\\u2013\\/])/).length;
      if (lines.size > pieces) cut.push(word[0]);
    }
  }
  return cut;
})()
"""
"""Words of the page, and flags with their number, that stand on more lines than they have parts."""


@pytest.fixture(scope="module")
def audit_tab(tmp_path_factory):
    given, pixels = data(seeds=(1,)), np.full((64, 64, 3), 90, np.uint8)
    audit = read_audit(given, summarise(given), names=NAMES, classes=20)
    shown = {label: (pixels, pixels) for label in range(3)}
    people = tuple({**person, "control": 0.25, "verified": 0.5} for person in audit.people)
    page = tmp_path_factory.mktemp("page") / "audit.html"
    facts = {"Store": "/somewhere/store"}
    text = audit_page(replace(audit, people=people), name="m", facts=facts, portraits=shown)
    page.write_text(text, encoding="utf-8")
    with browsing(find_chromium(), tmp_path_factory.mktemp("profile")) as tab:
        tab.open(page.as_uri())
        yield tab


@pytest.mark.parametrize("width", [1440, 1024, 390])
def test_no_word_is_cut_in_two_and_nothing_is_wider_than_the_window(audit_tab, width):
    audit_tab.resize(width)
    audit_tab.run("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert audit_tab.run(CUT) == [] and audit_tab.run("document.documentElement.scrollWidth") <= width
    assert "--seeds 3" in audit_tab.run("document.querySelector('#details').textContent"), "a flag with its number"


AT = "[...document.querySelectorAll('.question')].findIndex(q => !q.hidden)"


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    sweep, store = made_sweep(folder)
    command = ["study", "build", str(sweep), "--store", str(store), "--out", str(folder)]
    assert main([*command, "--people", "2", "--seed", "3"]) == 0
    return folder


@pytest.fixture
def tab_of_study(study, tmp_path):
    """A browser that has never seen the page; it saves into tmp_path."""
    with browsing(find_chromium(), tmp_path / "profile") as tab_of_study:
        tab_of_study.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path / "saved"))
        tab_of_study.resize(1000)
        tab_of_study.open((study / "study.html").as_uri())
        yield tab_of_study
        assert tab_of_study.complaints() == []


def saved(folder, count=1):
    for _ in range(200):
        found = sorted((folder / "saved").glob("*.json"))
        if len(found) == count:
            return found
        time.sleep(0.05)
    raise AssertionError("nothing was saved")


def key_press(tab_of_study, character):
    for kind in ("keyDown", "keyUp"):
        tab_of_study.call(
            "Input.dispatchKeyEvent",
            type=kind,
            key=character,
            text=character if kind == "keyDown" else "",
            windowsVirtualKeyCode=ord(character),
        )


def enter(tab_of_study):
    tab_of_study.call(
        "Input.dispatchKeyEvent", type="keyDown", key="Enter", code="Enter", text="\r", windowsVirtualKeyCode=13
    )
    tab_of_study.call("Input.dispatchKeyEvent", type="keyUp", key="Enter", code="Enter", windowsVirtualKeyCode=13)


def test_by_keys_alone_from_the_first_screen_to_a_file_that_can_be_read(study, tab_of_study, tmp_path, capsys):
    tab_of_study.run("document.querySelector('#name').focus()")
    tab_of_study.call("Input.insertText", text="Zoë 1")
    enter(tab_of_study)
    questions = tab_of_study.run("document.querySelectorAll('.question').length")
    wanted = [(number % 4) for number in range(questions)]
    for number, digit in enumerate(wanted):
        assert tab_of_study.run(AT) == number
        enter(tab_of_study)
        assert tab_of_study.run(AT) == number, "no question is passed over by accident"
        key_press(tab_of_study, str(digit))
        enter(tab_of_study)
    assert not tab_of_study.run("document.querySelector('#end').hidden")
    tab_of_study.click("#end .save")
    (file,) = saved(tmp_path)
    assert file.name.startswith("answers-Zo-1-")
    content = json.loads(file.read_text())
    assert content["annotator"]["name"] == "Zoë 1"
    assert content["answers"] == [None if digit == 0 else digit - 1 for digit in wanted]
    assert main(["study", "read", str(file), "--study", str(study / "study.json")]) == 0
    assert "Zoë 1" in capsys.readouterr().out
    assert {url.split("#")[0] for url in tab_of_study.requests() if not url.startswith(("data:", "blob:"))} == {
        (study / "study.html").as_uri()
    }
