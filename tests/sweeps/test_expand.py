"""The cells of a sweep: listed ones beside the grid, whole attacks as values of it, columns; which priors and public
images are read, and what is refused."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny import tiny_sweep, write_tiny

from smoothsweep.core.attacks.registry import ATTACKS, make_attack
from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.planning.trial import Trial, trials_of
from smoothsweep.orchestrator.result.rows import recipe_fields, trial_row
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.expand import COLUMNS, LoadedSweep, axis_keys, axis_names, check, expand, values_text
from smoothsweep.sweeps.load import load_sweep
from tests.core.attacks.examples import example, needed

CELLS = [
    {"recipe.architecture": "resnet_small", "attack.steps": 3},
    {"recipe.architecture": "resnet18", "attack.steps": 4},
]
PPA = tiny_sweep()["attack"]
CONTROL = {"kind": "random_latents", "selected": 2}
OF_A_GRID = [
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
    found = trials_of(loaded(tmp_path, **attacked(*OF_A_GRID)))
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


def test_all_of_a_sweeps_trials_are_other_work(repository):
    for name in ("quickstart", "toy"):
        trials = trials_of(load_sweep(repository / "sweeps" / f"{name}.yaml"))
        assert len({trial.id for trial in trials}) == len(trials)


def test_an_override_may_leave_its_neighbours_to_the_grid(tmp_path):
    trials = trials_of(load_sweep(write_tiny(tmp_path), ["recipe.defense.kind=label_smoothing", "attack.lr=1e-3"]))
    assert [trial.settings.recipe.defense.final_alpha for trial in trials] == [0.0, -0.2]
    assert trials[0].settings.attack.lr == 0.001


def test_no_axis_takes_the_place_of_another_column(tmp_path):
    trial = trials_of(loaded(tmp_path))[0]
    row = set(trial_row(trial, Store(root=tmp_path / "store"))) - set(trial.cell.axes)
    assert row | set(recipe_fields(trial)) <= COLUMNS
    assert axis_names(["attack.seed", "recipe.precision", "prior", "attack.steps"]) == {
        "attack.seed": "attack_seed",
        "recipe.precision": "recipe_precision",
        "prior": "prior_settings",
        "attack.steps": "steps",
    }
    cells = expand(loaded(tmp_path, grid={"attack.seed": [1, 2]}, baseline={}))
    assert [cell.axes for cell in cells] == [{"attack_seed": 1}, {"attack_seed": 2}]


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
    make = sweep.make
    before = copy.deepcopy((sweep.raw, cells))
    for values in [*cells, *reversed(cells)]:
        together = outcome(lambda one: make(one).settings, values)
        assert together == outcome(lambda one: alone(sweep, one), values)
    assert (sweep.raw, cells) == before, "what the file says is not changed by making cells of it"


GMI, RLB = {"kind": "gmi", "gan": {"batch_size": 8}}, {"kind": "rlb_mi"}
OWN = {**RLB, "generator": "general_gan", "gan": {"batch_size": 8}}
JUDGES = {"evaluator": tiny_sweep()["judges"]["evaluator"]}


def expanded(tmp_path, attacks, **changes):
    raw = tiny_sweep(judges=JUDGES, **changes)
    raw["recipe"]["image_size"] = raw["judges"]["evaluator"]["image_size"] = 32
    raw["grid"], raw["attack"] = {**raw["grid"], "attack": attacks}, attacks[0]
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump({key: value for key, value in raw.items() if value is not None}, sort_keys=False))
    return expand(load_sweep(path))


@pytest.mark.parametrize(
    ("attacks", "changes"),
    [
        ([GMI], {"prior": None}),
        ([GMI, OWN], {"prior": None}),
        ([PPA, GMI], {}),
        ([OWN, RLB], {}),
        ([PPA, GMI], {"prior": {"kind": "shipped"}}),  # the public images are GMI's
        ([PPA], {"prior": {"kind": "shipped"}, "public": None}),
    ],
    ids=str,
)
def test_what_one_attack_of_the_sweep_reads_is_taken(tmp_path, attacks, changes):
    assert len(expanded(tmp_path, attacks, **changes)) == 2 * len(attacks)


@pytest.mark.parametrize(("verify", "taken"), [(None, True), (True, True), (False, False)])
def test_verification_reads_the_public_images_whatever_the_prior(tmp_path, verify, taken):
    """They are its strangers, also where the prior is fitted already."""
    raw = tiny_sweep(judges={"embedder": {"name": "synthetic", "verify": verify}}, prior={"kind": "shipped"})
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump(raw, sort_keys=False))
    if taken:
        assert expand(load_sweep(path))
    else:
        with pytest.raises(InputError, match="public: expected none, since a shipped prior is already fitted"):
            expand(load_sweep(path))


@pytest.mark.parametrize("kind", ATTACKS)
def test_every_attack_decodes_by_what_it_reads(kind):
    """What is read includes whatever parts are made of, so that no prior is missed and none asked for in vain."""
    attack = make_attack(kind, **needed(kind))
    decoders = {decoder for _, _, decoder, _ in example(kind).DECLARED.values()}
    assert attack.decoder in decoders and set(attack.needs) <= attack.reads
    if attack.leaves_images:
        return  # which may come of no latents at all
    assert attack.decoder in attack.reads and ("prior" in attack.reads) == (attack.decoder == "prior")


def test_imagenette_has_ten_classes_whether_the_file_says_so_or_not():
    with pytest.raises(InputError, match=r"recipe\.poison\.target: expected a class below 10, got 10"):
        load_sweep(Path("table12"), ["recipe.poison={kind: badnets, target: 10}", "grid={}", "baseline={}"])


def test_a_clean_target_is_shared_with_sweeps_that_know_of_no_poison():
    """The key's being there changes no fingerprint of what was trained before."""
    targets = []
    for poison in (None, {"kind": "badnets"}, {"kind": "badnets", "seed": 1}):
        given = tiny_sweep(attack=None, judges={}, prior=None, public=None, grid={}, baseline={})
        given["recipe"] |= {"poison": poison} if poison else {}
        (cell,) = expand(LoadedSweep(sweep=check(given, "s"), raw=given, intro="", source="s"))
        targets += [stage for stage in Trial(cell=cell, seed=1).stages if stage.name == "target"]
    assert "poison" not in targets[0].config and "poison" not in targets[1].config
    assert len({target.fingerprint for target in targets}) == 3
