"""No GPU needed: every kind of stage is done on a device that is not the CPU, to its end, and leaves the same numbers.

The cases are those whose numbers are kept (tests/tasks/test_stage_numbers.py has every task of the table), the judges
under both protocols, and every defense of its table: trained, ended, asked in each of its ways to answer.
"""

import json

import pytest
import torch

from smoothsweep.core.analysis import robustness
from smoothsweep.core.defenses.registry import DEFENSES
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.training import Recipe
from smoothsweep.tasks.context import TaskContext
from smoothsweep.tasks.registry import TASKS
from smoothsweep.tasks.training import load_classifier
from tests.core.defenses.examples import EXAMPLES
from tests.dear import but_dear
from tests.elsewhere import ELSEWHERE, elsewhere
from tests.stage_numbers import differences, numbers_of
from tests.tasks.kept_stages import ALONE, IN_A_TRIAL, OTHER_STAGES
from tests.tasks.test_stage_numbers import executed

MADE = [*IN_A_TRIAL, *ALONE]
ONE_WAY = ("judge_robustness", "judge_membership", "judge_gradients")  # they compute the same under both protocols
CASES = [f"{case}, clean" for case in MADE]
CASES += [f"{case}, paper" for case in MADE if case.startswith("judge_") and not case.startswith(ONE_WAY)]
DEAR = [case for case in CASES if case.startswith(("attack, ", "plg_gan", "projected", "specific_gan", "students"))]
COMPUTED = [case for case in OTHER_STAGES if TASKS[case.partition(",")[0]].on_device]


@pytest.fixture
def made(request, tmp_path, monkeypatch):
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
    estimator, perturbed = robustness._estimator, robustness.perturbed

    def told(model, *given):
        device = next(model.parameters()).device
        made = estimator(model, *given)
        made._device = device
        made._model.to(device)
        return made

    def brought_back(name, model, *given, **settings):
        device = next(model.parameters()).device
        found = perturbed(name, model, *given, **settings)
        model.to(device)
        return found

    monkeypatch.setattr(robustness, "_estimator", told)
    monkeypatch.setattr(robustness, "perturbed", brought_back)


def done(stage, inputs, out, work):
    """The stage's metrics, its artifact made in `out` on that device."""
    out.mkdir()
    work.mkdir()
    config, context = {**stage.config, **stage.hints}, TaskContext(work=work, device=str(ELSEWHERE))
    with elsewhere():
        return TASKS[stage.name].function()(config, inputs, out, context)


@pytest.mark.parametrize("case", but_dear([*CASES, *COMPUTED], [*DEAR, *COMPUTED]))
def test_a_stage_is_done_elsewhere(case, made, tmp_path, toolbox_elsewhere):
    stage, folder, inputs = made(case)
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
