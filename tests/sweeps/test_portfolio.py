"""Whole attacks as values of a grid."""

import pytest
from tiny import tiny_sweep, write_tiny

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.result.rows import recipe_fields
from smoothsweep.sweeps.load import load_sweep

PPA = tiny_sweep()["attack"]
SELECTION = {"kind": "selection_only", "pool": PPA["pool"], "selected": 2}
CONTROL = {"kind": "random_latents", "selected": 2}
ATTACKS = [{"kind": "ppa", **PPA}, {"kind": "ppa", **PPA, "loss": "cross_entropy"}, SELECTION, CONTROL]


def trials(folder, attacks, **changes):
    grid = {"recipe.defense.alpha": [0.0, -0.2], "attack": attacks}
    return trials_of(load_sweep(write_tiny(folder, grid=grid, **changes)))


def test_every_recipe_meets_every_attack_and_shares_what_they_agree_on(tmp_path):
    found = trials(tmp_path, ATTACKS)
    assert [recipe_fields(trial)["attack"] for trial in found[:4]] == [
        "ppa poincare",
        "ppa cross_entropy",
        "selection_only",
        "random_latents",
    ]
    assert [(recipe_fields(t)["attack_access"], t.is_control) for t in found[:4]] == [
        ("gradients", False),
        ("gradients", False),
        ("scores", False),
        ("none", True),
    ]
    stages = [trial.stages[2] for trial in found[:4]]
    assert len({stage.inputs["pool"].fingerprint for stage in stages[:3]}) == 1
    assert len({stage.inputs["candidates"].fingerprint for stage in stages[:3]}) == 1
    assert "target" not in stages[3].inputs
    assert found[3].stages[2].fingerprint == found[7].stages[2].fingerprint  # it sees nothing of the recipe


@pytest.mark.parametrize("attacks", [[CONTROL], [CONTROL, {**CONTROL, "selected": 1}]])
def test_controls_alone_are_refused(tmp_path, attacks):
    with pytest.raises(InputError, match="attack: expected at least one that is no control, got random_latents"):
        trials(tmp_path, attacks)


@pytest.mark.parametrize(
    ("attack", "message"),
    [
        ({"kind": "selection_only", "steps": 3}, "attack.steps: expected one of the keys "),
        ({"kind": "ppa", "sample": {"kind": "worst"}}, "attack.sample.kind: expected one of"),
    ],
)
def test_wrong_attacks_are_one_line(tmp_path, attack, message):
    with pytest.raises(InputError, match=message) as refusal:
        trials(tmp_path, [ATTACKS[0], attack])
    assert "\n" not in str(refusal.value)
