"""The table of results: types, rates by class, of how many images, why a column is null."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import balanced_accuracy_score

from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.base import Judge
from smoothsweep.core.judges.columns import BY_KEY, METRICS, TIME_COLUMNS
from smoothsweep.core.judges.table import JUDGES
from smoothsweep.core.metrics.intervals import rate_interval
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.result.data import Axis
from smoothsweep.orchestrator.result.estimates import OWN, collect, estimate, images_column
from smoothsweep.orchestrator.result.rows import (
    image_counts,
    mean_over_classes,
    missing_reasons,
    one_type_a_column,
    per_class_rows,
    results_table,
    trial_row,
    with_recipes,
    write_results,
    write_rows,
)
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.load import load_sweep
from tests.tiny import tiny_sweep, write_tiny


@pytest.fixture
def store(tmp_path):
    made = Store(root=tmp_path / "store")
    made.open_for_writing()
    return made


def finish(store, stage, metrics=None, seconds=1.0, **frames):
    """frames: name of a file -> its rows."""
    draft = store.draft(stage)
    for name, rows in frames.items():
        pd.DataFrame(rows).to_parquet(draft / f"{name}.parquet")
    store.commit(stage, draft, {"metrics": metrics or {}, "seconds": seconds})


@pytest.mark.parametrize(
    ("values", "kept"),
    [
        ([1, 2.5, None], True),
        ([1, True], False),
        ([0.5, False, None], False),
        (["a", None, "b"], True),
        (["a", 1], False),
        ([True, "True"], False),
        ([True, None, False], True),
        ([{"seed": 3}, 0.9], False),
        ([{"seed": 3}, "a"], True),
        ([None, None], True),
        ([1, "a", True, float("nan")], False),
    ],
)
def test_a_column_of_several_kinds_becomes_text_and_its_nulls_stay(values, kept):
    other = [0.5] * len(values)
    table = pd.DataFrame({"before": other, "mixed": pd.Series(values, dtype=object), "after": other})
    found = one_type_a_column(table.copy())["mixed"].tolist()
    nulls = [value is None or value != value for value in values]
    wanted = values if kept else [None if null else str(value) for value, null in zip(values, nulls, strict=True)]
    assert [None if null else one for one, null in zip(found, nulls, strict=True)] == [
        None if null else one for one, null in zip(wanted, nulls, strict=True)
    ]
    assert one_type_a_column(table.copy())[["before", "after"]].equals(table[["before", "after"]])


def test_rates_by_class_of_all_judges_stand_in_one_row_with_how_many_images_each_is_of(store, tmp_path):
    """A judge of all images; one that asked about some, beside natural ones, and had no answer once; one without
    answers; one that has not finished; a stage that judges none."""
    answers = pd.array([True, None, False, True, False], dtype="boolean")
    of_some = {"kind": ["loot", "loot", "loot", "same", "other"], "class": [0, 0, 3, 0, 3], "hit": answers}
    of_all = {"class": [0, 0, 3, 3, 3], "hit": [True, False, True, True, True]}
    judged = {
        "judge_embedder": {"per_class": {"class": [3, 0], "embedder_acc1": [1.0, 0.5]}, "per_image": of_all},
        "judge_general": {"per_class": {"class": [0, 3], "general_acc1": [1.0, 0.0]}, "per_image": of_some},
        "judge_evaluator": {"per_class": {"class": [0, 4], "attack_acc1": [0.25, 0.75]}},
        "attack": {"per_class": {"class": [0, 3], "other": [9.0, 9.0]}},
    }
    trials = []
    for number in (2, 1):
        stages = [Stage(name=name, config={"number": number}, inputs={}) for name in (*judged, "judge_features")]
        trials.append(SimpleNamespace(id=f"t{number}", stages=stages))
        for stage in stages[:-1]:
            finish(store, stage, **judged[stage.name])
    found = per_class_rows(trials, store)
    assert found[["trial", "class"]].to_numpy().tolist() == [[f"t{n}", k] for n in (1, 2) for k in (0, 3, 4)]
    for _, rows in found.set_index("class").groupby("trial"):
        known = {name: column.dropna().to_dict() for name, column in rows.drop(columns="trial").items()}
        assert known == {
            "embedder_acc1": {0: 0.5, 3: 1.0},
            "embedder_acc1_images": {0: 2, 3: 3},
            "general_acc1": {0: 1.0, 3: 0.0},
            "general_acc1_images": {0: 1, 3: 1},
            "attack_acc1": {0: 0.25, 4: 0.75},
        }
    nothing = per_class_rows(trials, Store(root=tmp_path / "empty"))
    assert nothing.empty and list(nothing.columns) == ["trial", "class"]


def test_the_row_of_a_trial_says_what_is_done_what_failed_and_what_it_took(tmp_path, store):
    """Of four trials: all stages done, some, none and failed, all done and a failure that was mended."""
    attacks = [tiny_sweep()["attack"], {"kind": "random_latents", "selected": 2}]
    trials = trials_of(load_sweep(write_tiny(tmp_path, grid={"attack": attacks}, baseline={}, seeds=[4, 9])))
    assert len(trials) == 4
    numbers = {"target": ({"test_acc": 0.75}, 5.0), "attack": ({"queries": 12.0}, 7.0)}
    for one in trials:
        for stage in one.stages:
            is_done = one in (trials[0], trials[3]) or (one is trials[1] and stage.name == "target")
            if is_done and not store.has(stage):
                finish(store, stage, *numbers.get(stage.name, ()))
    failures = {trials[2].id: "no memory", trials[3].id: "mended", "elsewhere": "x"}
    table = results_table(trials, store, failures)
    assert table[["trial", "seed"]].to_numpy().tolist() == [[one.id, one.seed] for one in trials]
    assert table["status"].tolist() == ["done", "missing", "failed", "done"]
    assert [None if one != one else one for one in table["failure"]] == [None, None, "no memory", None]
    whole = table.iloc[0]
    assert (whole["test_acc"], whole["queries"], whole["seconds_target"]) == (0.75, 12.0, 5.0)
    reasons = json.loads(whole["reasons"])
    assert set(reasons) == {key for key in BY_KEY if pd.isna(whole[key])} and "test_acc" not in reasons
    assert set(TIME_COLUMNS) <= set(table.columns)
    assert table["attack_control"].tolist() == [one.settings.attack.built.control for one in trials]
    assert sorted(set(table["attack_access"])) == ["gradients", "none"]
    written = write_results(trials, store, failures, tmp_path / "new" / "report")
    read = pd.read_parquet(tmp_path / "new" / "report" / "results.parquet")
    assert read["trial"].tolist() == written["trial"].tolist() and read["test_acc"].tolist()[0] == 0.75
    empty = {name for name in (*BY_KEY, *TIME_COLUMNS) if written[name].isna().all()}
    assert set(read.columns) == set(written.columns) - empty and len(empty) > 30
    assert {"test_acc", "queries", "seconds_target", "failure", "reasons"} <= set(read.columns)


def test_the_file_names_each_rows_recipe_as_the_report_does(tmp_path):
    """What the file is in memory for stays as it is; without axes there is nothing to name."""
    table = pd.DataFrame({"trial": ["a", "b"], "seed": [1, 1], "alpha": [0.0, -0.2], "attack": ["ppa", "gmi"]})
    axes = (Axis(key="alpha"), Axis(key="attack", role="attack"))
    named = with_recipes(table, axes)
    assert list(named.columns) == ["trial", "seed", "recipe", "alpha", "attack"] and "recipe" not in table
    assert named["recipe"].tolist() == ["alpha\u00a00", "alpha\u00a0\u22120.2"], "the attack is no part of a name"
    whole = table.rename(columns={"alpha": "recipe"})
    axis = Axis(key="recipe", bare=True, values={0.0: "plain", -0.2: "smoothed"})
    named = with_recipes(whole, (axis,))
    assert named["recipe"].tolist() == ["plain", "smoothed"] and named["recipe_settings"].tolist() == [0.0, -0.2]
    assert with_recipes(table, ())["recipe"].tolist() == ["the recipe"] * 2


VALUES = {
    "recipe.lr": [0.01, 1, 1e-3],
    "attack.pool.truncation_cutoff": [None, 1, 2],
    "classes": ["all", [0, 1], [2]],
    "recipe.stop_at_test_acc": [None, 0.5, {"trial": {"recipe.epochs": 1}}],
    "attack.clip": [None, True, False],
    "recipe.defense": [{"alpha": 0.1}, {"kind": "label_smoothing", "alpha": -0.1}],
    "attack.loss": ["poincare"],
    "attack.seed": [0, 2**63 - 1],
    "recipe.betas": [[0.9, 0.99], [0.5, 1e-3]],
    "attack.discriminator_weight": [None, 0],
    "recipe.lr_milestones": [None, [0.5], []],
}
grids = st.dictionaries(st.sampled_from(sorted(VALUES)), st.none(), min_size=1, max_size=3).flatmap(
    lambda keys: st.fixed_dictionaries(
        {key: st.lists(st.sampled_from(VALUES[key]), min_size=1, max_size=3, unique_by=repr) for key in keys}
    )
)


@settings(max_examples=25, deadline=None)
@given(grid=grids, seeds=st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=2, unique=True))
def test_the_rows_of_any_sweep_can_be_written_and_read(tmp_path_factory, grid, seeds):
    folder = tmp_path_factory.mktemp("rows")
    path = folder / "sweep.yaml"
    path.write_text(yaml.safe_dump(tiny_sweep(grid=grid, baseline={}, seeds=seeds), sort_keys=False))
    try:
        trials = trials_of(load_sweep(path))
    except InputError:
        return  # a grid of which two cells are the same, say
    table = results_table(trials, Store(root=folder / "store"), {trials[0].id: "it failed"})
    write_rows(table, folder / "results.parquet")
    read = pd.read_parquet(folder / "results.parquet")
    assert list(read["seed"]) == [trial.seed for trial in trials] and list(read.columns) == list(table.columns)


def write_accuracies(folder, shares):
    """Accuracies by class as a target's artifact holds them; returns the file."""
    path = folder / "per_class.parquet"
    pd.DataFrame({"class": range(len(shares)), "test_acc": shares}).to_parquet(path)
    return path


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=2, max_size=6))
def test_balanced_accuracy_is_the_mean_recall_of_the_library(tmp_path_factory, counts):
    truth = np.repeat(np.arange(len(counts)), [images for images, _ in counts])
    wrong = len(counts) - 1
    said = np.concatenate(
        [np.where(np.arange(n) < hits, label, (label + wrong) % len(counts)) for label, (n, hits) in enumerate(counts)]
    )
    frame = pd.DataFrame({"class": truth, "test_acc": (truth == said).astype(float)})
    path = write_accuracies(tmp_path_factory.mktemp("one"), frame.groupby("class")["test_acc"].mean())
    assert mean_over_classes(path) == pytest.approx(balanced_accuracy_score(truth, said))


