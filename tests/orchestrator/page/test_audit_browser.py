"""The page of an audit in a real browser: on a wide screen and on a phone no word is cut in two."""

from dataclasses import replace

import numpy as np
import pytest
from chromium import browsing, find_chromium

from smoothsweep.orchestrator.commands.audit.pages import audit_page
from smoothsweep.orchestrator.result.audit import read_audit
from smoothsweep.orchestrator.result.summary import summarise
from tests.orchestrator.result.test_audit import data

pytestmark = pytest.mark.skipif(find_chromium() is None, reason="no Chromium on this machine")

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
def tab(tmp_path_factory):
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
def test_no_word_is_cut_in_two_and_nothing_is_wider_than_the_window(tab, width):
    tab.resize(width)
    assert tab.run("[...document.querySelectorAll('details')].forEach(one => one.open = true)") is None
    assert tab.run(CUT) == []
    assert tab.run("document.documentElement.scrollWidth") <= width


def test_a_flag_to_be_given_is_on_the_page_to_be_measured(tab):
    assert "--seeds 3" in tab.run("document.querySelector('#details').textContent")
