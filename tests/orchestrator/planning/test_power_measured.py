"""Components from finished trials: the same as from the cells that the trials are made of, and never a mixture."""

import numpy as np
import pytest
from tiny import write_tiny

from smoothsweep.core.judges.columns import BY_KEY
from smoothsweep.core.metrics.power import components_of
from smoothsweep.orchestrator.planning.power import block, measured
from smoothsweep.orchestrator.planning.proposals import trials_of
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.load import load_sweep
from tests.judged_trials import finish

LEAK = BY_KEY["embedder_acc1"]
ALPHAS, STEPS, SEEDS, IMAGES = [0.0, -0.2, -0.5], [3, 5], [1, 2, 3], 4
JUDGES = {"embedder": {"name": "synthetic"}}


def planned(tmp_path, **changes):
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


def test_they_are_those_of_the_cells_attack_by_attack(tmp_path, store, cells):
    trials = planned(tmp_path)
    finish(store, trials, of(cells))
    found = measured(store, LEAK, people_of(trials[0]))
    assert (found.trials, found.same_data) == (18, True)
    by_attack = [components_of(cells[:, [attack]], images=IMAGES) for attack in (0, 1)]
    for name in ("seed", "person", "cell", "image"):
        squares = [getattr(one, name) ** 2 for one in by_attack]
        assert getattr(found.components, name) ** 2 == pytest.approx(np.mean(squares))


def test_too_few_trials_say_nothing(tmp_path, store, cells):
    """Two recipes under three seeds leave two degrees of freedom."""
    finish(store, [t for t in planned(tmp_path) if t.cell.values["recipe.defense.alpha"] != -0.5], of(cells))
    assert measured(store, LEAK, None) is None
    assert measured(Store(root=tmp_path / "none"), LEAK, None) is None


def test_trials_on_the_same_people_come_first_and_others_are_not_mixed_in(tmp_path, store, cells):
    trials = planned(tmp_path)
    others = planned(tmp_path, data={"kind": "synthetic", "identities": 5, "train_per_class": 8, "size": 32, "seed": 9})
    finish(store, others, lambda trial: np.full(30, 0.5))
    alone = measured(store, LEAK, people_of(trials[0]))
    assert not alone.same_data and alone.components.cell == 0
    finish(store, trials, of(cells))
    both = measured(store, LEAK, people_of(trials[0]))
    assert both.same_data and both.trials == 18 and both.components.cell > 0


def test_a_damaged_trial_is_left_out(tmp_path, store, cells, capsys):
    trials = planned(tmp_path)
    finish(store, trials, of(cells))
    judge = next(stage for stage in trials[0].stages if stage.name == "judge_embedder")
    (store.place(judge) / "per_class.parquet").write_bytes(b"no parquet")
    found = measured(store, LEAK, people_of(trials[0]))
    assert found.trials == 15, "of the three recipes under one attack, two seeds remain: 6 and 9"


def test_the_largest_block_of_recipes_and_seeds_is_taken():
    """Three recipes share two seeds and two recipes share four: 2 and 3 degrees of freedom."""
    rates = {"a": 0.1, "b": 0.2, "c": 0.3}
    met = {
        "x": dict.fromkeys((1, 2, 3, 4), rates),
        "y": {seed: {**rates, "d": 1.0} for seed in (1, 2, 3, 4)},
        "z": dict.fromkeys((1, 2), rates),
    }
    found = block(met)
    assert found.shape == (2, 1, 4, 3) and found[0, 0, 0].tolist() == [0.1, 0.2, 0.3]
    assert block({"x": {1: rates}, "y": {1: rates}}) is None, "one seed"
    assert block({"x": {1: rates, 2: rates}, "y": {1: {"z": 1.0}, 2: {"z": 1.0}}}) is None, "no class in common"
    assert block({}) is None
