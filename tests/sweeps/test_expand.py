"""The cells of a sweep: listed ones beside the grid, whole attacks as values of it, columns; which priors and public"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from smoothsweep.core.attacks.registry import ATTACKS, make_attack
from smoothsweep.core.defenses.registry import DEFENSES, make_defense
from smoothsweep.core.errors import AccuracyNotReached, InputError
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.result.rows import recipe_fields
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.orchestrator.stages.graph import attack_stage, target_stage
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.expand import axis_keys, check, expand, values_text
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.training import OtherDefense, OtherTrial, Recipe, defense_model
from smoothsweep.tasks.registry import TASKS
from tests.core.attacks.examples import example, needed
from tests.core.defenses.examples import example as defense_example
from tests.core.defenses.examples import told
from tests.tiny import tiny_sweep, write_tiny

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


EXAMPLES = {name: told(name, "IN_A_FILE", defense_example(name).EXAMPLE) for name in DEFENSES}
OTHERS = sorted(set(DEFENSES) - {"label_smoothing"})
SMALL = {"architecture": "resnet_small", "pretrained": False, "image_size": 32, "batch_size": 16}


def recipe(defense, **changes):
    return Recipe(**{**SMALL, **changes}, defense=defense)


def write(folder: Path, defense, **changes) -> Path:
    path = folder / "sweep.yaml"
    sweep = {
        "name": "t",
        "seeds": [1],
        "data": {"kind": "synthetic", "identities": 4},
        "public": {"kind": "synthetic", "identities": 50},
        "recipe": {**SMALL, "defense": defense},
        "prior": {"kind": "eigenfaces", "components": 8},
        "attack": {"pool": {"size": 20}, "candidates": 4, "selected": 2},
        **changes,
    }
    path.write_text("# What it shows.\n" + yaml.safe_dump(sweep, sort_keys=False))
    return path


@pytest.mark.parametrize("name", OTHERS)
def test_the_keys_and_defaults_are_the_fields_of_the_core(name):
    model, known = defense_model(name), {field.name: field for field in dataclasses.fields(DEFENSES[name])}
    assert set(model.model_fields) == {"kind", "smoothing", *known}
    assert not {"kind", "smoothing"} & set(known) and not set(known) & set(dir(OtherDefense))
    for key, field in known.items():
        needed = field.default is dataclasses.MISSING
        assert model.model_fields[key].is_required() == needed
        assert needed or model.model_fields[key].default == field.default


@pytest.mark.parametrize("name", OTHERS)
def test_what_a_worker_gets_makes_the_defense_and_its_smoothing(name):
    given = {"kind": name, **EXAMPLES[name], "smoothing": {"alpha": -0.05}}
    resolved = recipe(given).defense.resolved("clean")
    assert make_defense(resolved["kind"], **resolved["parameters"]) == make_defense(name, **EXAMPLES[name])
    assert (resolved["alpha"], resolved["schedule"]["kind"]) == (-0.05, "ramp")
    assert recipe(given).defense.resolved("paper")["schedule"]["kind"] == "reference"
    plainly = recipe({"kind": name, **EXAMPLES[name]}).defense
    assert plainly.resolved("clean")["alpha"] == 0.0 == plainly.final_alpha
    assert None not in resolved["parameters"].values()


@pytest.mark.parametrize("name", OTHERS)
def test_only_a_defense_whose_numbers_changed_has_a_revision_in_its_fingerprint(name, tmp_path):
    """The others keep the configuration, and so the fingerprint, they had."""
    given = {"kind": name, **EXAMPLES[name]}
    found = recipe(given).defense.resolved("clean")
    beyond = {"revision"} if DEFENSES[name].revision > 1 else set()
    assert set(found) - {"kind", "parameters", "alpha", "schedule"} == beyond
    assert found.get("revision", 1) == DEFENSES[name].revision


def test_defenses_are_axes_of_a_grid_and_stages_of_their_own(tmp_path):
    grid = {"recipe.defense": [{"alpha": 0.0}, {"kind": "mid", "beta": 0.01}, {"kind": "mid", "beta": 0.1}]}
    loaded = load_sweep(write(tmp_path, {"alpha": 0.0}, grid=grid, baseline={"recipe.defense": {"alpha": 0.0}}))
    cells = expand(loaded)
    assert [cell.is_baseline for cell in cells] == [True, False, False]
    assert cells[1].axes == {"defense": "kind=mid beta=0.01"}
    targets = [trial.stages[1] for trial in trials_of(loaded)]
    assert len({target.fingerprint for target in targets}) == 3
    assert targets[2].config["defense"] == {
        "kind": "mid",
        "parameters": {"beta": 0.1, "beta_warmup": 0.0},
        "alpha": 0.0,
        "schedule": {"kind": "constant"},
    }
    strengths = write(tmp_path, {"kind": "mid", "beta": 0.1}, grid={"recipe.defense.beta": [0.01, 0.1]})
    assert [t.stages[1].fingerprint for t in trials_of(load_sweep(strengths))] == [t.fingerprint for t in targets[1:]]


@pytest.mark.parametrize(
    ("sweep", "digest"), [("quickstart", "35c08e6095c42f3a"), ("defenses_small", "7ed9cf7f2a3fc362")]
)
def test_stages_keep_their_fingerprints(repository, monkeypatch, sweep, digest):
    """Of stores that people have filled: a new optional key must not make them start again. Versions may."""
    for name, task in TASKS.items():
        monkeypatch.setitem(TASKS, name, replace(task, version=1))
    ids = "".join(trial.id for trial in trials_of(load_sweep(repository / "sweeps" / f"{sweep}.yaml")))
    assert hashlib.sha256(ids.encode()).hexdigest()[:16] == digest


OTHER = {"trial": {"recipe.defense.alpha": -0.2}}


def stopped(tmp_path, goal, **changes):
    raw = tiny_sweep(**changes)
    raw["recipe"]["stop_at_test_acc"] = goal
    path = tmp_path / "stop.yaml"
    path.write_text(yaml.safe_dump(raw, sort_keys=False))
    return expand(load_sweep(path))


def test_another_trials_target_is_an_input_of_the_training(tmp_path):
    plain, negative = stopped(tmp_path, OTHER)
    stage = target_stage(plain.settings, 7)
    reference = stage.inputs["reference"]
    assert reference.config["defense"]["alpha"] == -0.2 and reference.config["seed"] == 7
    assert "stop_at_test_acc" not in stage.config and "reference" not in reference.inputs
    unstopped = expand(load_sweep(tmp_path / "stop.yaml", ["recipe.stop_at_test_acc=null"]))
    assert reference == target_stage(unstopped[1].settings, 7)  # the very trial of a sweep without the rule
    assert stage != target_stage(unstopped[0].settings, 7)
    assert isinstance(negative.settings.recipe.stop_at_test_acc, OtherTrial)


def test_the_training_ends_with_the_epoch_that_reaches_the_other_trials_accuracy(tmp_path):
    store = open_store(str(tmp_path / "store"))
    store.open_for_writing()
    stage = target_stage(stopped(tmp_path, OTHER)[0].settings, 1)
    execute_with_inputs(store, stage.inputs["reference"])
    goal = store.manifest(stage.inputs["reference"])["metrics"]["test_acc"]
    execute_with_inputs(store, stage)
    history = pd.read_parquet(store.path(stage) / "history.parquet")
    reached = (history["test_acc"] >= goal).tolist()
    assert reached == [False] * (len(reached) - 1) + [True] and len(reached) <= 2
    assert store.manifest(stage)["metrics"]["epochs_trained"] == len(reached)


def test_an_accuracy_that_is_never_reached_ends_the_training_with_that_cause(tmp_path):
    store = open_store(str(tmp_path / "store"))
    store.open_for_writing()
    stage = target_stage(stopped(tmp_path, 1.0)[0].settings, 1)
    with pytest.raises(AccuracyNotReached, match=r"1\.0|100"):
        execute_with_inputs(store, stage)
    assert not store.has(stage)


NEGATIVE = {"trial": {"recipe.defense.alpha": -0.2}}


def cells(tmp_path, attack=None, **changes):
    raw = tiny_sweep(**changes)
    attack = attack or {}
    raw["attack"] = attack if "kind" in attack else raw["attack"] | attack
    path = tmp_path / "swap.yaml"
    path.write_text(yaml.safe_dump(raw, sort_keys=False))
    return [cell.settings for cell in expand(load_sweep(path))]


def attacked_of_other_trials(settings):
    return attack_stage(settings, 1, target_stage(settings, 1))


def test_the_sampling_target_scores_the_pool_and_nothing_else(tmp_path):
    plain, negative = (attacked_of_other_trials(one) for one in cells(tmp_path))
    swapped = attacked_of_other_trials(cells(tmp_path, {"sampling_target": NEGATIVE})[0])
    assert swapped.inputs["candidates"] == negative.inputs["candidates"] != plain.inputs["candidates"]
    assert swapped.inputs["target"] == plain.inputs["target"] and set(swapped.inputs) == set(plain.inputs)
    assert swapped.config == plain.config and swapped != plain


def test_the_selection_target_is_an_input_of_the_attack(tmp_path):
    plain, negative = (attacked_of_other_trials(one) for one in cells(tmp_path))
    swapped = attacked_of_other_trials(cells(tmp_path, {"selection_target": NEGATIVE})[0])
    assert swapped.inputs["selection_target"] == negative.inputs["target"]
    assert {k: v for k, v in swapped.inputs.items() if k != "selection_target"} == dict(plain.inputs)
