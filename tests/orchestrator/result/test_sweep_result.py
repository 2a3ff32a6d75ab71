"""A result: frames with the declared columns, facts that agree with them, one JSON, and the same from a store."""

import json

import numpy as np
import pytest
from tiny import write_tiny

import smoothsweep
from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.result.summary import summarise
from smoothsweep.orchestrator.result.sweep_result import FRAMES, metric_columns, result_of
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.load import load_sweep
from tests.made_artifacts import write_artifacts


@pytest.fixture(scope="module", params=["complete", "one seed", "no leak", "nothing done"])
def made(request, make_data):
    data = make_data()
    results = data.results
    if request.param == "one seed":
        results = results[results["seed"] == 1].reset_index(drop=True)
    if request.param == "no leak":
        results = results.assign(**dict.fromkeys(("embedder_acc1", "attack_acc1", "dist_face", "dist_eval"), np.nan))
        data = make_data(per_class=None)
    if request.param == "nothing done":
        results = results.assign(status="missing")
    data = make_data(results=results, per_class=data.per_class)
    summary = summarise(data)
    return data, summary, result_of(data, summary)


def test_frames_have_the_declared_columns_and_the_cells_numbers(made):
    _, summary, result = made
    for name, frame in result.frames.items():
        declared = [column.name for column in FRAMES[name]]
        assert [name for name in frame if name in declared] == declared and frame.columns.is_unique
    assert list(result.recipes["recipe"]) == summary.recipes and len(result.attacks) == len(summary.frame)
    for column in metric_columns(summary.measured):
        if column.name in summary.frame:
            np.testing.assert_array_equal(result.attacks[column.name], summary.frame[column.name])


def test_facts_agree_with_the_frames(made):
    data, _, result = made
    facts, recipes = result.facts, result.recipes.set_index("recipe")
    assert facts["trials"] == len(data.results) == sum(facts[f"trials_{one}"] for one in ("done", "failed", "missing"))
    assert set(facts["front"]) == set(recipes.index[recipes["on_front"]])
    if facts["best"] is not None:
        leak = facts["best_leak"]
        assert leak.value == recipes.loc[facts["best"], facts["leak"]] and leak.low <= leak.value <= leak.high
        assert facts["baseline_accuracy"].value == recipes.loc[facts["baseline"], "test_acc"]
    if facts.get("reduction"):
        assert facts["reduction"].value == recipes.loc[facts["best"], "reduction"]
    assert result.sentences["answer"] and str(result)


def test_json_is_the_dump(made):
    *_, result = made
    held = json.loads(result.to_json())
    assert held == result.dump()
    assert set(FRAMES) <= set(held) and [row["recipe"] for row in held["recipes"]] == list(result.recipes["recipe"])
    for row, (_, mine) in zip(held["recipes"], result.recipes.iterrows(), strict=True):
        shown = {key: value for key, value in row.items() if isinstance(value, float)}
        assert all(mine[key] == value for key, value in shown.items())


@pytest.fixture
def finished(tmp_path):
    """A tiny sweep of two recipes, and its store of made-up artifacts."""
    sweep = write_tiny(tmp_path, seeds=[1, 2], grid={"recipe.defense.alpha": [0.0, -0.2]})
    store = Store(root=tmp_path / "store")
    trials = trials_of(load_sweep(sweep))
    write_artifacts(trials, store)
    return sweep, store, trials


def test_the_result_of_a_store_has_the_numbers_of_its_trials(finished):
    sweep, store, trials = finished
    result = smoothsweep.load_result(store.root, sweep)
    assert isinstance(result, smoothsweep.SweepResult) and result.facts["trials_done"] == len(trials) == 4
    for _, recipe in result.recipes.iterrows():
        alike = [trial for trial in trials if trial.recipe_label == recipe["recipe"]]
        targets = [next(stage for stage in trial.stages if stage.name == "target") for trial in alike]
        accuracies = [store.metrics(stage)["test_acc"] for stage in targets]
        assert len(alike) == recipe["n"] == 2 and recipe["test_acc"] == pytest.approx(np.mean(accuracies))


@pytest.mark.parametrize("described", ["missing.yaml", {"name": "x", "seeds": "no"}])
def test_a_mistake_ends_before_anything_runs(described, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError):
        smoothsweep.sweep(described)
    assert list(tmp_path.iterdir()) == []


def test_report_prints_json_and_refuses_what_stands_against_it(finished, smoothsweep):
    sweep, store, _ = finished
    done = smoothsweep("report", sweep, "--store", store.root, "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["facts"]["trials_done"] == 4
    assert not (store.root / "sweeps").exists()
    for more in (["--out", store.root / "x"], [sweep]):
        assert smoothsweep("report", sweep, *more, "--store", store.root, "--json").returncode == 2