def trial_of(folder, **changes):
    return trials_of(load_sweep(write_tiny(folder, **changes)))[-1]


def reasons(trial, *, done=(), metrics=None):
    return missing_reasons(trial, metrics or {}, tuple(BY_KEY), set(done))


def test_everything_waits_for_its_stage_or_has_no_judge(tmp_path):
    found = reasons(trial_of(tmp_path, judges={}))
    assert set(found) == set(BY_KEY)
    for metric in METRICS:
        if metric.judge:
            assert found[metric.key] == f"the sweep has no {metric.judge} judge"
        elif metric.measured_by == "backdoor":
            assert found[metric.key] == "the training set has no backdoor (recipe.poison)"
        elif JUDGES.get(metric.measured_by.removeprefix("judge_") if metric.measured_by else "", Judge).accompanies:
            assert found[metric.key] == metric.null and "the judge's key verify" in found[metric.key]
        elif metric.measured_by:
            assert found[metric.key] == "the stage that measures it has not finished"
    assert "300" in reasons(trial_of(tmp_path), done=("judge_evaluator",))["dist_knn"]


ANSWERS = {
    "robustness": pd.DataFrame(
        {"class": [0, 1, 2, 2, 1], "answer": [0, 1, 0, 2, 1], "fgsm_untargeted": [1, 2, 2, 0, 0]}
    ),
    "backdoor": pd.DataFrame({"class": [0, 1, 2, 2, 1], "answer": [0, 1, 0, 2, 1], "answer_triggered": [1] * 5}),
    "knowledge": pd.DataFrame({"class": [0, 2], "train": [5, 4], "test": [2, 1]}),
    "prior_reach": pd.DataFrame({"class": [0, 1, 2], "matched": [True, True, True]}),
    "prior_reach_general": pd.DataFrame({"class": [0, 1], "matched": [True, False]}),
}
EXPECTED = {
    "robustness": {"fgsm_untargeted": 5, "pgd_targeted": 5, "robust_acc": 5, "fgsm_untargeted_correct": 4},
    "backdoor": {"backdoor_success": 3, "backdoor_false": 3},
    "knowledge": {"xi_train": 9, "xi_test": 3},
    "prior_reach": {"embedder_reach": 3, "verified_far1_reach": 3},
    "prior_reach_general": {"general_reach": 2, "general_verified_far1_reach": 2},
}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_judge_counts_the_rows_that_its_rates_are_of(name):
    found = JUDGES[name].counts(ANSWERS[name], {"poison": {"poison": {"kind": "blended", "target": 1}}})
    assert EXPECTED[name].items() <= found.items()
    own = {one.key for one in JUDGES[name].columns if one.counted == "own images"}
    assert set(found) == own, "each rate of its own images, and no other"


