"""Each distinct part of a plan is checked once; every trial has the stages that it has alone."""

from tiny import write_tiny

from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.planning.plan import make_plan
from smoothsweep.orchestrator.planning.proposals import trials_of
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.load import load_sweep

GRID = {"recipe.defense.alpha": [0.0, -0.2], "recipe.lr": [0.001, 0.002]}


def test_every_fingerprint_is_the_one_of_a_trial_made_alone(tmp_path):
    """All trials planned together, in whatever order; and each made anew, with nothing remembered of another."""
    trials = trials_of(load_sweep(write_tiny(tmp_path, grid=GRID, baseline={}, seeds=[1, 2, 3])))
    make_plan(trials, Store(root=tmp_path / "store"))
    for trial in trials:
        alone = Trial(cell=trial.cell, seed=trial.seed)
        assert [(s.name, s.fingerprint) for s in alone.stages] == [(s.name, s.fingerprint) for s in trial.stages]
    assert len({trial.id for trial in trials}) == 12


def test_a_setting_that_only_one_seed_of_one_cell_has_wrong_is_found(tmp_path, capsys):
    """The check that is left out for further seeds is left out for no other cell."""
    grid = {"recipe.defense": [{"alpha": 0.0}, {"kind": "dp_sgd", "noise": 1.0}], "recipe.batch_size": [16, 33]}
    path = write_tiny(tmp_path, grid=grid, baseline={}, seeds=[1, 2])
    assert main(["plan", str(path), "--store", str(tmp_path / "store")]) == 2
    assert "a batch_size of at most the 32 images, got 33" in capsys.readouterr().err
