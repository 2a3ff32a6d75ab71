"""What an audit tries: steps by effort or by time, forecasts, and a store that already holds an answer."""

import json
from collections import Counter
from itertools import pairwise
from typing import ClassVar

import pytest

from smoothsweep.core.data.sources import Counted, count_labelled
from smoothsweep.core.models.recipe import TrainingRecipe
from smoothsweep.orchestrator.commands.audit.auditing import Work, steps_of
from smoothsweep.orchestrator.commands.audit.costs import forecast, training_seconds
from smoothsweep.orchestrator.commands.audit.request import AuditRequest
from smoothsweep.orchestrator.commands.audit.sweep_file import audit_trainings
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.load import load_sweep, read_yaml
from tests.foreign_classifier import SIDE
from tests.orchestrator.commands.owned_model import sweep_of


def test_a_training_is_forecast_from_a_few_of_its_steps(imported, owned, tmp_path):
    """Per epoch and image; what is in the store costs nothing."""
    tree = read_yaml(
        sweep_of(
            imported,
            owned,
            tmp_path,
            trainings=audit_trainings("resnet18", image_size=SIDE, transform_input=False, epochs=7, fix=False),
        ).read_text(),
        "audit",
    )
    store = open_store(str(tmp_path / "store"))
    store.open_for_writing()
    with pytest.raises(FileNotFoundError):
        forecast(tree, store)
    loaded = load_sweep(tmp_path / "audit.yaml")
    stages = {stage.name: stage for trial in trials_of(loaded) for stage in trial.stages}
    execute_with_inputs(store, stages["data"])
    asked = []

    def timed(recipe, **given):
        asked.append((recipe.architecture, recipe.epochs, given))
        return 70.0

    cost = forecast(tree, store, timed=timed)
    assert {name for name, _, _ in asked} == {"resnet18", "vgg_small"} and cost.training == 140.0
    assert (7, SIDE) in {(epochs, given["side"]) for _, epochs, given in asked}
    recipe = TrainingRecipe(architecture="resnet_small", epochs=4, batch_size=4, image_size=32)
    seconds = [training_seconds(recipe, images=n, classes=2, side=16) for n in (8, 800)]
    assert 0 < seconds[0] < seconds[1]


class Timed(Work):
    """An audit whose steps do nothing and take so many seconds: the first answer, then each further step."""

    each: ClassVar[tuple[float, ...]] = (60.0, 120.0, 240.0, 480.0)

    def __init__(self, **given):
        super().__init__(**given)
        self.now, self.done, self.lines = 0.0, [], []

    @property
    def spent(self):
        return self.now

    def seconds_of(self, step):
        steps = steps_of(self.trainings, seeds=self.request.seeds)
        return self.each[[one.effort for one in steps].index(step.effort)]

    def do(self, step):
        self.now += self.each[len(self.done)]
        self.done.append(step)
        self.step = step
        return 0

    def write(self):
        self.lines += self.left


def timed(owned, imported, tmp_path, *, told=None, **given):
    """The steps that an audit makes, and what is said of the next one. told: what an earlier run has left."""
    if told is not None:
        (tmp_path / "audit.json").write_text(json.dumps(told))
    model = ImportedClassifier(imported=str(imported))
    known = {"model": model.folder, "data": owned[1], "public": owned[2], "people": 3, "out": tmp_path}
    work = Timed(
        request=AuditRequest(**known | given),
        model=model.folder,
        card=model.checked,
        people=count_labelled(owned[1]),
        started=0.0,
    )
    assert work.run() == 0
    return work


@pytest.mark.parametrize(
    ("given", "efforts", "left"),
    [
        ({"effort": "quick"}, ["quick"], "standard"),
        ({"effort": "standard"}, ["quick", "standard"], "full"),
        ({"effort": "full"}, ["quick", "standard", "full"], None),
        ({"minutes": 2.9}, ["quick"], "standard"),
        ({"minutes": 3}, ["quick", "standard"], "full"),
        ({"minutes": 7}, ["quick", "standard", "full"], None),
        ({"fix": True, "effort": "quick"}, ["first", "quick"], "standard"),
        ({"fix": True, "minutes": 1}, ["first"], "quick"),
        ({"seeds": 2, "minutes": 1}, ["first"], "quick"),
        ({}, ["quick", "standard"], "full"),
        ({"reference": ""}, ["first", "quick", "standard", "full"], None),
    ],
)
def test_an_audit_makes_the_steps_of_its_effort_or_those_that_fit_and_names_the_next(
    owned, imported, tmp_path, given, efforts, left
):
    """Without either, those that fit into 5 minutes, or 20 with a reference."""
    work = timed(owned, imported, tmp_path, **given)
    assert [step.effort for step in work.done] == efforts and len(work.lines) == (left is not None)
    assert all(f"--effort {left}" in line and "min" in line for line in work.lines)
    for before, after in pairwise(work.done):
        assert after.seeds >= before.seeds and {one["kind"] for one in work.attacks(before)} <= {
            one["kind"] for one in work.attacks(after)
        }
    assert work.done[-1].seeds >= given.get("seeds", 1) or left == "quick"


@pytest.mark.parametrize(
    ("told", "efforts", "seeds"),
    [
        ({"effort": "standard", "attacks": [{"seeds": 3}]}, ["standard"], 3),
        ({"effort": "quick", "reached": [{"seeds": 4}]}, ["quick"], 4),
        ({"effort": "full", "reached": [{"seeds": 5}, {"seeds": 2}]}, ["full"], 5),
        ({"effort": "first", "attacks": [{"seeds": 1}]}, ["quick"], 1),
        ({"attacks": []}, ["quick"], 1),
        ([], ["quick"], 1),
    ],
)
def test_a_later_run_begins_with_all_that_the_pages_show(owned, imported, tmp_path, told, efforts, seeds):
    work = timed(owned, imported, tmp_path, told=told, effort="quick")
    assert [step.effort for step in work.done] == efforts and work.done[-1].seeds == seeds


@pytest.mark.parametrize(
    ("access", "each", "trained"), [("gradients", 9, True), ("labels", 9, False), ("scores", 1, False)]
)
def test_shadow_models_grow_with_the_effort_and_are_left_out_where_they_say_nothing(
    owned, imported, tmp_path, access, each, trained
):
    """An attacker who sees labels compares no scores; a person with one image leaves no half to train on."""
    given = {"effort": "full", "reference": "", "access": access, "trained_on_data": True}
    work = timed(owned, imported, tmp_path, **given)
    pictures = Counter({(label, split): each for label in range(6) for split in ("train", "test")[: 1 + (each > 1)]})
    work.people = Counted(classes=6, pictures=pictures)
    trees = [work.shadow_tree(step) for step in work.done]
    counts = [tree and tree["judges"]["membership"]["shadows"] for tree in trees]
    assert counts == ([None, 4, 8, 16] if trained else [None] * 4)
