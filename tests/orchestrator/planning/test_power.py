"""What `plan` says of power, on the terminal and as JSON, and what it refuses."""

import json
import math

import numpy as np
import pytest
from tiny import write_tiny

from smoothsweep.core.metrics.power import QUICKSTART, Components, Design, planned
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.planning.proposals import trials_of
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.load import load_sweep
from tests.judged_trials import finish

GRID = {"recipe.defense.alpha": [0.0, -0.1, -0.2], "attack.steps": [3, 5]}
JUDGES = {"embedder": {"name": "synthetic"}}
DATA = {"kind": "synthetic", "identities": 60, "train_per_class": 8, "test_per_class": 4, "size": 32}


def sweep(tmp_path, **changes):
    usual = {"seeds": [1, 2, 3], "grid": GRID, "judges": JUDGES, "data": DATA, "classes": list(range(24))}
    return write_tiny(tmp_path, **{**usual, **changes})


def plan(tmp_path, capsys, *more, **changes):
    assert main(["plan", str(sweep(tmp_path, **changes)), "--store", str(tmp_path / "store"), *more]) == 0
    return capsys.readouterr().out


def test_the_size_of_the_sweep_is_what_its_comparisons_count(tmp_path, capsys):
    """Three recipes, two attacks and a control that is none, three seeds, 24 of 60 classes, two images of each."""
    attacks = [{"pool": {"size": 20}, "candidates": 4, "selected": 2, "steps": steps} for steps in (3, 5)]
    grid = {**GRID, "attack": [*attacks, {"kind": "random_latents", "selected": 2}]}
    del grid["attack.steps"]
    power = json.loads(plan(tmp_path, capsys, "--json", grid=grid))["power"]
    size = {key: power[key] for key in ("seeds", "classes", "recipes", "attacks", "images", "classes_available")}
    assert size == {"seeds": 3, "classes": 24, "recipes": 3, "attacks": 2, "images": 2, "classes_available": 60}
    expected = planned(QUICKSTART, Design(seeds=3, classes=24, recipes=3, attacks=2, images=2))
    assert (power["tells"], power["half_width"]) == (expected.tells, expected.half)
    assert power["components"]["trials"] == 0 and power["leak"] == "embedder_acc1"


def test_the_terminal_says_what_can_be_told_and_where_that_is_from(tmp_path, capsys):
    tells = planned(QUICKSTART, Design(seeds=3, classes=24, recipes=3, attacks=2, images=2)).tells
    text = plan(tmp_path, capsys)
    assert (
        f"with 3 seeds and 24 classes this sweep can detect differences of {math.ceil(100 * tells)} points or more"
        in text
    )
    assert "as in the quickstart: no finished trials" in text and "for 10 points: " in text


def test_what_a_difference_needs_is_answered(tmp_path, capsys):
    """`plan --tell` with the cheapest size, by the same function that a simulation confirms."""
    told = json.loads(plan(tmp_path, capsys, "--tell", "12.5", "--json"))["power"]["to_tell"]
    assert told["difference"] == 0.125
    size = {key: told["sweep"][key] for key in ("seeds", "classes", "images")}
    assert planned(QUICKSTART, Design(recipes=3, attacks=2, **size)).tells <= 0.125
    assert size["classes"] <= 60
    assert "for 12.5 points: " in plan(tmp_path, capsys, "--tell", "12.5")


def test_the_history_of_the_store_takes_the_place_of_the_defaults(tmp_path, capsys):
    store, generator = Store(root=tmp_path / "store"), np.random.default_rng(0)
    trials = trials_of(load_sweep(sweep(tmp_path)), store)
    finish(store, trials, lambda trial: generator.integers(0, 3, 24) / 2)
    text = plan(tmp_path, capsys)
    power = json.loads(plan(tmp_path, capsys, "--json"))["power"]
    assert power["components"]["trials"] == 18 and "spreads from 18 trials of this store)" in text
    found = Components(**{key: power["components"][key] for key in ("seed", "person", "cell", "image")})
    assert power["tells"] == planned(found, Design(seeds=3, classes=24, recipes=3, attacks=2, images=2)).tells
    assert found != QUICKSTART


@pytest.mark.parametrize("tell", ["0", "-3", "nan", "inf", "101", "ten", ""])
def test_a_difference_that_is_none_is_refused(tell, tmp_path, capsys):
    assert main(["plan", str(sweep(tmp_path)), f"--tell={tell}", "--store", str(tmp_path / "store")]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line == f"smoothsweep: --tell: expected percentage points above 0 and at most 100, got '{tell}'"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seeds": [1]}, "expected a sweep of at least 2 seeds, got 1"),
        ({"classes": [3]}, "expected a sweep of at least 2 classes, got 1"),
        ({"grid": {"attack.steps": [3, 5]}, "baseline": {}}, "expected a sweep of at least 2 recipes, got 1"),
        ({"judges": {}}, "no judge counts hits by class"),
        (
            {
                "attack": None,
                "prior": None,
                "public": None,
                "judges": {},
                "classes": "all",
                "grid": {"recipe.defense.alpha": [0.0, -0.1]},
            },
            "no attack is compared",
        ),
    ],
)
def test_a_sweep_that_can_tell_nothing_says_so_and_refuses_the_question(changes, words, tmp_path, capsys):
    text = plan(tmp_path, capsys, **changes)
    assert (f"this sweep can detect no difference between recipes: {words}" in text) == ("no attack" not in words)
    assert main(["plan", str(sweep(tmp_path, **changes)), "--tell", "10", "--store", str(tmp_path / "store")]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line == f"smoothsweep: --tell 10: {words}"


def test_looks_are_counted_with_all_seeds_that_they_may_add(tmp_path, capsys):
    """The plan lists the trials of the first look; the last one has seven seeds of the same three recipes."""
    looks = {"seeds": {"looks": [2, 4, 7], "first": 0, "alpha": 0.05}, "baseline": {"recipe.defense.alpha": 0.0}}
    power = json.loads(plan(tmp_path, capsys, "--json", **looks))["power"]
    assert {key: power[key] for key in ("seeds", "recipes", "attacks")} == {"seeds": 7, "recipes": 3, "attacks": 2}
    expected = planned(QUICKSTART, Design(seeds=7, classes=24, recipes=3, attacks=2, images=2))
    assert power["tells"] == expected.tells
