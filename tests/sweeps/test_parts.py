"""Cells share the parts that they have alike, and are what checking each of them by itself makes of them."""

import copy

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny import tiny_sweep

from smoothsweep.core.errors import InputError
from smoothsweep.sweeps.expand import CellMaker, check, values_text
from smoothsweep.sweeps.load import load_sweep

STEP = {"kind": "label_smoothing", "alpha": -0.3, "schedule": {"kind": "step", "at": 0.1}}
VALUES = {
    "recipe": [{"architecture": "resnet_small", "image_size": 32, "pretrained": False}, {"imported": "nowhere"}, 3],
    "recipe.defense": [{"alpha": 0.1}, STEP, {"kind": "none of ours"}, None],
    "recipe.defense.alpha": [0.0, 0, -0.2, 2.0, "x"],
    "recipe.defense.schedule.kind": ["step", "ramp", "steps"],
    "recipe.augmentation": [{"hue": 0.0}, {"hue": 0.0, "flip": 1}, {"hue": 0.7}],
    "recipe.augmentation.hue": [0.0, 0.1, 0.9],
    "recipe.lr": [0.001, 1, -1.0, True],
    "recipe.batch_size": [8, 16, 1],
    "recipe.workers": [1, 2],
    "recipe.poison": [None, {"kind": "badnets"}, {"kind": "blended"}],
    "recipe.architecture": ["resnet_small", "vgg_small"],  # the second is the evaluator's
    "attack": [{"kind": "random_latents", "selected": 2}, {"kind": "ppa", "steps": 2}, {"kind": "nobody's"}],
    "attack.steps": [2, 3, 0],
    "attack.pool.size": [20, 30, 1],
    "attack.loss": ["poincare", "logit", ""],
    "judges": [{}, {"embedder": {"name": "synthetic"}}, {"robustness": {}}],
    "judges.knowledge.lr": [0.05, 0.1],
    "data.identities": [4, 5, 1],
    "public.identities": [60, 2],
    "classes": ["all", [0, 1], [1, 1], [7]],
    "prior.components": [12, 80],
}


def loaded(folder, **changes):
    path = folder / "parts.yaml"
    path.write_text(yaml.safe_dump(tiny_sweep(**changes), sort_keys=False))
    return load_sweep(path)


def alone(sweep, values):
    """The settings as a file of their own would have them: every key set in a copy of the whole, all of it checked."""
    raw = copy.deepcopy({key: value for key, value in sweep.raw.items() if key not in ("grid", "cells")})
    for key, value in values.items():
        *holders, last = key.split(".")
        node, reached = raw, []
        for name in holders:
            reached.append(name)
            node[name] = {} if node.get(name) is None else node[name]
            node = node[name]
            if not isinstance(node, dict):
                raise InputError(f"grid: {key}: expected {'.'.join(reached)} to hold keys, got {node}")
        node[last] = copy.deepcopy(value)
    return check(raw, f"{sweep.source} with {values_text(values)}")


def outcome(make, values):
    try:
        made = make(values)
    except InputError as error:
        return str(error)
    return made, made.model_dump(mode="json"), made.recipe.model_fields_set, made.model_fields_set


def combinations():
    keys = st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3, unique=True)
    ordered = keys.map(lambda chosen: sorted(chosen, key=lambda key: key.count(".")))
    return ordered.flatmap(lambda chosen: st.fixed_dictionaries({key: st.sampled_from(VALUES[key]) for key in chosen}))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(combinations(), min_size=2, max_size=6))
def test_cells_made_one_after_the_other_are_those_made_alone(tmp_path, cells):
    sweep = loaded(tmp_path, grid={}, baseline={})
    make = CellMaker(sweep)
    before = copy.deepcopy((sweep.raw, cells))
    for values in [*cells, *reversed(cells)]:
        together = outcome(lambda one: make(one).settings, values)
        assert together == outcome(lambda one: alone(sweep, one), values)
    assert (sweep.raw, cells) == before, "what the file says is not changed by making cells of it"
