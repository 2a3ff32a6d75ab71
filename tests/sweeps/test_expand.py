"""The cells of a sweep: listed ones beside the grid, whole attacks as values of it, columns, and what is refused."""

import pytest
import yaml
from tiny import tiny_sweep, write_tiny

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.result.rows import recipe_fields
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.expand import axis_keys, axis_names, expand
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.schema import InversionSweep

CELLS = [
    {"recipe.architecture": "resnet_small", "attack.steps": 3},
    {"recipe.architecture": "resnet18", "attack.steps": 4},
]
PPA = tiny_sweep()["attack"]
CONTROL = {"kind": "random_latents", "selected": 2}
ATTACKS = [
    {"kind": "ppa", **PPA},
    {"kind": "ppa", **PPA, "loss": "cross_entropy"},
    {"kind": "selection_only", "pool": PPA["pool"], "selected": 2},
    CONTROL,
]
SEARCH = {
    "strategy": "random",
    "recipes": 2,
    "space": {"recipe.defense.alpha": {"low": -0.2, "high": 0.0}},
    "objectives": {"test_acc": "max", "embedder_acc1": "min"},
}
SEARCHED = {"search": SEARCH, "grid": {}, "baseline": {}}


def loaded(folder, **changes):
    return load_sweep(write_tiny(folder, **changes))


def attacked(*attacks):
    return {"grid": {"recipe.defense.alpha": [0.0, -0.2], "attack": list(attacks)}}


def of_grid(values):
    return {"grid": values, "baseline": {}}


def test_every_listed_cell_meets_the_whole_grid(tmp_path):
    sweep = loaded(tmp_path, cells=CELLS)
    cells = expand(sweep)
    assert axis_keys(sweep) == ["recipe.architecture", "recipe.defense.alpha"]  # steps follow from the architecture
    assert [(c.axes["architecture"], c.axes["alpha"], c.settings.attack.steps, c.is_baseline) for c in cells] == [
        ("resnet_small", 0.0, 3, True),
        ("resnet_small", -0.2, 3, False),
        ("resnet18", 0.0, 4, True),
        ("resnet18", -0.2, 4, False),
    ]
    more = loaded(tmp_path, cells=[*CELLS, {"recipe.architecture": "resnet18", "attack.steps": 5}])
    assert axis_keys(more)[:2] == ["recipe.architecture", "attack.steps"], "a key that does not follow stays an axis"


def test_anchors_and_merges_of_yaml_work(tmp_path):
    path = tmp_path / "merge.yaml"
    text = yaml.safe_dump(tiny_sweep(), sort_keys=False)
    path.write_text(text + "cells:\n- &a {attack.steps: 2, attack.candidates: 4}\n- {<<: *a, attack.steps: 3}\n")
    assert [c.settings.attack.steps for c in expand(load_sweep(path))] == [2, 2, 3, 3]


def test_axis_names_are_short_and_unambiguous():
    names = axis_names(["recipe.lr", "attack.lr", "recipe.defense.alpha", "attack.loss"])
    assert list(names.values()) == ["recipe_lr", "attack_lr", "alpha", "attack_loss"]


def test_every_recipe_meets_every_attack_and_shares_what_they_agree_on(tmp_path):
    found = trials_of(loaded(tmp_path, **attacked(*ATTACKS)))
    told = [recipe_fields(trial) for trial in found[:4]]
    assert [one["attack"] for one in told] == ["ppa poincare", "ppa cross_entropy", "selection_only", "random_latents"]
    assert [one["attack_access"] for one in told] == ["gradients", "gradients", "scores", "none"]
    assert [trial.is_control for trial in found[:4]] == [False, False, False, True]
    stages = [trial.stages[2] for trial in found[:4]]
    assert len({stage.inputs["pool"].fingerprint for stage in stages[:3]}) == 1
    assert len({stage.inputs["candidates"].fingerprint for stage in stages[:3]}) == 1
    assert "target" not in stages[3].inputs
    assert found[3].stages[2].fingerprint == found[7].stages[2].fingerprint  # it sees nothing of the recipe


