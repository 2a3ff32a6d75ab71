"""What an audit tries, by effort or by time; forecasts; shadow models that grow with the effort."""

import json
from collections import Counter
from itertools import pairwise

import pytest

from smoothsweep.core.attacks.registry import ATTACKS
from smoothsweep.core.attacks.shared.base import ACCESS_LEVELS
from smoothsweep.core.data.sources import Counted, count_labelled
from smoothsweep.core.models.recipe import TrainingRecipe
from smoothsweep.orchestrator.commands.audit.auditing import FIRST, Work, chosen, steps_of
from smoothsweep.orchestrator.commands.audit.costs import forecast, timed_training
from smoothsweep.orchestrator.commands.audit.request import AuditRequest
from smoothsweep.orchestrator.commands.audit.sweep_file import audit_trainings, shadow_sweep
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.load import load_sweep, read_yaml
from tests.orchestrator.commands.owned_model import sweep_of


def test_a_training_is_forecast_from_a_few_of_its_steps(imported, owned, tmp_path):
    """Per epoch and image; what is in the store costs nothing."""
    card, costs = ImportedClassifier(imported=str(imported)).checked, []
    store = open_store(str(tmp_path / "store"))
    store.open_for_writing()
    for epochs in (10, 1000):
        trainings = audit_trainings(AuditRequest(reference="resnet_small", epochs=epochs), card)
        tree = read_yaml(sweep_of(imported, owned, tmp_path, trainings=trainings).read_text(), "audit")
        stages = {
            stage.name: stage for trial in trials_of(load_sweep(tmp_path / "audit.yaml")) for stage in trial.stages
        }
        execute_with_inputs(store, stages["data"])
        costs.append(forecast(tree, store))
    assert 0 < costs[0][0] < costs[1][0] and costs[0][1] == costs[1][1] > 0
    tree["judges"]["membership"] = {"trained_on_data": True}
    few, many = (forecast(shadow_sweep(tree, trainings[0], count), store)[0] for count in (4, 8))
    assert many - few == pytest.approx(few - costs[1][0], rel=0.5) and few > costs[1][0]
    recipe = TrainingRecipe(architecture="resnet_small", epochs=4, batch_size=4, image_size=32)
    seconds = [timed_training(recipe, images=n, classes=2, side=16) for n in (8, 800)]
    assert 0 < seconds[0] < seconds[1]


REFERENCE = ({"architecture": "resnet18", "epochs": 40},)
MINUTES = {"first": 1, "quick": 2, "standard": 4, "full": 8}


@pytest.mark.parametrize(
    ("given", "trainings", "effort"),
    [
        ({"effort": "quick"}, (), "quick"),
        ({"effort": "full"}, (), "full"),
        ({"minutes": 4.9}, (), "quick"),
        ({"minutes": 5}, (), "standard"),
        ({"minutes": 9}, (), "full"),
        ({}, (), "standard"),
        ({"fix": True, "effort": "quick"}, REFERENCE, "quick"),
        ({"fix": True, "minutes": 2}, REFERENCE, "first"),
        ({"seeds": 2, "minutes": 2}, (), "first"),
        ({"reference": "", "minutes": 8}, REFERENCE, "standard"),
        ({"reference": ""}, REFERENCE, "full"),
        ({"fix": True}, REFERENCE, "full"),
    ],
)
def test_after_the_first_answer_an_audit_makes_the_effort_that_was_asked_for_or_the_largest_that_fits(
    given, trainings, effort
):
    """A minute of it is over. Without either, one that fits into 5 minutes, or 20 with a reference."""
    request = AuditRequest(**given)
    steps = steps_of(trainings, seeds=request.seeds)
    found = chosen(steps, request, lambda step: 60 * MINUTES[step.effort], spent=60)
    assert found.effort == effort and found.seeds >= (request.seeds if effort != "first" else 1)
    assert chosen(steps, request, lambda step: 0.0).effort == given.get("effort", "full"), "what is done is shown"
    for before, after in pairwise(steps):
        assert after.seeds >= before.seeds and after.shadows > before.shadows


def work_of(owned, imported, folder, **given):
    model = ImportedClassifier(imported=str(imported))
    known = {"model": model.folder, "data": owned[1], "public": owned[2], "people": 3, "out": folder}
    people = given.pop("counted", None) or count_labelled(owned[1])
    return Work(
        request=AuditRequest(**known | given), model=model.folder, card=model.checked, people=people, started=0.0
    )


@pytest.mark.parametrize(
    ("told", "finished"),
    [
        ({"effort": "standard", "reached": [{"seeds": 3}]}, ("standard", 3)),
        ({"effort": "full", "reached": [{"seeds": 5}, {"seeds": 2}]}, ("full", 5)),
        ({"reached": []}, ("", 1)),
        ([], ("", 1)),
    ],
)
def test_a_later_run_begins_with_all_that_the_pages_show_unless_the_store_is_gone(
    owned, imported, tmp_path, told, finished
):
    (tmp_path / "audit.json").write_text(json.dumps(told))
    work = work_of(owned, imported, tmp_path, effort="quick")
    assert work.earlier() == ("", 1)
    (tmp_path / "store").mkdir()
    assert work.earlier() == finished


@pytest.mark.parametrize(
    ("access", "each", "trained"), [("gradients", 9, True), ("labels", 9, False), ("scores", 1, False)]
)
def test_shadow_models_grow_with_the_effort_and_are_left_out_where_they_say_nothing(
    owned, imported, tmp_path, access, each, trained
):
    """An attacker who sees labels compares no scores; a person with one image leaves no half to train on."""
    pictures = Counter({(label, split): each for label in range(6) for split in ("train", "test")[: 1 + (each > 1)]})
    given = {"counted": Counted(classes=6, pictures=pictures), "reference": "", "trained_on_data": True}
    work = work_of(owned, imported, tmp_path, access=access, **given)
    trees = [work.shadow_tree(step) for step in steps_of(work.trainings)]
    counts = [tree and tree["judges"]["membership"]["shadows"] for tree in trees]
    assert counts == ([None, 4, 8, 16] if trained else [None] * 4)


@pytest.mark.parametrize("access", ["labels", "scores", "gradients"])
def test_an_audit_shows_no_more_than_its_access_and_attacks_so_many_people(owned, imported, tmp_path, access):
    tree = work_of(owned, imported, tmp_path, access=access, people=4).tree(FIRST)
    tried = [ATTACKS[one["kind"]].access for one in tree["grid"]["attack"]]
    assert max(map(ACCESS_LEVELS.index, tried)) == ACCESS_LEVELS.index(access) and len(set(tried)) > 1
    assert tree["classes"] == [0, 2, 3, 5]
