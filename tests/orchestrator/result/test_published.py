"""Our cells beside the paper's rows, recipes by defense, and what tables call recipes and attacks."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from smoothsweep.core.defenses.registry import DEFENSES
from smoothsweep.orchestrator.page.render import part
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.result.data import Axis, PaperReference, ReportData
from smoothsweep.orchestrator.result.defenses import defense_frame
from smoothsweep.orchestrator.result.format import ascii_text
from smoothsweep.orchestrator.result.published import mark_of, paper_comparison
from smoothsweep.orchestrator.result.rows import sweep_axes
from smoothsweep.orchestrator.result.summary import UNCHANGED, attack_label, recipe_label, summarise
from smoothsweep.orchestrator.result.sweep_result import published_frame, result_of
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.paper_tables import Standing, matching
from tests.orchestrator import made_defenses

SEEDS = (1, 2, 3)
PLAIN = {
    "dataset": "facescrub",
    "architecture": "resnet152",
    "defense": "label_smoothing",
    "samples_per_class": None,
    "attack": "ppa",
}


def sweep_data(values=None, *, alphas=(0.0, -0.05, -0.2), seeds=SEEDS, protocol="paper", spread=0.004, **standings):
    """A sweep over alpha whose metrics lie around `values` (metric -> value, for every alpha) with a given spread."""
    values = {"test_acc": 0.9493, "attack_acc1": 0.9432, "dist_face": 0.9, "fid": 40.88} if values is None else values
    offsets = np.linspace(-1, 1, len(seeds)) if len(seeds) > 1 else [0.0]
    rows = [
        {"trial": f"t{alpha}s{seed}", "seed": seed, "status": "done", "failure": None, "alpha": alpha}
        | {key: value + spread * offset for key, value in values.items()}
        for alpha in alphas
        for seed, offset in zip(seeds, offsets, strict=True)
    ]
    held = {row["trial"]: Standing(axes=PLAIN | {"alpha": row["alpha"]}, **standings) for row in rows}
    return ReportData(
        title="t",
        results=pd.DataFrame(rows),
        axes=(Axis(key="alpha"),),
        protocol=protocol,
        reasons={"xi_train": "the sweep has no knowledge judge"},
        paper=PaperReference(table="2", datasets=("facescrub",), standings=held),
    )


def compared(data):
    return paper_comparison(data, summarise(data))


def line_of(published, metric, block=0):
    return next(line for line in published["blocks"][block] if line["metric"] == metric)


def marked(low, high):
    return mark_of(matching(PLAIN | {"alpha": 0.0}, "2").numbers["test_acc"], 0.95, low, high)


def test_cells_are_paired_with_their_rows_and_the_rest_is_named():
    published = compared(sweep_data())
    assert [(block[0]["recipe"], block[0]["paper_row"]) for block in published["blocks"]] == [
        ("alpha\u00a0\u22120.05", 7),
        ("alpha\u00a00", 4),
    ]
    assert published["strangers"] == {"alpha\u00a0\u22120.2": "the table has no such row"}
    assert len(published["absent"]) == 11
    assert "ResNet-152, alpha 0.3" in published["absent"] and "DenseNet-121, alpha \u22120.05" in published["absent"]
    assert "ResNet-152, alpha 0" not in published["absent"]


@pytest.mark.parametrize(
    ("low", "high", "mark"),
    [
        (0.9493, 0.96, "within"),  # the printed number itself is the end
        (0.93, 0.9493, "within"),
        (0.94934, 0.96, "within"),  # prints as 94.93 %
        (0.94935, 0.96, "within"),  # the last that does
        (0.94936, 0.96, "outside"),
        (0.93, 0.94925, "within"),
        (0.93, 0.94924, "outside"),
        (0.9493, 0.9493, "within"),  # an interval of no width
        (float("nan"), float("nan"), "no interval"),
    ],
)
def test_the_edge_of_the_interval_is_within_as_far_as_the_printed_digits_go(low, high, mark):
    assert marked(low, high) == mark


@given(low=st.floats(0, 1), high=st.floats(0, 1))
def test_a_wider_interval_never_loses_the_papers_number(low, high):
    low, high = sorted((low, high))
    assume(abs(low - 0.94935) > 1e-9 and abs(high - 0.94925) > 1e-9)
    mark = marked(low, high)
    assert mark != "within" or marked(low - 0.01, high + 0.01) == "within"
    assert mark == ("within" if low <= 0.94935 and high >= 0.94925 else "outside")


def test_what_is_missing_stays_empty_with_the_reason():
    published = compared(sweep_data({"test_acc": 0.9493, "dist_knn": 900.0}))
    unjudged, unasked = line_of(published, "xi_train", 1), line_of(published, "attack_acc1", 1)
    assert unjudged["mark"] == "not measured" and unjudged["remark"] == "the sweep has no knowledge judge"
    assert unasked["remark"] == "not measured in this sweep" and np.isnan(unasked["difference"]) and unasked["n"] == 0
    knn = line_of(published, "dist_knn", 1)
    assert knn["paper"] is None and knn["mark"] == "not printed" and knn["ours"] == pytest.approx(900)
    alone = compared(sweep_data(seeds=(1,)))
    assert line_of(alone, "test_acc", 1)["mark"] == "no interval"
    assert line_of(alone, "test_acc", 1)["difference"] == pytest.approx(0)
    assert "have no interval here (one seed)" in alone["share"]


def test_recipes_that_cannot_be_placed_are_named_not_dropped():
    data = sweep_data(alphas=(0.0,))
    held = {trial: Standing(axes=axes) for trial, axes in zip(data.paper.standings, (None, None, None), strict=True)}
    unknown = compared(replace(data, paper=replace(data.paper, standings=held)))
    assert unknown["strangers"] == {"alpha\u00a00": "how the imported target was trained is not stated"}
    ablation = compared(replace(data, paper=replace(data.paper, table="5")))
    assert "name sampling_alpha" in ablation["strangers"]["alpha\u00a00"]
    assert not ablation["blocks"] and len(ablation["absent"]) == 3
    assert len(published_frame(ablation)) == 0


def test_the_rows_of_the_comparison(tmp_path):
    frame = published_frame(compared(sweep_data(incomparable={"fid": "another input range"})))
    assert len(frame) == 20 and frame["table"].unique().tolist() == ["2"]
    assert frame["protocol"].unique().tolist() == ["paper"]
    frame.to_parquet(tmp_path / "published_comparison.parquet", index=False)
    read = pd.read_parquet(tmp_path / "published_comparison.parquet").set_index(["paper_row", "metric"])
    acc = read.loc[(4, "test_acc")]
    assert acc["paper"] == 0.9493 and acc["within"] == True and acc["n"] == 3  # noqa: E712
    assert read.loc[(7, "test_acc"), "within"] == False  # noqa: E712
    assert pd.isna(read.loc[(4, "fid"), "within"]) and pd.isna(read.loc[(4, "fid"), "difference"])
    assert read.loc[(4, "xi_train"), "remark"] == "the sweep has no knowledge judge"
    assert pd.isna(read.loc[(4, "xi_train"), "ours"]) and read.loc[(4, "xi_train"), "paper"] == 0.6119


SWEEPS = Path(__file__).resolve().parents[3] / "sweeps"
PLAIN_DEFENSE, SMOOTH = {"kind": "label_smoothing", "alpha": 0.0}, {"kind": "label_smoothing", "alpha": -0.05}


def recipe(defense, **given):
    usual = {"architecture": "resnet_small", "image_size": 32, "epochs": 2, "pretrained": False}
    return {**usual, "defense": defense, **given}


@pytest.mark.parametrize(
    ("second", "names", "defense_alone"),
    [
        (recipe(SMOOTH), ["plain training", "smoothing\u00a0\u22120.05"], True),
        (recipe(PLAIN_DEFENSE, epochs=3), ["plain training, epochs 2", "plain training, epochs 3"], False),
        (
            recipe(SMOOTH, architecture="resnet18"),
            ["plain training, architecture resnet_small", "smoothing\u00a0\u22120.05, architecture resnet18"],
            False,
        ),
    ],
)
@pytest.mark.parametrize("place", ["grid", "cells"])
def test_a_whole_recipe_is_called_by_its_defense_and_what_else_differs(tmp_path, place, second, names, defense_alone):
    both = [recipe(PLAIN_DEFENSE), second]
    listed = {"recipe": both} if place == "grid" else [{"recipe": one} for one in both]
    file = tmp_path / "sweep.yaml"
    file.write_text(
        yaml.safe_dump(
            {
                "name": "recipes",
                "seeds": [1],
                "attack": None,
                place: listed,
                "baseline": {"recipe": both[0]},
                "data": {"kind": "synthetic", "identities": 3, "train_per_class": 4, "test_per_class": 2, "size": 32},
            }
        )
    )
    loaded = load_sweep(file)
    trials = trials_of(loaded)
    [axis] = sweep_axes(loaded, trials)
    assert [axis.values[trial.cell.axes[axis.key]] for trial in trials] == names
    assert (axis.role, axis.bare, axis.defense) == ("recipe", True, defense_alone)
    for trial, name in zip(trials, names, strict=True):  # one by itself, as MLflow's runs are named
        [alone] = sweep_axes(loaded, [trial])
        assert alone.values[trial.cell.axes[alone.key]] == name
    assert [trial.cell.is_baseline for trial in trials] == [True, False]


def test_an_attack_with_other_targets_is_called_by_them_and_one_without_is_the_unchanged_one():
    loaded = load_sweep(SWEEPS / "swaps_small.yaml", ["seeds=[1]"])
    trials = trials_of(loaded)
    axes = sweep_axes(loaded, trials)
    labels = [attack_label(axes, trial.cell.axes) for trial in trials]
    assert labels[0] == UNCHANGED and labels.count(UNCHANGED) == 1
    assert labels[1:4] == [f"sampling target\u00a0alpha {factor}" for factor in ("0.1", "\u22120.05", "\u22120.8")]
    assert labels[4] == "sampling target\u00a0alpha 0, selection target\u00a0alpha 0"


def test_recipes_have_one_name_whether_whole_defenses_or_their_parameters_vary(tmp_path):
    ramp = {"kind": "ramp", "start": 0.2, "end": 0.6}
    whole = [{"kind": "label_smoothing", "alpha": 0.0}, {"kind": "label_smoothing", "alpha": -0.1, "schedule": ramp}]
    grids = (
        {"recipe.defense": whole},
        {"recipe.defense.alpha": [0.0, -0.1]},
        {"recipe.defense.alpha": [0.0, -0.1], "recipe.defense.schedule": [ramp]},
    )
    names = []
    for number, grid in enumerate(grids):
        sweep = yaml.safe_load((SWEEPS / "factors_small.yaml").read_text())
        schedule = {} if "recipe.defense.schedule" in grid else {"schedule": ramp}
        sweep["recipe"] |= {"defense": {"kind": "label_smoothing", **schedule}} if number else {}
        sweep |= {"seeds": [1], "grid": grid, "baseline": {key: values[0] for key, values in grid.items()}}
        file = tmp_path / f"sweep{number}.yaml"
        file.write_text(yaml.safe_dump(sweep))
        loaded = load_sweep(file)
        trials = trials_of(loaded)
        axes = sweep_axes(loaded, trials)
        names.append([recipe_label(axes, trial.cell.axes) for trial in trials])
        assert all(trial.label.startswith(name) for trial, name in zip(trials, names[-1], strict=True))
    plain, ramped = names[0]
    assert names == [[plain, ramped]] * 3
    assert plain == "plain training" and ramped.startswith("smoothing\u00a0\u22120.1, ramp")


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


def test_families_come_in_one_order_and_hold_every_recipe(whole):
    rows, (setting,) = described(*whole)
    assert [one["key"] for one in setting["families"]] == [kind for kind in DEFENSES if kind in MADE_UP]
    assert set(rows) == {*whole[1].recipes} and {row["family"] for row in rows.values()} == MADE_UP | {"none"}
    assert setting["plain"] == setting["reference"] == whole[1].baseline_recipe


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
