"""`smoothsweep status` inside a stage: epochs and classes, from what a killed or a living run has left in the store."""

import json

import pytest
from tiny import write_tiny

from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.commands.status import status_summary
from smoothsweep.orchestrator.planning.state import read_stage_progress
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.tasks.classes import class_name
from smoothsweep.tasks.context import TaskContext
from tests import made_artifacts as made_up

GRID = {"recipe.defense.alpha": [0.1, -0.2, 0.0, 0.2], "attack.loss": ["logit", "poincare"]}


def named_target(folder, stage, metrics):
    (folder / "names.json").write_text(json.dumps([f"person {number}" for number in range(48)]))


@pytest.fixture
def begun(tmp_path, monkeypatch):
    """A sweep of two recipes: of the first all is done but the attack and what follows, of the second not even the
    training. Returns store, trials, the attack of one and the training of the other."""
    store, loaded = Store(root=tmp_path / "store"), load_sweep(write_tiny(tmp_path))
    trials = trials_of(loaded)
    monkeypatch.setitem(made_up.FILES, "target", named_target)
    made_up.write_artifacts(trials, store)
    attack = next(stage for stage in trials[0].stages if stage.name == "attack")
    training = next(stage for stage in trials[1].stages if stage.name == "target")
    for stage in (attack, training):
        store.discard(stage)
    return store, trials, attack, training


def leave(store, attack, training):
    """What an attack that has inverted 9 of its classes and a training in its 31st epoch leave."""
    with store.working(training) as work:
        TaskContext(work=work).progress(31 / 48, "epoch 31/48")
    with store.working(attack) as work:
        TaskContext(work=work).progress(0.0, "class 9")
        (work / "classes").mkdir()
        for done in range(9):
            (work / class_name(done)).write_bytes(b"")
        (work / "classes" / ".000010.safetensors.half").write_bytes(b"")  # being written


def test_epochs_and_classes_are_told_of_what_nobody_runs_any_more(begun, tmp_path, capsys):
    store, trials, attack, training = begun
    assert read_stage_progress([attack, training], store) == {}, "nothing was begun"
    leave(store, attack, training)
    summary = status_summary("tiny", trials, store, lambda trial: (trial.label, ""))
    told = {entry["stage"]: entry["words"] for entry in summary["begun"]}
    assert told == {"target": "epoch 31 of 48", "attack": "9 of 48 classes"} and summary["running"] == []
    assert main(["status", str(tmp_path / "tiny.yaml"), "--store", str(store.root)]) == 0
    said = capsys.readouterr().out
    assert "begun, not running:" in said and "65 %  epoch 31 of 48" in said and "19 %  9 of 48 classes" in said


def test_recipes_that_lack_an_attack_are_named_with_what_they_lack(tmp_path, capsys):
    """Of four recipes and two losses, the second recipe lacks one loss under one of two seeds."""
    path = write_tiny(tmp_path, seeds=[1, 2], grid=GRID)
    store, trials = Store(root=tmp_path / "store"), trials_of(load_sweep(path))
    made_up.write_artifacts(trials, store)
    lacking = next(
        t
        for t in trials
        if t.seed == 2 and t.settings.recipe.defense.alpha == -0.2 and t.settings.attack.loss == "poincare"
    )
    store.discard(next(stage for stage in lacking.stages if stage.name == "attack"))
    assert main(["status", str(path), "--store", str(store.root)]) == 0
    said = capsys.readouterr().out
    assert "compared with no other recipe: smoothing \N{MINUS SIGN}0.2 (lacks" in said.replace("\xa0", " ")
    assert "Poincar\xe9: seed 2)." in said and said.count("lacks") == 1
    assert main(["status", str(path), "--store", str(store.root), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["incomplete"]) == 1
