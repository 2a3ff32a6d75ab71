"""A trial by its name and its row: what tells it from the others."""

import pytest
from tiny import tiny_sweep, write_tiny

from smoothsweep.orchestrator.planning.trial import Trial, run_trial, stages_to_start_early
from smoothsweep.orchestrator.stages.stage import with_ancestors
from smoothsweep.sweeps.expand import Cell, expand
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.schema import InversionSweep


def trial(axes=(), phase="sweep", seed=3, settings=None, **changes):
    made = settings or InversionSweep.model_validate(tiny_sweep(grid={}, baseline={}, **changes))
    return Trial(cell=Cell(axes=dict(axes), settings=made, is_baseline=False), seed=seed, phase=phase)


@pytest.mark.parametrize(
    ("given", "label"),
    [
        ({}, "seed 3"),
        ({"axes": {"alpha": -0.2, "loss": "poincare"}}, "alpha -0.2 · loss poincare · seed 3"),
        ({"axes": {"alpha": 0.0, "schedule": None}}, "alpha 0.0 · seed 3"),
        ({"phase": "proxy"}, "seed 3 · proxy"),
        ({"axes": {"alpha": 0.1}, "phase": "reaudit"}, "alpha 0.1 · seed 3 · reaudit"),
    ],
)
def test_a_label_has_the_axes_that_are_set_the_seed_and_an_unusual_phase(given, label):
    assert trial(**given).label == label


def test_whole_attacks_recipes_and_defenses_are_said_in_their_own_words(tmp_path):
    grid = {
        "recipe.defense": [{"kind": "label_smoothing", "alpha": -0.2}, {"kind": "dropout", "p": 0.3}],
        "attack": [tiny_sweep()["attack"], {"kind": "random_latents", "selected": 2}],
    }
    cells = expand(load_sweep(write_tiny(tmp_path, grid=grid, baseline={})))
    labels = [Trial(cell=cell, seed=1).label for cell in cells]
    assert labels[1] == "smoothing\u00a0\u22120.2 · random latents · seed 1"
    assert labels[2] == f"dropout\u00a00.3 · {cells[2].settings.attack.words} · seed 1" and len(labels) == 4


def verified():
    """The tiny sweep's judges, with verification and the prior's reach beside the embedder."""
    judges = tiny_sweep()["judges"]
    return {**judges, "embedder": {**judges["embedder"], "verify": None}}


def test_stages_run_in_the_order_in_which_they_are_needed():
    ran = []
    asked = trial(judges=verified())
    run_trial(asked, ran.append)
    names = [stage.name for stage in ran]
    judges = ["judge_evaluator", "judge_embedder", "knowledge", "judge_verification"]
    assert names == ["data", "target", "judge_prior_reach", "attack", "loot", *judges]  # the reach needs no attack
    assert {stage.fingerprint for stage in ran} == {stage.fingerprint for stage in asked.stages}
    ran.clear()
    run_trial(trial(judges={}), ran.append)
    assert [stage.name for stage in ran] == ["data", "target", "attack", "loot"]


def test_what_judges_alone_need_is_asked_for_early_and_nothing_that_the_attack_needs():
    stages = trial().stages
    early = stages_to_start_early(stages)
    by_name = {stage.name: stage for stage in stages}
    assert by_name["judge_evaluator"].inputs["evaluator"] in early
    needed = {one.fingerprint for one in with_ancestors([by_name["attack"]])}
    assert early and not {one.fingerprint for one in early} & needed
    assert not any("attack" in {below.name for below in with_ancestors([one])} for one in early)
    assert stages_to_start_early(trial(judges={}).stages) == []
