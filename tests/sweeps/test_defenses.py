"""The defense of a sweep file: its keys are those of the core, its mistakes one line each."""

import dataclasses
import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from smoothsweep.core.defenses.registry import DEFENSES, make_defense
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.sweeps.expand import expand
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.training import OtherDefense, Recipe, defense_model
from smoothsweep.tasks.registry import TASKS
from tests.core.defenses.examples import example, told

EXAMPLES = {name: told(name, "IN_A_FILE", example(name).EXAMPLE) for name in DEFENSES}
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


SHIELDED = {"kind": "ssd", "eps": 0.5}


@pytest.mark.parametrize("kind", ["cma_es", "surrogate_labels"])
def test_attacks_by_answers_meet_altered_ones(tmp_path, kind):
    (trial,) = trials_of(load_sweep(write(tmp_path, SHIELDED, attack={"kind": kind})))
    assert trial.stages[1].config["defense"]["parameters"]["draws"] == "by_image"


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
    ("sweep", "digest"), [("quickstart", "40fba8531317fd3a"), ("defenses_small", "7ed9cf7f2a3fc362")]
)
def test_stages_keep_their_fingerprints(repository, monkeypatch, sweep, digest):
    """Of stores that people have filled: a new optional key must not make them start again. Versions may."""
    for name, task in TASKS.items():
        monkeypatch.setitem(TASKS, name, replace(task, version=1))
    ids = "".join(trial.id for trial in trials_of(load_sweep(repository / "sweeps" / f"{sweep}.yaml")))
    assert hashlib.sha256(ids.encode()).hexdigest()[:16] == digest


def test_a_way_back_is_another_recipe_and_a_null_is_none(tmp_path):
    def under(schedule):
        return trials_of(load_sweep(write(tmp_path, {"alpha": -0.2, "schedule": schedule}, grid={}, baseline={})))[0]

    first, null = under({"kind": "ramp"}), under({"kind": "ramp", "back": None})
    back = under({"kind": "ramp", "back": 0.9})
    assert first.id == null.id != back.id
    assert back.stages[1].config["defense"]["schedule"] == {"kind": "ramp", "start": 0.5, "end": 0.75, "back": 0.9}
