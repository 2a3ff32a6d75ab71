"""Every kind of stage gives the numbers that stand beside its version in stage_numbers.json, also on another device.

Who changes the numbers of a stage raises its version in tasks/registry.py, or stores of yesterday are silently reused;
then SMOOTHSWEEP_KEEP_NUMBERS=1 on this file writes the new ones down. It refuses to where no version was raised.

No GPU needed for the other device: every case is done there to its end and leaves the same numbers, the judges under
both protocols, and every defense of its table, trained, ended, asked in each of its ways to answer.
"""

import json
import os
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from art.estimators import classification
from art.estimators.classification import PyTorchClassifier

import smoothsweep.tasks.data
from smoothsweep.core.analysis import robustness, toy
from smoothsweep.core.attacks.registry import ATTACKS, PARTS
from smoothsweep.core.defenses.registry import DEFENSES
from smoothsweep.core.judges.table import measured, stage_of
from smoothsweep.core.models.embedder_kinds import GENERAL
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.orchestrator.stages.stage import Stage, with_ancestors
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.training import Recipe
from smoothsweep.tasks import judges
from smoothsweep.tasks.context import TaskContext
from smoothsweep.tasks.registry import TASKS
from smoothsweep.tasks.training import load_classifier
from tests.core.defenses.examples import EXAMPLES
from tests.dear import but_dear
from tests.elsewhere import ELSEWHERE, elsewhere
from tests.stage_numbers import differences, load_kept, numbers_of, save_kept
from tests.tasks.kept_stages import ALONE, ATTACKED, IN_A_TRIAL, OTHER_STAGES

KEPT = Path(__file__).with_name("stage_numbers.json")
KEEPS = bool(os.environ.get("SMOOTHSWEEP_KEEP_NUMBERS"))
WITHOUT_NUMBERS = {"sleep", *map(stage_of, measured())}  # of benchmarks/sleeping.py; of judges with a test of their own
CASES = [f"{case}, {protocol}" for protocol in ("clean", "paper") for case in (*IN_A_TRIAL, *ALONE)]


WRITE_DOWN = "write the numbers down: SMOOTHSWEEP_KEEP_NUMBERS=1 .venv/bin/python -m pytest " + (
    "tests/tasks/test_stage_numbers.py"
)


class Pooled(torch.nn.Module):
    """In the place of Inception: [N, 3, 299, 299] -> the means of its four quarters, [N, 12]."""

    def forward(self, images):
        return F.adaptive_avg_pool2d(images, 2).flatten(1)


@pytest.fixture
def made(request, tmp_path, monkeypatch):
    """Case -> its stage and the folder of its artifact."""

    def make(case):
        protocol = case.rpartition(", ")[2]
        if case in OTHER_STAGES:
            return executed(OTHER_STAGES[case](tmp_path), tmp_path, monkeypatch)
        pipeline, name = request.getfixturevalue(protocol), case.removesuffix(f", {protocol}")
        if name in IN_A_TRIAL:
            return pipeline.stage(IN_A_TRIAL[name]), pipeline.folder(IN_A_TRIAL[name])
        stage = ALONE[name](pipeline, protocol, tmp_path)
        return executed(stage, tmp_path, monkeypatch, pipeline.store)

    return make


def executed(stage, folder, monkeypatch, store=None):
    monkeypatch.setattr(judges, "load_network", lambda config, device: Pooled().to(device))
    known = judges.load_embedder
    monkeypatch.setattr(judges, "load_embedder", lambda name, path: Pooled() if name in GENERAL else known(name, path))
    own = judges.own_weights
    monkeypatch.setattr(judges, "own_weights", lambda name: folder / name if name in GENERAL else own(name))
    if stage.name == "toy":  # in full it takes ten seconds, and has a test of its own
        monkeypatch.setattr(toy, "train_toy", partial(toy.train_toy, steps=1500))
        monkeypatch.setattr(smoothsweep.tasks.data, "toy_example", partial(toy.run_toy, endless_steps=20))
    if store is None:
        store = open_store(str(folder / "store"))
        store.open_for_writing()
    execute_with_inputs(store, stage)
    return stage, store.path(stage)


@pytest.mark.parametrize("case", [*CASES, *OTHER_STAGES])
def test_a_stage_gives_the_numbers_of_its_version(case, made):
    stage, folder = made(case)
    metrics = json.loads((folder / "manifest.json").read_text())["metrics"]
    found = {
        "versions": {one.name: TASKS[one.name].version for one in with_ancestors([stage])},
        "numbers": numbers_of(folder, metrics),
    }
    kept = load_kept(KEPT)
    if KEEPS:
        keep(case, stage.name, kept, found)
        return
    assert case in kept, f"{case}: {WRITE_DOWN}"
    entry = kept[case]
    assert found["versions"] == entry["versions"], f"{case}: a version was raised: {WRITE_DOWN}"
    changed = differences(entry["numbers"], found["numbers"])
    assert not changed, f"{case}: other numbers, raise the version of {stage.name} in tasks/registry.py: {changed[:5]}"


def keep(case, name, kept, found):
    before = kept.get(case)
    if before and before["versions"] == found["versions"]:
        changed = differences(before["numbers"], found["numbers"])
        assert not changed, f"{case}: raise the version of {name} in tasks/registry.py first: {changed[:5]}"
        return  # rounding alone: what is kept stays
    save_kept(KEPT, {**kept, case: found})


