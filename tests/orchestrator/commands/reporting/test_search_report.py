"""The report of a search, from what lies in a store to the page: proposals, rungs, a second audit."""

import numpy as np
import pandas as pd
import pytest

from smoothsweep.orchestrator.commands.reporting.report import report_data
from smoothsweep.orchestrator.page.render import render
from smoothsweep.orchestrator.planning.trial import Proposal, ProposalLog, trials_of
from smoothsweep.orchestrator.result.format import ascii_text
from smoothsweep.orchestrator.result.rows import results_table
from smoothsweep.orchestrator.result.summary import summarise
from smoothsweep.orchestrator.result.sweep_result import result_of
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.load import load_sweep

ALPHA, KIND, START = (f"recipe.defense.{key}" for key in ("alpha", "schedule.kind", "schedule.start"))
SWEEP = """
name: searched
seeds: [1, 2]
data: {kind: synthetic, identities: 12, train_per_class: 4, test_per_class: 2, size: 64, seed: 7}
public: {kind: synthetic, identities: 40, per_identity: 2, size: 64, seed: 7}
recipe: {architecture: resnet_small, pretrained: false, image_size: 32, epochs: 4, defense: {kind: label_smoothing}}
prior: {kind: eigenfaces, components: 20}
attack: {candidates: 4, steps: 8, selected: 2}
judges: {embedder: {name: synthetic}}
search:
  strategy: halving
  recipes: 6
  space:
    recipe.defense.alpha: {low: -0.4, high: 0.1, step: 0.05}
    recipe.defense.schedule.kind: {choices: [constant, ramp]}
    recipe.defense.schedule.start: {low: 0.0, high: 0.7, step: 0.1, when: {recipe.defense.schedule.kind: ramp}}
  objectives: {test_acc: max, embedder_acc1: min}
  constraints: {test_acc: {at_least: 0.8}}
  rungs: [{keep: 0.5, set: {classes: [0, 1, 2, 3], attack.steps: 2}}]
  audit: 1
grid: {attack.loss: [poincare, cross_entropy]}
reaudit: {seeds: [101, 102], recipes: 2}
baseline: {recipe.defense.alpha: 0.0}
budget: {device_hours: 2.0}
"""
RECIPES = [
    {ALPHA: 0.0},
    *(
        {ALPHA: -0.05 * k, KIND: "ramp", START: 0.1 * k} if k % 2 else {ALPHA: -0.05 * k, KIND: "constant"}
        for k in range(1, 7)
    ),
]


def finish(store, trial, number):
    """Leave what the trial's stages would have made: a recipe's leak falls with the factor's distance from 0."""
    alpha = trial.settings.recipe.defense.final_alpha
    rng = np.random.default_rng([number, trial.seed])
    classes = trial.settings.classes if trial.settings.classes != "all" else range(12)
    loss = trial.settings.attack.loss == "poincare"
    rates = np.clip(rng.normal(0.7 + alpha + 0.1 * loss, 0.1, len(classes)), 0, 1)
    hits = pd.DataFrame({"class": [f"p{c}" for c in classes], "embedder_acc1": rates})
    metrics = {"target": {"test_acc": 0.95 + alpha / 2}, "judge_embedder": {"embedder_acc1": rates.mean()}}
    for stage in trial.stages:
        if store.has(stage):
            continue
        folder = store.draft(stage)
        if stage.name == "target":
            curve = pd.DataFrame({"epoch": range(4), "alpha": alpha, "loss": 1.0, "train_acc": 0.9, "test_acc": 0.9})
            curve.to_parquet(folder / "history.parquet")
        if stage.name == "judge_embedder":
            hits.to_parquet(folder / "per_class.parquet")
        manifest = {
            "stage": stage.name,
            "seconds": 36.0,
            "device": "cpu",
            "host": "h",
            "libraries": {},
            "config": {},
            "inputs": {},
            "files": {},
            "metrics": {"num_classes": 12, "num_train": 48, "num_test": 24} | metrics.get(stage.name, {}),
        }
        store.commit(stage, folder, manifest)


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """A search by halving with a baseline, a rung, an audit, a second audit of two recipes, one trial still open."""
    place = tmp_path_factory.mktemp("search")
    (place / "searched.yaml").write_text(SWEEP)
    loaded, store = load_sweep(place / "searched.yaml", ["accuracy_margin=0.03"]), open_store(str(place / "store"))
    proposals = ProposalLog(loaded, store)
    plan = [Proposal(number=0, values=RECIPES[0], origin="baseline")]
    plan += [Proposal(number=k, values=RECIPES[k], rung=0) for k in range(1, 7)]
    plan += [Proposal(number=4 + k, values=RECIPES[k], origin="survivor", of=k) for k in (3, 4, 5)]
    plan += [Proposal(number=10, values=RECIPES[1], origin="audit", of=1)]
    proposals.write(plan)
    ProposalLog(loaded, store).write_reaudit([RECIPES[5], RECIPES[4]])
    trials = trials_of(loaded, store)
    for number, trial in enumerate(trials[:-1]):
        finish(store, trial, number)
    return loaded, store, trials


def test_a_search_is_reported_from_its_store(searched, tmp_path):
    loaded, store, trials = searched
    data = report_data(loaded, trials, store, results_table(trials, store, {}), tmp_path)
    assert (data.min_test_acc, data.accuracy_margin, data.primary) == (0.8, 0.03, "embedder_acc1")
    assert set(data.fresh["seed"]) == {101, 102} and len(data.others) == 6 * 4 and len(data.results) == 5 * 4
    summary = summarise(data)
    assert summary.accuracy_margin == 0.03
    assert summary.baseline_recipe is not None and len(summary.recipes) == 5
    view = data.search
    assert view.strategy == "halving" and len(view.proposals) == 11 and len(dict(view.on_rungs)[0]) == 6
    assert {p.recipe for p in view.full} == set(summary.recipes)
    assert view.space[2] == "start: 0 to 0.7 in steps of 0.1, with kind ramp"
    page = ascii_text(render(data, result_of(data, summary)))
    for ident in ("search", "fresh", "cost", "results"):
        assert f'id="{ident}"' in page
    assert "Among the recipes with at least 80.0 % test accuracy" in page
    assert "4 recipes were attacked both by it and in full, 1 of them though dropped" in page
    assert "Checked again: " in page and "tends to look lower" not in page
    assert "4 classes, steps 2" in page and "with fresh seeds" in page and "80.0 % asked for" in page
    assert "51 done and 1 missing" in page  # the second audit's, which is no trial of the comparison
