"""What `plan` says of power, on the terminal and as JSON, and what it refuses."""

import json
import math

import numpy as np
import pytest
from tiny import write_tiny

from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.columns import BY_KEY
from smoothsweep.core.metrics.power import QUICKSTART, Components, Design, components_of, planned
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.planning.power import measured, size_of
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.expand import expand
from smoothsweep.sweeps.load import load_sweep
from tests.judged_trials import finish
from tests.labelled_files import encoded, folders, scene

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
    text = plan(tmp_path, capsys, grid=grid)
    smallest = f"differences of {math.ceil(100 * expected.tells)} points or more"
    assert f"with 3 seeds and 24 classes this sweep can detect {smallest}" in text
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


@pytest.mark.parametrize("tell", ["0", "nan", "101", "ten"])
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


LEAK = BY_KEY["embedder_acc1"]
ALPHAS, STEPS, SEEDS, IMAGES = [0.0, -0.2, -0.5], [3, 5], [1, 2, 3], 4


def trials_in(tmp_path, **changes):
    grid = {"recipe.defense.alpha": ALPHAS, "attack.steps": STEPS}
    attack = {"pool": {"size": 20}, "candidates": 8, "selected": IMAGES}
    sweep = {"seeds": SEEDS, "grid": grid, "attack": attack, "judges": JUDGES, **changes}
    return trials_of(load_sweep(write_tiny(tmp_path, **sweep)))


@pytest.fixture
def store(tmp_path):
    return Store(root=tmp_path / "store")


@pytest.fixture
def cells():
    """[recipes, attacks, seeds, classes] of fractions of four images."""
    return np.random.default_rng(4).integers(0, IMAGES + 1, (3, 2, 3, 30)) / IMAGES


def of(cells):
    def rates(trial):
        values = trial.cell.values
        return cells[
            ALPHAS.index(values["recipe.defense.alpha"]), STEPS.index(values["attack.steps"]), SEEDS.index(trial.seed)
        ]

    return rates


def people_of(trial):
    return next(stage for stage in trial.stages if stage.name == "target").inputs["data"].fingerprint


def test_they_are_those_of_the_cells_attack_by_attack_and_too_few_trials_say_nothing(tmp_path, store, cells):
    trials = trials_in(tmp_path)
    assert measured(store, LEAK, None) is None
    # Two recipes under three seeds leave two degrees of freedom.
    finish(store, [t for t in trials if t.cell.values["recipe.defense.alpha"] != -0.5], of(cells))
    assert measured(store, LEAK, None) is None
    finish(store, [t for t in trials if t.cell.values["recipe.defense.alpha"] == -0.5], of(cells))
    found = measured(store, LEAK, people_of(trials[0]))
    assert (found.trials, found.same_data) == (18, True)
    by_attack = [components_of(cells[:, [attack]], images=IMAGES) for attack in (0, 1)]
    for name in ("seed", "person", "cell", "image"):
        squares = [getattr(one, name) ** 2 for one in by_attack]
        assert getattr(found.components, name) ** 2 == pytest.approx(np.mean(squares))
    judge = next(stage for stage in trials[0].stages if stage.name == "judge_embedder")
    (store.place(judge) / "per_class.parquet").write_bytes(b"no parquet")
    damaged = measured(Store(root=store.root), LEAK, people_of(trials[0]))
    assert damaged.trials == 15, "of the three recipes under one attack, two seeds remain: 6 and 9"


def test_trials_on_the_same_people_come_first_and_others_are_not_mixed_in(tmp_path, store, cells):
    trials = trials_in(tmp_path)
    others = trials_in(
        tmp_path, data={"kind": "synthetic", "identities": 5, "train_per_class": 8, "size": 32, "seed": 9}
    )
    finish(store, others, lambda trial: np.full(30, 0.5))
    alone = measured(store, LEAK, people_of(trials[0]))
    assert not alone.same_data and alone.components.cell == 0
    finish(store, trials, of(cells))
    both = measured(store, LEAK, people_of(trials[0]))
    assert both.same_data and both.trials == 18 and both.components.cell > 0


def size(tmp_path, **changes):
    loaded = load_sweep(write_tiny(tmp_path, **{"judges": {"embedder": {"name": "synthetic"}}, **changes}))
    return size_of(loaded, expand(loaded))


def counted(found):
    return found.design.classes, found.available


def test_classes_are_counted_without_reading_a_picture(tmp_path):
    data = {"kind": "synthetic", "identities": 9, "train_per_class": 8, "size": 32}
    assert counted(size(tmp_path, data=data)) == (9, 9)
    assert counted(size(tmp_path, data=data, classes=[1, 4])) == (2, 9)
    own = folders(tmp_path / "own", {f"{who}/{i}.png": encoded(scene(9 * who + i)) for who in range(5) for i in (0, 1)})
    data = {"kind": "labelled", "path": str(own), "size": 32}
    assert counted(size(tmp_path, data=data)) == (5, 5)
    assert counted(size(tmp_path, data={**data, "largest_classes": 3})) == (3, 5)
    data = {"kind": "labelled", "path": str(tmp_path / "none"), "size": 32}
    assert counted(size(tmp_path, data={**data, "largest_classes": 3})) == (3, 3)
    with pytest.raises(InputError, match="is not known before the data are there"):
        size(tmp_path, data=data)
    data = {"kind": "facescrub", "path": str(tmp_path), "classes": 20}
    assert counted(size(tmp_path, data=data)) == (20, 530), "as many as the paper says"