def test_every_kind_of_stage_is_kept_and_nothing_else():
    kept = load_kept(KEPT)
    every = {*CASES, *OTHER_STAGES}
    assert not every - set(kept), WRITE_DOWN
    assert not set(kept) - every, f"remove what is no case any more from {KEPT.name}"
    kinds = {case.partition(",")[0] for case in kept}
    assert kinds == set(TASKS) - WITHOUT_NUMBERS


def test_every_attack_of_the_table_is_kept():
    assert set(ATTACKED) == set(ATTACKS) - {"ppa"}  # which is the pipeline's own


def test_every_version_is_that_of_the_kept_numbers():
    """Of whatever case: what stands in the tables is what was written down, and nothing else is possible."""
    kept = {name: version for entry in load_kept(KEPT).values() for name, version in entry["versions"].items()}
    assert kept == {name: task.version for name, task in TASKS.items() if name not in WITHOUT_NUMBERS}
    assert {name: part.version for name, part in PARTS.items()} == {name: kept[name] for name in PARTS}


MADE = [*IN_A_TRIAL, *ALONE]
ONE_WAY = ("judge_robustness", "judge_membership", "judge_gradients")  # they compute the same under both protocols
CASES_MADE_ELSEWHERE = [f"{case}, clean" for case in MADE]
CASES_MADE_ELSEWHERE += [
    f"{case}, paper" for case in MADE if case.startswith("judge_") and not case.startswith(ONE_WAY)
]
DEAR = [
    case
    for case in CASES_MADE_ELSEWHERE
    if case.startswith(("attack, ", "plg_gan", "projected", "specific_gan", "students"))
]
COMPUTED = [case for case in OTHER_STAGES if TASKS[case.partition(",")[0]].on_device]


@pytest.fixture
def made_for_elsewhere(request, tmp_path, monkeypatch):
    """Case -> its stage, the folder of its artifact, made on the CPU, and those of its inputs."""

    def make(case):
        if case in OTHER_STAGES:
            stage, store = OTHER_STAGES[case](tmp_path), open_store(str(tmp_path / "store"))
            store.open_for_writing()
        else:
            name, _, protocol = case.rpartition(", ")
            pipeline = request.getfixturevalue(protocol)
            store = pipeline.store
            alone = ALONE.get(name)
            stage = alone(pipeline, protocol, tmp_path) if alone else pipeline.stage(IN_A_TRIAL[name])
        _, folder = executed(stage, tmp_path, monkeypatch, store)
        return stage, folder, {role: store.path(source) for role, source in stage.inputs.items()}

    return make


@pytest.fixture
def toolbox_elsewhere(monkeypatch):
    """The toolbox of adversarial images knows CPUs and CUDA: it is told where the model lies.

    Its Auto-PGD makes a classifier of its own, which moves the model to the CPU: from there it comes back.
    """
    perturbed = robustness.perturbed

    class MadeForElsewhere(PyTorchClassifier):
        def __init__(self, model, **given):
            device = next(model.parameters()).device
            super().__init__(model=model, **given)
            self._device = device
            self._model.to(device)

    def brought_back(name, model, *given, **settings):
        device = next(model.parameters()).device
        found = perturbed(name, model, *given, **settings)
        model.to(device)
        return found

    monkeypatch.setattr(classification, "PyTorchClassifier", MadeForElsewhere)
    monkeypatch.setattr(robustness, "perturbed", brought_back)


def done(stage, inputs, out, work):
    """The stage's metrics, its artifact made in `out` on that device."""
    out.mkdir()
    work.mkdir()
    config, context = {**stage.config, **stage.hints}, TaskContext(work=work, device=str(ELSEWHERE))
    with elsewhere():
        return TASKS[stage.name].function()(config, inputs, out, context)


@pytest.mark.parametrize("case", but_dear([*CASES_MADE_ELSEWHERE, *COMPUTED], [*DEAR, *COMPUTED]))
def test_a_stage_is_done_elsewhere(case, made_for_elsewhere, tmp_path, toolbox_elsewhere):
    stage, folder, inputs = made_for_elsewhere(case)
    metrics = done(stage, inputs, tmp_path / "out", tmp_path / "work")
    here = json.loads((folder / "manifest.json").read_text())["metrics"]
    changed = differences(numbers_of(folder, here), numbers_of(tmp_path / "out", metrics))
    assert not changed, changed[:5]


@pytest.mark.parametrize("name", sorted(DEFENSES))
def test_a_defense_is_trained_ended_and_asked_elsewhere(name, clean, tmp_path):
    recipe = Recipe(defense={"kind": name, **EXAMPLES[name]})
    own = {"defense": recipe.defense.resolved("clean"), "batch_size": 8, "lr": 0.001, "weight_decay": 0.0, "epochs": 1}
    config = {**clean.config("target"), **own}
    stage, inputs = Stage(name="target", config=config, inputs=clean.stage("target").inputs), clean.inputs("target")
    metrics = done(stage, inputs, tmp_path / "there", tmp_path / "work")
    (tmp_path / "here").mkdir()
    (tmp_path / "works").mkdir()
    here = TASKS["target"].function()(config, inputs, tmp_path / "here", TaskContext(work=tmp_path / "works"))
    changed = differences(numbers_of(tmp_path / "here", here), numbers_of(tmp_path / "there", metrics))
    assert not changed, changed[:5]
    images = clean.tensors("data", "test")["images"].float().div(127.5).sub(1)
    for readout in (None, *DEFENSES[name].readouts):
        answers = load_classifier(tmp_path / "here", config, "cpu", readout=readout)(images)
        with elsewhere() as device:
            found = load_classifier(tmp_path / "here", config, str(device), readout=readout)(images.to(device)).cpu()
        torch.testing.assert_close(found, answers, atol=1e-4, rtol=1e-4)
