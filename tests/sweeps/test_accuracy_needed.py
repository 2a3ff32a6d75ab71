"""The accuracy that a sweep asks of a recipe: a key of its own, or a constraint of its search."""

import pytest

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.load import load_sweep
from tests.tiny import write_tiny

SEARCH = {
    "strategy": "random",
    "recipes": 2,
    "space": {"recipe.defense.alpha": {"low": -0.2, "high": 0.0}},
    "objectives": {"test_acc": "max", "embedder_acc1": "min"},
}


def test_by_itself_or_by_the_search(tmp_path):
    assert load_sweep(write_tiny(tmp_path)).sweep.accuracy_needed is None
    assert load_sweep(write_tiny(tmp_path, min_test_acc=0.9)).sweep.accuracy_needed == 0.9
    search = {**SEARCH, "constraints": {"test_acc": {"at_least": 0.8}}}
    assert load_sweep(write_tiny(tmp_path, search=search, grid={}, baseline={})).sweep.accuracy_needed == 0.8


def test_a_margin_of_accuracy_changes_no_trial(tmp_path):
    plain, wide = (plan_of(tmp_path, **changes) for changes in ({}, {"accuracy_margin": 0.03}))
    assert plain == wide and len(plain) > 1
    assert load_sweep(write_tiny(tmp_path)).sweep.accuracy_margin == 0.01


def plan_of(folder, **changes):
    loaded = load_sweep(write_tiny(folder, **changes))
    trials = trials_of(loaded, open_store(str(folder / "store")))
    return [(trial.id, stage.fingerprint) for trial in trials for stage in trial.stages]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"min_test_acc": 0.9, "search": SEARCH, "grid": {}, "baseline": {}},
            r"min_test_acc: expected it among search.constraints .*got 0.9 beside a search",
        ),
        ({"accuracy_margin": float("nan")}, "accuracy_margin: expected .*, got nan"),
        ({"grid": {"accuracy_margin": [0.01]}, "baseline": {}}, "grid.accuracy_margin: expected a key that a trial"),
        ({"grid": {"tracking.models": ["all"]}, "baseline": {}}, "grid.tracking.models: expected a key that a trial"),
    ],
)
def test_mistakes_are_one_line(tmp_path, changes, message):
    from smoothsweep.sweeps.expand import expand

    with pytest.raises(InputError, match=message) as raised:
        expand(load_sweep(write_tiny(tmp_path, **changes)))
    assert "\n" not in str(raised.value)
