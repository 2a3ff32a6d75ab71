"""An attack whose results another target selects, and one whose features are pulled: numbers recomputed by hand."""

import json

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.tasks.training import load_classifier
from tests.tasks.test_attack import CANDIDATES, REPEATS, SELECTED, shown, synthesised

UNCROPPED = {
    "crop_scale": [1.0, 1.0],
    "selection_crop_scale": [1.0, 1.0],
    "selection_crop_ratio": [1.0, 1.0],
    "selection_hflip": 0.0,
    "selection_repeats": 1,
}


def attack(pipeline, inputs=None, **changes):
    """The pipeline's attack with other settings and further inputs; its folder."""
    plain = pipeline.stage("attack")
    stage = Stage(name="attack", config={**plain.config, **changes}, inputs={**plain.inputs, **(inputs or {})})
    execute_with_inputs(pipeline.store, stage)
    return pipeline.store.path(stage)


def metrics_of(folder):
    return json.loads((folder / "manifest.json").read_text())["metrics"]


@pytest.fixture(scope="module")
def swapped(paper):
    """All candidates, optimised on the target; and the best of them to another network, which sees nothing else."""
    other = {"selection_target": paper.stage("judge_evaluator.evaluator")}
    return attack(paper, selected=CANDIDATES, **UNCROPPED), attack(paper, other, **UNCROPPED)


def test_the_other_target_selects_among_the_same_optimised_latents(paper, swapped):
    every, chosen = (load_file(folder / "reconstructions.safetensors") for folder in swapped)
    prior = paper.tensors("attack.prior", "weights")
    judge = load_classifier(paper.folder("judge_evaluator.evaluator"), paper.config("judge_evaluator.evaluator"), "cpu")
    for label in range(3):
        candidates, found = (one["w"][one["labels"] == label] for one in (every, chosen))
        with torch.no_grad():
            scores = judge(shown(synthesised(prior, candidates))).softmax(1)[:, label]
        best = scores.sort(descending=True)
        assert torch.allclose(chosen["scores"][chosen["labels"] == label], best.values[:SELECTED], atol=1e-5)
        assert torch.allclose(found, candidates[best.indices[:SELECTED]], atol=1e-5)


def test_every_target_counts_what_it_was_shown(swapped):
    alone, both = map(metrics_of, swapped)
    assert both["queries"] == alone["queries"] - CANDIDATES and both["queries_selection_target"] == CANDIDATES
    assert "queries_selection_target" not in alone
    rows = pd.read_parquet(swapped[1] / "rows.parquet")
    assert rows["queries_selection_target"].tolist() == [CANDIDATES] * 3
    assert REPEATS != 1  # the count above is of one look at each candidate


def test_the_pull_adds_the_distance_to_the_mean_feature_to_minus_the_logit(paper):
    inputs = {"target": paper.stage("target"), "pool": paper.stage("attack.pool")}
    config = {"part": "pool_features", "settings": {}, "image_size": 32, "protocol": "paper"}
    part = Stage(name="pool_features", config=config, inputs=inputs)
    changes = {**UNCROPPED, "loss": "logit", "steps": 1, "lr": 1e-9}
    pulled = attack(paper, {"pool_features": part}, **changes, feature_weight=1000.0)
    plain = attack(paper, **changes)
    target = load_classifier(paper.folder("target"), paper.config("target"), "cpu")
    mean = load_file(paper.store.path(part) / "mean.safetensors")["mean"]
    with torch.no_grad():
        usual = target.embed(paper.tensors("attack.pool", "images")["images"]).mean(0)
        pool = paper.tensors("attack.pool", "w")["w"][:, :1]
        images = shown(synthesised(paper.tensors("attack.prior", "weights"), pool))
        features, logits = target.embed(images), target(images)
    assert torch.allclose(mean, usual, atol=1e-5)
    confidences = paper.tensors("attack.candidates", "confidences")["confidences"]
    for label in range(3):
        starts = confidences[:, label].sort(descending=True, stable=True).indices[:CANDIDATES]
        logit, pull = -logits[starts, label].mean(), (features[starts] - mean).square().mean(1).mean()
        first = [float(load_file(folder / "curves.safetensors")["loss"][label, 0]) for folder in (plain, pulled)]
        assert first[0] == pytest.approx(float(logit), abs=1e-4)
        assert first[1] == pytest.approx(float(logit + 1000 * pull), abs=1e-3) and 1000 * pull > 1e-2
