"""One pair of recipes has one verdict, whoever says it; one seed has none."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_rows import ALPHA, made_data

from smoothsweep.core.metrics.verdicts import INCONCLUSIVE
from smoothsweep.orchestrator.page.render import part, render
from smoothsweep.orchestrator.page.tables import terminal_text
from smoothsweep.orchestrator.result.data import Axis
from smoothsweep.orchestrator.result.findings import find, standing
from smoothsweep.orchestrator.result.format import ascii_text
from smoothsweep.orchestrator.result.summary import summarise
from smoothsweep.orchestrator.result.sweep_result import result_of

ALPHAS = (-0.2, -0.05, 0.0, 0.1)
CLASSES = 16
VERDICT_WORDS = re.compile(r"(?<!\w)(lower|higher|reduces|hides|leaks more|p [=<] 0)")


def sweep(*, seeds, gap, seed_noise=0.05, draw=0, **changes):
    """Four recipes `gap` apart by the independent judge; in accuracy, calibration and by the evaluator too."""
    rng, rows = np.random.default_rng(draw), []
    for place, alpha in enumerate(ALPHAS):
        for seed in range(seeds):
            shift = seed_noise * rng.normal()
            judge = np.clip(0.2 + gap * place + shift + 0.05 * rng.normal(size=CLASSES), 0, 1)
            evaluator = np.clip(0.5 + gap * place / 2 + shift + 0.05 * rng.normal(size=CLASSES), 0, 1)
            rows.append({"seed": seed, "alpha": alpha, "embedder_acc1": judge, "attack_acc1": evaluator})
            rows[-1]["test_acc"] = 0.9 + gap * place / 10 + shift / 10
            rows[-1]["ece"] = 0.05 + gap * place + abs(shift) / 5
    return made_data(rows, ALPHA, baseline={"alpha": 0.0}, **changes)


def visible(page):
    """The page's words without its code, styles and the section on how to read it, which explains the words."""
    text = re.sub(r"<(script|style).*?</\1>", " ", page, flags=re.S)
    text = re.sub(r'<section id="method".*?</section>', " ", text, flags=re.S)
    return ascii_text(re.sub(r"<[^>]+>", " ", text))


@pytest.mark.parametrize("gap", [0.0, 0.2])
def test_one_seed_gets_no_verdict_by_any_door(gap):
    """However far apart the numbers lie: terminal, README table, findings, the page."""
    data = sweep(seeds=1, gap=gap)
    summary = summarise(data)
    verdicts = {gap.verdict for metric in summary.measured for gap in summary.gaps(metric).values()}
    assert verdicts <= {"", INCONCLUSIVE}
    found = find(data, summary)
    doors = {
        "terminal": terminal_text(result_of(data, summary)),
        "findings": " ".join((*found["answer"], *found["cautions"])),
        "page": visible(render(data, result_of(data, summary))),
    }
    for door, text in doors.items():
        assert not VERDICT_WORDS.search(text), (door, VERDICT_WORDS.search(text))
    assert "With one seed, what leaks least" in doors["page"]


@settings(max_examples=6, deadline=None)
@given(
    seeds=st.integers(2, 4),
    gap=st.floats(0, 0.1),
    draw=st.integers(0, 99),
    floor=st.sampled_from([None, 0.905]),
)
def test_neighbouring_lines_agree_about_every_pair_and_metric(seeds, gap, draw, floor):
    """The table's columns, the matrix of pairs, the sentences and the probability follow one decision."""
    data = sweep(seeds=seeds, gap=gap, draw=draw, min_test_acc=floor)
    summary = summarise(data)
    base = summary.baseline_recipe
    for metric in ("embedder_acc1", "attack_acc1", "test_acc", "ece"):
        evidence = summary.evidence_by(metric)
        for row, cell in summary.frame.iterrows():
            if cell["is_baseline"]:
                continue
            gap = summary.gap(row, metric)
            shown = gap.verdict, gap.low, gap.high
            reference = summary.frame.index[summary.frame["is_baseline"]][0]
            told = [evidence.against(cell["recipe"], base), summary.compare(metric, row, reference)]
            one = summary.verdict(cell["recipe"], metric)
            assert (one is None) == (metric in ("test_acc", "ece"))
            if one is not None:
                assert (-one.high, -one.low, one.is_clear) == (*shown[1:], shown[0] != INCONCLUSIVE)
            for gap_found in told:
                assert (gap_found.verdict, gap_found.low, gap_found.high) == (shown[0], *map(pytest.approx, shown[1:]))
                assert (gap_found.verdict != INCONCLUSIVE) == (not shown[1] <= 0 <= shown[2])
    choice = summary.evidence.recommendation
    if choice.best is None or len(choice.allowed) < 2:
        return
    for recipe in set(choice.allowed) - {choice.best}:
        tied = summary.evidence.against(choice.best, recipe).verdict == INCONCLUSIVE
        assert (recipe in choice.runners_up) == tied
    sentence = ascii_text(standing(summary)[0])
    assert ("inconclusive against" in sentence) == bool(choice.runners_up)
    assert not (choice.runners_up and re.search(r"above 99 %|9[6-9] %", sentence.split(";")[0]))


def test_the_baselines_recipe_is_the_reference_also_under_a_stronger_attack_than_it_names():
    weak = sweep(seeds=3, gap=0.1)
    strong = weak.results.assign(trial=weak.results["trial"] + "+", embedder_acc1=weak.results["embedder_acc1"] + 0.1)
    by_class = weak.per_class["embedder_acc1"] + 0.1
    hits = weak.per_class.assign(trial=weak.per_class["trial"] + "+", embedder_acc1=by_class)
    data = replace(
        weak,
        results=pd.concat([weak.results.assign(loss="weak"), strong.assign(loss="strong")]),
        axes=(ALPHA, Axis(key="loss", role="attack")),
        baseline={"alpha": 0.0, "loss": "weak"},
        per_class=pd.concat([weak.per_class, hits]),
    )
    first = part("first", data, result_of(data, summarise(data)))
    rows = {row.split('"')[0]: row.split("</tr>")[0] for row in first.split('data-recipe="')[1:]}
    assert {name for name, row in rows.items() if ">baseline</span></td>" in row} == {"alpha\u00a00"}
    assert not any("no difference" in row for row in rows.values())
