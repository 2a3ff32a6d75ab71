"""A run is at its end when its plan is: what nothing ran is named, and the exit code says so."""

from __future__ import annotations

import hashlib

import pytest
import yaml
from tiny import tiny_sweep, write_tiny

from smoothsweep.orchestrator.commands import run as door
from smoothsweep.orchestrator.planning.proposals import trials_of
from smoothsweep.orchestrator.planning.trial import run_trial
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.tasks.registry import TASKS, Task

EVERYTHING = {
    **tiny_sweep()["judges"],
    "features": {"classes": 2, "perplexity": 2},
    "robustness": {},
    "membership": {"shadows": 4},
    "gradients": {},
}


@pytest.mark.parametrize("judges", [{}, tiny_sweep()["judges"], EVERYTHING])
def test_what_a_trial_declares_is_what_is_run_once_each_and_inputs_first(judges, tmp_path):
    [trial] = trials_of(load_sweep(write_tiny(tmp_path, judges=judges, grid={}, baseline={})))
    ran: list[Stage] = []
    run_trial(trial, ran.append)
    assert len({stage.fingerprint for stage in ran}) == len(ran)
    assert {stage.fingerprint for stage in ran} == {stage.fingerprint for stage in trial.stages}
    place = {stage.fingerprint: number for number, stage in enumerate(ran)}
    for stage in ran:
        assert all(place.get(source.fingerprint, -1) < place[stage.fingerprint] for source in stage.inputs.values())


def quick_toy(config, inputs, out, context):
    """Stands for the toy's training, of which nothing is asked here but that it ran."""
    (out / "ran.txt").write_text(str(config["alpha"]))
    return {"steps": 1.0}


class NoMlflow:
    """Stands for the recorder, which costs ten seconds and has no part in this."""

    unwritten, remarks, tracker = {}, [], None

    def __getattr__(self, name):
        return lambda *_, **__: None


def run_some(folder, monkeypatch, capsys, *, runs):
    """The whole door, with trials that make only the stages that `runs` says and report success all the same."""
    grid = {"alpha": [-0.5, -0.25, 0.25]}
    path = folder / "toy.yaml"
    path.write_text("# Toy.\n" + yaml.safe_dump({"name": "toys", "experiment": "toy", "alpha": 0.0, "grid": grid}))

    def phases(run, loaded, trials, agenda, place):
        run.add_trials(trials)
        for number, trial in enumerate(trials):
            if runs(number):
                run_trial(trial, lambda stage: execute_with_inputs(run.store, stage))
            run.trial_done(trial, None)

    monkeypatch.setattr(door, "_run_phases", phases)
    monkeypatch.setattr(door, "open_recorder", lambda *_, **__: NoMlflow())
    monkeypatch.setattr(door, "_report", lambda *_, **__: folder / "report.html")
    monkeypatch.setitem(TASKS, "toy", Task(version=1, run=f"{__name__}:quick_toy", on_device=False))
    code = door.run_and_report(path, [], str(folder / "store"), None, None, None)
    return code, capsys.readouterr().err


def test_a_planned_stage_that_nothing_ran_is_named_and_the_run_is_not_done(tmp_path, monkeypatch, capsys):
    code, said = run_some(tmp_path, monkeypatch, capsys, runs=lambda number: number != 1)
    trials = trials_of(load_sweep(tmp_path / "toy.yaml"))
    never = trials[1].stages[0]
    assert code == 1 and "2/3 trials" in said
    assert f"the plan is unfinished: nothing ran {never.label}" in said
    assert not any(trial.stages[0].label in said for trial in (trials[0], trials[2]))


def test_a_run_whose_plan_is_finished_says_nothing_of_it(tmp_path, monkeypatch, capsys):
    code, said = run_some(tmp_path, monkeypatch, capsys, runs=lambda number: True)
    assert code == 0 and "3/3 trials" in said and "unfinished" not in said


def test_ids_of_trials_are_those_of_the_declared_order(tmp_path):
    """Kept from before stages were run in an order of their own: an id stands in every MLflow run."""
    [trial] = trials_of(load_sweep(write_tiny(tmp_path, judges=EVERYTHING, grid={}, baseline={})))
    names = [stage.name for stage in trial.stages]
    assert names == [
        "data",
        "target",
        "attack",
        "loot",
        "judge_evaluator",
        "judge_embedder",
        "knowledge",
        "judge_features",
        "judge_robustness",
        "judge_membership",
        "judge_gradients",
    ]
    joined = " ".join(stage.fingerprint for stage in trial.stages)
    assert trial.id == hashlib.sha256(joined.encode()).hexdigest()[:12]