def test_the_accuracy_that_is_needed_is_stated_or_the_searchs_and_changes_no_trial(tmp_path):
    assert loaded(tmp_path).sweep.accuracy_needed is None
    assert loaded(tmp_path, min_test_acc=0.9).sweep.accuracy_needed == 0.9
    search = {**SEARCH, "constraints": {"test_acc": {"at_least": 0.8}}}
    assert loaded(tmp_path, **{**SEARCHED, "search": search}).sweep.accuracy_needed == 0.8
    plans = [
        [
            (trial.id, stage.fingerprint)
            for trial in trials_of(loaded(tmp_path, **changes), open_store(str(tmp_path / "store")))
            for stage in trial.stages
        ]
        for changes in ({}, {"accuracy_margin": 0.03})
    ]
    assert plans[0] == plans[1] and len(plans[0]) > 1


OF_A_TRIAL = {"data", "public", "recipe", "prior", "attack", "judges", "classes"}
"""What a cell may change; all else is of the whole sweep."""
WHOLE = sorted(InversionSweep.model_fields.keys() - OF_A_TRIAL)
NOT_OF_A_TRIAL = "expected a key that a trial depends on"
NO_CONTROL = "attack: expected at least one that is no control, got random_latents"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        *((of_grid({key: [1, 2]}), f"grid.{key}: {NOT_OF_A_TRIAL}, got {key}") for key in WHOLE),
        *(({**of_grid({}), "cells": [{key: 1}, {key: 2}]}, f"cells.{key}: {NOT_OF_A_TRIAL}") for key in WHOLE),
        ({"cells": [CELLS[0], {"attack.steps": 2}]}, "cells.1: expected the keys recipe.architecture, attack.steps"),
        ({"cells": [{}]}, "cells.0: expected the keys at least one key"),
        ({"cells": [{"recipe.defense.alpha": 0.1}]}, "cells.0.recipe.defense.alpha: expected it here or in grid"),
        ({"cells": [{"resources.attack_rows": 3}]}, f"cells.resources.attack_rows: {NOT_OF_A_TRIAL}"),
        ({"cells": [{"attack.steps": 0}]}, "attack.steps=0"),
        (
            {"grid": {}, "baseline": {"recipe.lr": 0.1}},
            "baseline.recipe.lr: expected a key of the grid (empty), got 0.1",
        ),
        (
            {"baseline": {"recipe.lr": 0.1}},
            "baseline.recipe.lr: expected a key of the grid (recipe.defense.alpha), got 0.1",
        ),
        (
            {"baseline": {"recipe.defense.alpha": 0.3}},
            "baseline.recipe.defense.alpha: expected one of [0.0, -0.2], got 0.3",
        ),
        ({"cells": CELLS, "baseline": {"attack.steps": 5}}, "baseline.attack.steps: expected one of [3, 4], got 5"),
        (of_grid({"recipe.epochs": []}), "grid.recipe.epochs: expected at least one value, got none"),
        (of_grid({"recipe.nothing": [1]}), "recipe.nothing"),
        (of_grid({"recipe.defense.alpha": [0.1, 2]}), "with recipe.defense.alpha=2: recipe.defense.alpha: expected"),
        (attacked(CONTROL), NO_CONTROL),
        (attacked(CONTROL, {**CONTROL, "selected": 1}), NO_CONTROL),
        (attacked(ATTACKS[0], {"kind": "selection_only", "steps": 3}), "attack.steps: expected one of the keys "),
        (attacked({"kind": "ppa", "sample": {"kind": "worst"}}), "attack.sample.kind: expected one of"),
        ({"min_test_acc": 0.9, **SEARCHED}, "min_test_acc: expected it among search.constraints"),
        ({"accuracy_margin": float("nan")}, "accuracy_margin: expected a finite number, got nan"),
        (of_grid({"tracking.models": ["all"]}), f"grid.tracking.models: {NOT_OF_A_TRIAL}"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_one_line(tmp_path, changes, words):
    with pytest.raises(InputError) as refusal:
        expand(loaded(tmp_path, **changes))
    assert words in str(refusal.value) and "\n" not in str(refusal.value)