def finished(folder, answers=None):
    """A trial with a target of 40 training images and a judge that left these rows."""
    (trial,) = trials_of(load_sweep(write_tiny(folder, grid={}, baseline={}, judges={"robustness": {}})))
    store = Store(root=folder / "store")
    store.open_for_writing()
    target = next(stage for stage in trial.stages if stage.name == "target")
    for stage in (target.inputs["data"], *trial.stages):
        if store.has(stage) or (answers is None and stage.name == "judge_robustness"):
            continue
        draft = store.draft(stage)
        if stage.name == "judge_robustness":
            answers.to_parquet(draft / "answers.parquet")
        store.commit(stage, draft, {"metrics": {"num_train": 40} if stage.name == "data" else {}})
    return trial, store


def test_a_trials_row_has_how_many_images_its_rates_are_of(tmp_path):
    trial, store = finished(tmp_path, ANSWERS["robustness"])
    row = trial_row(trial, store)
    assert (
        row["train_acc_images"] == 40 and row["robust_acc_images"] == 5 and row["fgsm_untargeted_correct_images"] == 4
    )
    counted = image_counts(trial, store)
    assert {key for key in row if key in map(images_column, OWN) and key not in BY_KEY} == set(counted)


def one_cell(key, values, counts):
    rows = [
        {"trial": f"t{seed}", "seed": seed, "status": "done", key: value, images_column(key): count}
        for seed, (value, count) in enumerate(zip(values, counts, strict=True))
    ]
    return collect(pd.DataFrame(rows), {})[key]


