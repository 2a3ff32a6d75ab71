"""What `status`, `lineage`, `diff` and `run --only-judges` say of a store that a run has left."""

import json
import shutil
from pathlib import Path

import pytest

from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.commands.status import status_summary
from smoothsweep.orchestrator.planning.state import read_stage_progress
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.stages.stage import with_ancestors
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.tasks.classes import class_name
from smoothsweep.tasks.context import TaskContext
from tests import made_stores as made_up
from tests.made_stores import recorded
from tests.tiny import write_tiny


def lineage(store, name, *more):
    return main(["lineage", str(name), "--store", str(store.root), *more])


def stage_of(trial, kind):
    return next(stage for stage in trial.stages if stage.name == kind)


ENDS = {  # what is named -> (its name, what it is called, the stages that it is or shows)
    "a trial": lambda trials, store, folder: (trials[0].id, f"trial {trials[0].id} of tiny", trials[0].stages),
    "a number": lambda trials, store, folder: (
        "tiny:smoothing -0.2",
        f"embedder_acc1 {store.metrics(stage_of(trials[1], 'judge_embedder'))['embedder_acc1']:.6g} of trial ",
        [stage_of(trials[1], "judge_embedder")],
    ),
    "a file": lambda trials, store, folder: (
        store.place(stage_of(trials[0], "target")) / "what.txt",
        f"what.txt of {stage_of(trials[0], 'target').label}",
        [stage_of(trials[0], "target")],
    ),
}


@pytest.mark.parametrize("what", ENDS)
def test_what_is_named_leads_to_every_stage_it_was_made_of_inputs_first_and_to_no_other(made, tmp_path, capsys, what):
    name, title, stages = ENDS[what](*made, tmp_path)
    more = ["--number", "embedder_acc1"] if what == "a number" else []
    assert lineage(made[1], name, *more, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    everything, seen = with_ancestors(list(stages)), set()
    assert told["of"].startswith(title)
    assert {row["fingerprint"] for row in told["stages"]} == {stage.fingerprint for stage in everything}
    for row in told["stages"]:
        assert set(row["inputs"].values()) <= seen
        seen.add(row["fingerprint"])
        manifest = json.loads(Path(row["manifest"]).read_text())
        assert (row["version"], row["config"]) == (manifest["version"], manifest["config"])
    assert lineage(made[1], name, *more) == 0
    shown = capsys.readouterr().out
    assert all(f"\n{stage.label}: version " in shown for stage in everything) and "2023-11-14 22:13 UTC" in shown


@pytest.mark.parametrize("harm", ["gone", "damaged"])
def test_a_manifest_that_is_gone_or_damaged_is_told_and_the_rest_stays(made, tmp_path, capsys, harm):
    trials, store = made
    other = Store(root=shutil.copytree(store.root, tmp_path / "store"))
    manifest = other.place(stage_of(trials[0], "target")) / "manifest.json"
    manifest.write_text(manifest.read_text().replace("1a2b3c", "4d5e6f")) if harm == "damaged" else manifest.unlink()
    assert lineage(other, trials[0].id) == 1
    shown = capsys.readouterr().out
    why = "no manifest in the store" if harm == "gone" else "its manifest was changed after it was written"
    assert f"{stage_of(trials[0], 'target').label}: {why}" in shown
    assert stage_of(trials[0], "judge_embedder").label in shown


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["lineage", "tiny"], "expected one trial, by its id or the name that `status` has, got tiny with 2"),
        (["lineage", "tiny:plain training", "--number", "embeder_acc1"], "did you mean 'embedder_acc1'?"),
        (["lineage", "tiny:plain training", "--number", "fid"], "--number fid: expected one that the trial measures"),
        (["lineage", "sweeps/none.parquet"], "sweeps/none.parquet: expected a trial, or a file of an artifact in "),
        (["diff", "tinny", "tiny"], "got 'tinny'; did you mean 'tiny'?"),
        (["diff", "tiny:alpha=0", "tiny"], "(plain training; smoothing -0.2) or of a trial, as `status` has it, got"),
        (["diff", "tiny:plane training", "tiny"], "did you mean 'plain training'?"),
        (["diff", "ffffffffffff", "tiny"], "or a trial's id, got 'ffffffffffff'"),
        (["diff", "\x1b[31mred", "tiny"], "got '\\x1b[31mred'"),
    ],
)
def test_what_names_nothing_is_one_line(made, capsys, arguments, line):
    _, store = made
    assert main([*arguments, "--store", str(store.root)]) == 2
    said = capsys.readouterr().err
    assert line in said and said.count("\n") == 1


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """A sweep of two recipes under two seeds."""
    return recorded(tmp_path_factory.mktemp("diff"), seeds=[1, 2])


def diff(store, a, b, *more):
    return main(["diff", a, b, "--store", str(store.root), *more])


def told(capsys, store, a, b, *more):
    assert diff(store, a, b, "--json", *more) == 0
    return json.loads(capsys.readouterr().out)


