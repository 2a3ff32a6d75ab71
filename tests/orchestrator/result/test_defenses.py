"""Recipes grouped by defense: curves in order of strength, the best of each, what is said of them, and the page."""

import re
from dataclasses import replace

import numpy as np
import pytest

from smoothsweep.core.defenses.registry import DEFENSES
from smoothsweep.orchestrator.page.render import part
from smoothsweep.orchestrator.result.data import Axis
from smoothsweep.orchestrator.result.defenses import defense_frame
from smoothsweep.orchestrator.result.format import ascii_text
from smoothsweep.orchestrator.result.summary import summarise
from smoothsweep.orchestrator.result.sweep_result import result_of
from tests.orchestrator import made_defenses

MADE_UP = {defense["kind"] for defense, _ in made_defenses.DEFENSES}
SMALL = ("label_smoothing", "mid", "bido", "dropout")


def text_of(markup):
    return ascii_text(re.sub(r"<[^>]+>", " ", markup).replace("\u2212", "-"))


@pytest.fixture(scope="module")
def whole(defense_data):
    """Every defense under both attacks, three seeds."""
    data = defense_data()
    return data, summarise(data)


def described(data, summary):
    """The rows by recipe, and the settings, of the result."""
    rows, settings = defense_frame(data, summary)
    return {row["recipe"]: row for row in rows}, settings


def family(setting, key):
    return next(one for one in setting["families"] if one["key"] == key)


def of_family(rows, key):
    return [row for row in rows.values() if row["family"] == key]


def strengths(rows, recipes):
    return [text_of(rows[recipe]["strength"]) for recipe in recipes]


def test_families_come_in_one_order_and_hold_every_recipe(whole):
    rows, (setting,) = described(*whole)
    assert [one["key"] for one in setting["families"]] == [kind for kind in DEFENSES if kind in MADE_UP]
    assert set(rows) == {*whole[1].recipes} and {row["family"] for row in rows.values()} == MADE_UP | {"none"}
    assert setting["plain"] == setting["reference"] == whole[1].baseline_recipe


def test_curves_run_from_weak_to_strong_and_start_where_nothing_is_left(whole):
    rows, (setting,) = described(*whole)
    ((_, mid),) = family(setting, "mid")["curves"]
    assert strengths(rows, mid) == ["beta 0.001", "beta 0.003", "beta 0.01"]  # its bottleneck stays at beta 0
    ((_, skip),) = family(setting, "skip_removal")["curves"]
    assert skip[0] == setting["plain"] and strengths(rows, skip[1:]) == ["scale 0.5", "skip removal"]
    (_, hsic), (name, coco) = family(setting, "bido")["curves"]
    assert (len(hsic), len(coco), name) == (2, 1, "COCO")


def test_no_rows_without_several_defenses_or_a_leak(defense_data, make_data):
    brief = {"losses": ("cross_entropy",), "seeds": 2}
    data = defense_data(only=SMALL, **brief)
    metrics = ["test_acc", "embedder_acc1", "attack_acc1", "seconds_target"]
    nothing = replace(data, results=data.results.assign(status="missing", **dict.fromkeys(metrics, np.nan)))
    for one in (make_data(), defense_data(only=("mid",), **brief), replace(data, defenses={}), nothing):
        assert defense_frame(one, summarise(one)) == ([], [])


def test_without_a_baseline_plain_training_is_the_reference_and_without_both_nothing_is(defense_data):
    data = defense_data(only=SMALL, baseline={}, losses=("cross_entropy",), seeds=2)
    _, (setting,) = described(data, summarise(data))
    assert setting["reference"] == setting["plain"] is not None
    results = data.results[~data.results["trial"].isin([t for t, d in data.defenses.items() if d.get("alpha") == 0])]
    data = replace(data, results=results.reset_index(drop=True))
    result = result_of(data, summarise(data))
    (setting,) = result.facts["settings"]
    assert (setting["plain"], setting["reference"]) == (None, None)
    page = text_of(part("defenses", data, result))
    assert "against the same" not in page and "Training time" not in page


def test_settings_apart_from_the_defense_make_groups_of_their_own(defense_data):
    data = defense_data(only=("mid", "dropout"), losses=("cross_entropy",))
    results = data.results.assign(model=np.where(data.results["seed"] == 0, "small", "large"))
    data = replace(data, results=results, axes=(*data.axes, Axis(key="model", bare=True)))
    rows, settings = described(data, summarise(data))
    assert sorted(one["setting"] for one in settings) == ["large", "small"]
    for setting in settings:
        assert {one["key"] for one in setting["families"]} == {"mid", "dropout"}
        mine = [row for row in rows.values() if row["setting"] == setting["setting"]]
        assert all(setting["setting"] in row["recipe"] for row in mine)
        assert setting["reference"] == setting["plain"]


def test_training_costs_are_ratios_by_seed(whole):
    data, summary = whole
    rows, (setting,) = described(data, summary)
    plain, bido = rows[setting["plain"]], of_family(rows, "bido")[0]
    assert (plain["time"], plain["time_low"], plain["time_high"]) == (1.0, 1.0, 1.0)
    assert 1.5 < bido["time_low"] <= bido["time"] <= bido["time_high"] < 2.1
    bare, _ = described(replace(data, results=data.results.drop(columns="seconds_target")), summary)
    assert bare[setting["plain"]]["time"] is None
