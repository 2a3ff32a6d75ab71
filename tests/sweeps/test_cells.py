"""Listed cells beside the grid: which columns they make, and what is refused."""

import pytest
import yaml
from tiny import tiny_sweep

from smoothsweep.core.errors import InputError
from smoothsweep.sweeps.expand import axis_keys, expand
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.schema import InversionSweep


def loaded(tmp_path, **changes):
    path = tmp_path / "cells.yaml"
    path.write_text(yaml.safe_dump(tiny_sweep(**changes), sort_keys=False))
    return load_sweep(path)


CELLS = [
    {"recipe.architecture": "resnet_small", "attack.steps": 3},
    {"recipe.architecture": "resnet18", "attack.steps": 4},
]


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


def test_a_key_that_does_not_follow_stays_an_axis(tmp_path):
    sweep = loaded(tmp_path, cells=[*CELLS, {"recipe.architecture": "resnet18", "attack.steps": 5}])
    assert axis_keys(sweep)[:2] == ["recipe.architecture", "attack.steps"]


def test_anchors_and_merges_of_yaml_work(tmp_path):
    path = tmp_path / "merge.yaml"
    text = yaml.safe_dump(tiny_sweep(), sort_keys=False)
    path.write_text(text + "cells:\n- &a {attack.steps: 2, attack.candidates: 4}\n- {<<: *a, attack.steps: 3}\n")
    assert [c.settings.attack.steps for c in expand(load_sweep(path))] == [2, 2, 3, 3]


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ([CELLS[0], {"attack.steps": 2}], "cells.1: expected the keys recipe.architecture, attack.steps"),
        ([{}], "cells.0: expected the keys at least one key"),
        ([{"recipe.defense.alpha": 0.1}], "cells.0.recipe.defense.alpha: expected it here or in grid"),
        ([{"seeds": [1]}], "cells.seeds: expected a key that a trial depends on"),
        ([{"resources.attack_rows": 3}], "cells.resources.attack_rows: expected a key that a trial depends on"),
        ([{"attack.steps": 0}], "attack.steps=0"),
    ],
)
def test_cells_that_make_no_sense_are_one_line(tmp_path, cells, words):
    with pytest.raises(InputError) as caught:
        expand(loaded(tmp_path, cells=cells))
    assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
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
    ],
)
def test_a_baseline_that_nobody_tries_is_refused(tmp_path, changes, message):
    with pytest.raises(InputError) as refusal:
        expand(loaded(tmp_path, **changes))
    assert str(refusal.value).endswith(f"cells.yaml: {message}")


OF_A_TRIAL = {"data", "public", "recipe", "prior", "attack", "judges", "classes"}
"""What a cell may change; all else is of the whole sweep."""


@pytest.mark.parametrize("key", sorted(InversionSweep.model_fields.keys() - OF_A_TRIAL))
def test_what_is_of_the_whole_sweep_is_no_axis_of_it(tmp_path, key):
    for place, changes in (("grid", {"grid": {key: [1, 2]}}), ("cells", {"cells": [{key: 1}, {key: 2}]})):
        with pytest.raises(InputError) as refusal:
            expand(loaded(tmp_path, **{"baseline": {}, "grid": {}, **changes}))
        assert str(refusal.value).endswith(f"{place}.{key}: expected a key that a trial depends on, got {key}")