def test_two_recipes_differ_in_what_was_swept_and_in_nothing_before_it(pairs, capsys):
    trials, store = pairs
    found = told(capsys, store, trials[0].id, trials[1].id)
    changes = [change for change, _ in found["changes"]]
    assert {change["stage"] for change in changes} == {"target"}
    assert {(c["key"], c["a"], c["b"]) for c in changes} >= {("defense.alpha", 0.0, -0.2)}
    assert all(change["key"].startswith("defense.") for change in changes)
    assert {"data", "prior", "target (evaluator)"} <= set(found["same"])
    assert not {"target", "attack", "loot", "judge_embedder"} & set(found["same"])
    numbers = {number["key"]: number for number in found["numbers"]}
    stages = {stage.name: (stage, other) for stage, other in zip(trials[0].stages, trials[1].stages, strict=True)}
    for kind, key in (("target", "test_acc"), ("judge_embedder", "embedder_acc1")):
        a, b = (store.metrics(stage)[key] for stage in stages[kind])
        assert (numbers[key]["stage"], numbers[key]["a"], numbers[key]["b"]) == (kind, a, b)


def test_recipes_are_compared_seed_by_seed(pairs, capsys):
    trials, store = pairs
    found = told(capsys, store, "tiny:plain training", "tiny:smoothing -0.2")
    assert found["pairs"] == 2 and not found["only_a"] and not found["only_b"]
    assert all(count == 2 for _, count in found["changes"])
    target = [next(stage for stage in trial.stages if stage.name == "target") for trial in trials]
    accuracy = [store.metrics(stage)["test_acc"] for stage in target]
    number = next(number for number in found["numbers"] if number["key"] == "test_acc")
    assert number["a"] == pytest.approx((accuracy[0] + accuracy[2]) / 2) and number["pairs"] == 2
    assert number["b"] == pytest.approx((accuracy[1] + accuracy[3]) / 2)


NAMES = ["tiny:{label}", "tiny:smoothing \u22120.2 \u00b7 seed 1", "tiny:smoothing -0.2, seed 1", "tiny:{id}", "{id}"]


@pytest.mark.parametrize("name", NAMES)
def test_a_trial_is_found_by_every_name_that_outputs_give_it(pairs, capsys, name):
    trials, store = pairs
    found = told(capsys, store, name.format(label=trials[1].label, id=trials[1].id), trials[1].id)
    assert found["pairs"] == 1 and found["changes"] == [] and trials[1].id in found["a"]


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


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rejudge")
    _, store = recorded(folder)
    return folder / "tiny.yaml", store


def rejudge(swept, *overrides, more=()):
    sweep, store = swept
    words = [word for override in overrides for word in ("--set", override)]
    return main(["run", str(sweep), "--store", str(store.root), "--only-judges", *words, *more])


def test_only_the_new_judge_and_what_it_is_made_of_would_run(swept, capsys):
    """It is planned, and asked about: without a terminal nothing is started."""
    other = ["judges.evaluator.epochs=1", "judges.knowledge=null"]
    assert rejudge(swept, *other, more=["--confirm-above", "0"]) == 2
    assert "exceed --confirm-above 0: expected --yes" in capsys.readouterr().err
    words = [word for override in other for word in ("--set", override)]
    assert main(["plan", str(swept[0]), "--store", str(swept[1].root), "--json", *words]) == 0
    kinds = json.loads(capsys.readouterr().out)["by_stage"]
    to_run = {name: row["to_run"] for name, row in kinds.items() if row["to_run"]}
    assert to_run == {"embeddings": 1, "judge_evaluator": 2, "target": 1}, "a new evaluator"


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("judges.evaluater.epochs=1", "expected a known key, got the unknown key 'evaluater'; did you"),
        ("recipe.epochs=3", "got none of plain training · seed 1 (attack "),
        ("attack.steps=4", "(attack "),
        ("seeds=[1, 5]", "seed 5 (attack "),
        (
            "seeds={looks: [2, 3]}",
            "a list of seeds, of which no judge has chosen, got looks",
        ),
    ],
)
def test_what_is_no_other_judge_is_one_line_and_nothing_starts(swept, capsys, override, line):
    assert rejudge(swept, "judges.knowledge=null", override) == 2
    said = capsys.readouterr().err.splitlines()
    assert line in said[-1] and not (swept[1].root / "sweeps" / "tiny-rejudged").exists()


def test_where_an_attack_is_missing_one_line_names_it(tmp_path, capsys):
    trials, store = recorded(tmp_path, without=("attack",))
    assert rejudge((tmp_path / "tiny.yaml", store), "judges.knowledge=null") == 2
    said = capsys.readouterr().err.splitlines()[-1]
    attack = next(stage for stage in trials[0].stages if stage.name == "attack")
    assert said.endswith(f"got none of {trials[0].label} ({attack.label}) and 1 more")


def test_a_search_is_refused_and_a_store_that_is_not_there_is_not_made(tmp_path, capsys):
    space, objectives = {"recipe.defense.alpha": {"low": -0.4, "high": 0.1}}, {"embedder_acc1": "min"}
    search = {"strategy": "random", "recipes": 2, "space": space, "objectives": objectives}
    path, store = write_tiny(tmp_path, search=search, grid={}, baseline={}), Store(root=tmp_path / "store")
    assert rejudge((path, store), "judges.knowledge=null") == 2
    assert "expected the store of an earlier run" in capsys.readouterr().err and not store.root.exists()
    store.root.mkdir()
    assert rejudge((path, store), "judges.knowledge=null") == 2
    assert "of which no judge has chosen, got a search" in capsys.readouterr().err
