"""Sweeps that compare settings of an attack: what they say, and when a sweep is one."""

from dataclasses import replace

import numpy as np
import pytest
from made_rows import ALPHA, made_data

from smoothsweep.orchestrator.page.render import render
from smoothsweep.orchestrator.page.tables import tables_of, terminal_text
from smoothsweep.orchestrator.result.data import Axis
from smoothsweep.orchestrator.result.display import SETTING_LEGEND, incomplete_lines
from smoothsweep.orchestrator.result.findings import find
from smoothsweep.orchestrator.result.format import ascii_text
from smoothsweep.orchestrator.result.summary import summarise
from smoothsweep.orchestrator.result.sweep_result import result_of

SEEDS = (1, 2, 3, 4)
SWAPPED = {(0.0, None): 0.7, (0.0, "B"): 0.7, (0.0, "C"): 0.2, (-0.8, "D"): 0.95}
"""(recipe, its attack) -> mean leak: no two recipes meet the same attacks, as in the paper's Tables 5 to 7."""
BASELINE = {"alpha": 0.0, "start": None}


def swept(settings, baseline, *, missing=()):
    """A sweep with these settings; missing: trials without any result."""
    rows = []
    for number, ((alpha, start), leak) in enumerate(settings.items()):
        for seed in SEEDS:
            hits = np.clip(np.random.default_rng([number, seed]).normal(leak, 0.04, 24), 0, 1)
            done = (alpha, start, seed) not in missing
            row = {"seed": seed, "alpha": alpha, "start": start, "attack": "ppa", "test_acc": 0.9 + seed / 1000}
            rows.append(row | ({"embedder_acc1": hits} if done else {"status": "missing"}))
    start = Axis(key="start", label="start from", role="attack")
    return made_data(rows, ALPHA, start, title="swaps", baseline=baseline, people=24)


@pytest.fixture(scope="module")
def data():
    return swept(SWAPPED, BASELINE)


@pytest.fixture(scope="module")
def summary(data):
    return summarise(data)


def test_the_answer_names_what_differs_from_the_baselines_setting_and_counts_the_rest(data, summary):
    assert summary.by_setting
    found = find(data, summary)
    first, rest = (ascii_text(line).lower() for line in found["answer"])
    assert first.startswith("this sweep compares settings with alpha 0: 69 %") and "matched among 24" in first
    assert "start from c finds less: 20 %" in first and "reduction +49.1 [" in first
    assert "alpha -0.8, start from d" in first and "finds more: 95 %" in first and "reduction -25.7 [" in first
    assert "start from b" not in first and rest == "1 setting is inconclusive."
    assert not found["incomplete"] and not incomplete_lines(summary), "nothing that was planned is missing"


def test_terminal_page_and_export_show_every_setting_once_under_its_own_name(data, summary):
    result = result_of(data, summary)
    *lines, legend = terminal_text(result).split("\n\n")[1].splitlines()
    assert legend == SETTING_LEGEND and len(lines) == 1 + len(SWAPPED)
    told = {line.split("  ")[-1].strip(): line for line in lines[1:]}
    assert list(told) == ["alpha 0", "start from B", "start from C", "alpha -0.8, start from D"]
    assert "baseline" in told["alpha 0"] and "finds less" in told["start from C"]
    assert "inconclusive" in told["start from B"] and "finds more" in told["alpha -0.8, start from D"]
    first = render(data, result_of(data, summary)).split('id="limits"')[0]
    table = ascii_text(first[first.index('<table class="short">') : first.index("</table>")])
    assert [table.count(f">{name}</a>") for name in told] == [1] * len(SWAPPED)
    assert ">Setting</th>" in first and "finds more" in first and "Incomplete" not in first
    [table] = tables_of(result)
    assert table.stem == "attacks" and table.rows["reduction"].isna().sum() == 1


def test_a_setting_without_all_of_its_seeds_is_told_by_its_name():
    partly = swept(SWAPPED, BASELINE, missing={(0.0, "C", 2), (0.0, "C", 3)})
    [line] = incomplete_lines(summarise(partly))
    assert ascii_text(line) == "Not finished: start from C (2 of 4 seeds)."


PRODUCT = {(alpha, start): 0.5 for alpha in (0.0, -0.8) for start in ("A", "B")}


@pytest.mark.parametrize(
    ("settings", "baseline"),
    [
        (PRODUCT, {"alpha": 0.0, "start": "A"}),  # every recipe meets every attack: recipes are compared
        (SWAPPED, {"alpha": 0.0}),  # the baseline is a recipe under any attack
        (SWAPPED, {}),
        ({**PRODUCT, (0.1, "A"): 0.5}, {"alpha": 0.0, "start": "A"}),  # two recipes are complete
        (SWAPPED, {"alpha": 0.0, "start": "E"}),  # no trial has the baseline's setting
    ],
)
def test_other_sweeps_compare_recipes(settings, baseline):
    data = swept(settings, baseline)
    found = summarise(data)
    assert not found.by_setting
    assert not any("compares settings" in line for line in find(data, replace(found))["answer"])
