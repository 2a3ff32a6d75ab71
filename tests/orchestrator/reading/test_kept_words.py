"""What a reader sees of made sweeps and audits, word for word: the page, the terminal, the JSON of an audit.

The text is kept in tests/golden/words. After a change of words that is meant

    SMOOTHSWEEP_KEEP_WORDS=1 python -m pytest tests/orchestrator/reading/test_kept_words.py

writes the files anew, and the difference is read before it is committed. Numbers have tests of their own, and are kept
here in six digits.
"""

import difflib
import html
import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from smoothsweep.orchestrator.page.audit import audit_page
from smoothsweep.orchestrator.page.render import part, render
from smoothsweep.orchestrator.reading.audit.as_json import audit_json
from smoothsweep.orchestrator.reading.audit.sentences import membership_lines
from smoothsweep.orchestrator.reading.findings.tables import text_table
from smoothsweep.orchestrator.reading.leak.hiding import hiding_verdicts, verdict_text
from smoothsweep.orchestrator.reading.leak.membership import LESS, MORE, SCORES_ALONE, UNCLEAR
from smoothsweep.orchestrator.reading.numbers.summary import summarise
from tests.made_searches import halving, proposed, view
from tests.orchestrator.reading.audit import (
    test_found_numbers,
    test_members,
    test_references,
    test_result,
    test_shadows,
)
from tests.orchestrator.reading.test_fresh import audited
from tests.orchestrator.reading.test_hiding import data as hiding_data
from tests.orchestrator.reading.test_portfolio import data as portfolio_data
from tests.orchestrator.reading.test_published import sweep_data

KEPT = Path(__file__).resolve().parents[2] / "golden" / "words"
WRITES = bool(os.environ.get("SMOOTHSWEEP_KEEP_WORDS"))
UNSEEN = re.compile(r"<(script|style)\b.*?</\1>|<!--.*?-->|(?<=;base64,)[A-Za-z0-9+/=]+", re.S)
INSIDE = re.compile(r"</?kbd>|<wbr>")
"""Of a word or a phrase, which they do not divide."""
BLOCK = re.compile(
    r"</?(?:p|div|section|table|tr|h\d|li|ul|ol|details|summary|figure|figcaption|svg|text|header)\b[^>]*>"
)
SAID = re.compile(r"""<[^>]*?\b(?:title|alt|aria-label|placeholder)=["']([^"']*)["'][^>]*>""")


CHEAP_AND_FULL = [(0.1 * k, 0.1 * k + 0.01) for k in range(1, 9)]


def words_of(page):
    """The visible text of a page, and what stands in for pictures, a block a line."""
    text = BLOCK.sub("\n", SAID.sub(r"\n[\1] ", UNSEEN.sub("", INSIDE.sub("", page))))
    lines = (" ".join(line.split()) for line in html.unescape(re.sub(r"<[^>]+>", " ", text)).splitlines())
    return "\n".join(line for line in lines if line)


def of_sweep(data):
    """The page and the terminal of a sweep."""
    summary = summarise(data, resamples=200)
    return "\n".join(
        [words_of(render(data, summary)), text_table(summary), verdict_text(summary, hiding_verdicts(summary))]
    )


def of_audit(audit, *, anonymous=False):
    """The page and the JSON of an audit."""
    facts = {"device": "cpu", "wall time": "12 min"}
    page = audit_page(audit, name="model.pt", facts=facts, portraits=[], anonymous=anonymous)
    said = in_six_digits(audit_json(audit, {}, anonymous=anonymous))
    return words_of(page) + "\n" + json.dumps(said, indent=1, sort_keys=True)


def in_six_digits(value):
    """The same with every float in six digits: the last ones differ from processor to processor."""
    if isinstance(value, dict):
        return {key: in_six_digits(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [in_six_digits(inner) for inner in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


MEMBERS = [
    {"copies": 1, "drawn": 50},
    {"best": ("loss", 0.55, 0.45), "copies": 2, "word": LESS, "trainings": 3},
    {"best": ("label_views", 0.8, 0.7), "word": MORE, "trainings": 3},
    {"best": ("margin", 0.8, 0.7, None), "others": 60, "word": UNCLEAR, "trainings": 3},
    {"word": SCORES_ALONE, "trainings": 3},
    {"shift": 0.9, "copies": 1},
]
"""What of `test_members.one_found` is another."""


def of_membership():
    """The page and the JSON of an audit with membership, and what is said where it came out otherwise."""
    audit, (first, *rest) = test_result.read(test_result.data()), [test_members.one_found(**one) for one in MEMBERS]
    rest += [replace(first, shadows=test_shadows.made(**changes)) for changes in ({}, {"best": "lira", "found": None})]
    few = "\n".join(part for one in rest for part in ("", *membership_lines(one)))
    return of_audit(replace(audit, membership=first)) + "\n" + few


def of_search(data, found):
    """What the page says of a search."""
    data = replace(data, search=found)
    return words_of(part("search", data, summarise(data, resamples=50)))


CASES = {
    "quickstart": lambda made, _: of_sweep(made()),
    "one_seed": lambda made, _: of_sweep(one_seed(made())),
    "defenses": lambda _, defended: of_sweep(defended(only=("bido", "mixup", "focal"), classes=8, failing=(3, 20))),
    "few_defenses": lambda _, defended: of_sweep(defended(only=("dropout",), seeds=2, classes=6, losses=("poincare",))),
    "hiding": lambda *_: of_sweep(hiding_data()),
    "access": lambda *_: of_sweep(portfolio_data()),
    "published": lambda *_: of_sweep(sweep_data()),
    "fresh": lambda *_: of_sweep(audited({-0.2: 0.2, -0.1: 0.3, 0.0: 0.5}, {-0.2: 0.26, -0.1: 0.36})),
    "search": lambda made, _: of_search(made(), view(proposed(0, 0.8, 0.5), proposed(1, 0.9, 0.4))),
    "halving": lambda made, _: of_search(
        made(), halving([(0.1 * k, 0.1 * k + 0.01) for k in range(1, 9)], kept=4, audited=3)
    ),
    "audit": lambda *_: of_audit(test_result.read(test_result.data())),
    "audit_one_seed": lambda *_: of_audit(test_result.read(test_result.data(seeds=(1,))), anonymous=True),
    "audit_two_seeds": lambda *_: of_audit(test_references.read(2)),
    "audit_fixes": lambda *_: of_audit(
        test_references.read(3, planned={"plain training": 71.0}, unfit=("Not tried.",))
    ),
    "audit_hides": lambda *_: of_audit(test_references.read(3, model=0.3, published=("ppa",))),
    "audit_membership": lambda *_: of_membership(),
    "audit_controls": lambda *_: of_audit(test_found_numbers.read(test_found_numbers.data(), recipe="mine")),
}


def one_seed(data):
    """The first seed alone."""
    return replace(
        data, results=data.results[data.results["seed"] == data.results["seed"].min()].reset_index(drop=True)
    )


@pytest.mark.parametrize("name", CASES)
def test_the_words_are_those_that_are_kept(name, make_data, defense_data):
    found, path = CASES[name](make_data, defense_data).rstrip() + "\n", KEPT / f"{name}.txt"
    if WRITES:
        path.write_text(found, encoding="utf-8")
    kept = path.read_text(encoding="utf-8")
    changed = list(difflib.unified_diff(kept.splitlines(), found.splitlines(), "kept", "found", lineterm="", n=0))
    assert not changed, "\n".join(changed[:40])


def test_every_kept_file_has_its_case():
    assert {path.stem for path in KEPT.glob("*.txt")} == set(CASES) and not WRITES