@pytest.mark.parametrize("key", ["backdoor_success", "fgsm_untargeted_correct", "train_acc", "xi_test"])
def test_all_hits_of_a_known_number_of_images_have_an_interval(key):
    found = estimate(BY_KEY[key], one_cell(key, [1.0, 1.0, 1.0], [60, 50, 55]))
    expected = rate_interval([1.0, 1.0, 1.0], images=50)
    assert (found.low, found.high) == (expected.low, expected.high) and 0.85 < found.low < found.high == 1.0
    unknown = estimate(BY_KEY[key], one_cell(key, [1.0, 1.0, 1.0], [60, None, 55]))
    assert math.isnan(unknown.low) and math.isnan(unknown.high)


@pytest.mark.parametrize("key", ["verified_far1_others", "general_verified_far1_others", "verified_far1_real"])
def test_real_photographs_are_the_same_under_every_seed(key):
    """Every test image is held against the other people, whichever classes are attacked."""
    trials = pd.DataFrame([{"trial": f"t{s}", "seed": s, "status": "done", key: 0.0} for s in range(3)])
    found = estimate(BY_KEY[key], collect(trials, {}, 20)[key])
    assert (found.low, found.high) == (0.0, rate_interval([0.0] * 3, images=20).high) and 0.05 < found.high < 0.3
