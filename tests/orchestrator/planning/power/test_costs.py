"""What seeds and classes cost, by hand: a training took 10 seconds, an attack 30, everything else one."""

from dataclasses import replace

import pytest
import yaml
from tiny import searchable, write_tiny

from smoothsweep.core.judges.columns import BY_KEY
from smoothsweep.core.metrics.power import Design
from smoothsweep.orchestrator.planning.plan import history_of, make_plan
from smoothsweep.orchestrator.planning.power.costs import costs_of
from smoothsweep.orchestrator.planning.power.sizes import Size
from smoothsweep.orchestrator.planning.proposals import ProposalLog
from smoothsweep.orchestrator.planning.trials import trials_of
from smoothsweep.orchestrator.search.forecast import forecast_of
from smoothsweep.orchestrator.store.local import LocalStore
from smoothsweep.sweeps.load import load_sweep
from tests.judged_trials import finish

NOW = Design(seeds=2, classes=4, recipes=3, attacks=2, images=2)
SIZE = Size(design=NOW, trained=8, available=8, leak=BY_KEY["embedder_acc1"])
JUDGES = {"embedder": {"name": "synthetic"}}


@pytest.fixture
def store(tmp_path):
    return LocalStore(root=tmp_path / "store")


def test_a_training_is_paid_once_per_recipe_and_seed_and_attacks_by_class(tmp_path, store):
    """Shared: data, public, prior, pool and embeddings. A seed: three trainings and the three candidates stages that
    come before the attacks; six attacks with reconstructions and judge each."""
    grid = {"recipe.defense.alpha": [0.0, -0.1, -0.2], "attack.steps": [3, 5]}
    loaded = load_sweep(write_tiny(tmp_path, seeds=[1, 2], grid=grid, judges=JUDGES))
    trials = trials_of(loaded, store)
    finish(store, trials, lambda trial: [0.5] * 4)
    plan = make_plan(trials, store)
    found = costs_of(plan, SIZE, history_of(plan, store), lambda stage: 1.0)
    assert (found.fixed, found.of_seed, found.of_classes) == (5.0, 3 * (10.0 + 1.0), 6 * (30.0 + 1.0 + 1.0))
    assert not found.guessed
    assert found.seconds(NOW) == 12 * 32.0 + 2 * 33.0 + 5.0
    assert found.seconds(replace(NOW, seeds=5, classes=6)) == 5.0 + 5 * (33.0 + 1.5 * 192.0)
    assert found.seconds(replace(NOW, classes=8, images=1)) == found.seconds(NOW)
    assert found.seconds(replace(NOW, classes=16)) == 5.0 + 2 * (2 * 33.0 + 4 * 192.0), "targets know 8 classes"
    assert found.times(replace(NOW, seeds=4)) == (5.0 + 4 * 225.0) / (5.0 + 2 * 225.0)


def test_a_stage_without_a_rate_leaves_the_costs_unknown(tmp_path, store):
    sweep = write_tiny(
        tmp_path,
        seeds=[1, 2],
        judges={**JUDGES, "general": None},
        recipe={"architecture": "resnet18", "pretrained": False, "image_size": 32, "epochs": 1},
    )
    plan = make_plan(trials_of(load_sweep(sweep), store), store)
    assert costs_of(plan, SIZE, history_of(plan, store), lambda stage: 1.0) is None


def test_another_machines_rates_are_called_a_guess(tmp_path, store):
    loaded = load_sweep(write_tiny(tmp_path, seeds=[1, 2], judges=JUDGES))
    plan = make_plan(trials_of(loaded, store), store)
    found = costs_of(plan, SIZE, history_of(plan, store), lambda stage: 1.0)
    assert found.guessed and found.of_seed > 0 and found.of_classes > 0


def test_a_search_is_priced_by_recipes_that_it_may_propose(tmp_path, store):
    """As many trainings and attacks under every seed as recipes that it will have compared."""
    search = {
        "strategy": "random",
        "recipes": 6,
        "space": {"recipe.defense.alpha": {"low": -0.5, "high": 0.0}},
        "objectives": {"test_acc": "max", "embedder_acc1": "min"},
    }
    tree = searchable("s", search)
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump(tree))
    loaded = load_sweep(path)
    plan = make_plan(trials_of(loaded, store), store, forecast_of(ProposalLog(loaded, store)))
    assert plan.forecast is not None and not plan.trials
    of = [replace(SIZE, design=replace(NOW, recipes=many)) for many in (3, 6)]
    sizes = [costs_of(plan, size, history_of(plan, store), lambda stage: 1.0) for size in of]
    assert sizes[1].of_seed == pytest.approx(2 * sizes[0].of_seed) and sizes[1].fixed == sizes[0].fixed
    assert sizes[1].of_classes == pytest.approx(2 * sizes[0].of_classes)
