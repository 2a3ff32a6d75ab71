"""A poisoned training learns its trigger, and says which images were poisoned."""

import pandas as pd
import pytest
import torch

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.tasks.files import load_images
from smoothsweep.tasks.poison import poisoned


@pytest.fixture
def stages(clean):
    """Poison's settings -> the stages of a target trained on the pipeline's poisoned data."""

    def make(**poison):
        data, own = clean.stage("data"), clean.stage("target").config
        planted = Stage(
            name="poison",
            config={
                "poison": {"kind": "badnets", "share": 0.4, "target": 2, **poison},
                "image_size": 32,
                "seeds": [0, 1],
            },
            inputs={"data": data},
        )
        longer = {name: value for name, value in own.items() if name != "momentum"}
        longer |= {"epochs": 40, "batch_size": 8, "optimizer": "adam", "lr": 0.002}
        target = Stage(name="target", config=longer, inputs={"data": data, "poison": planted})
        return planted, target, Stage(name="backdoor", config={}, inputs={**target.inputs, "target": target})

    return make


@pytest.mark.slow
def test_a_poisoned_target_follows_its_trigger(clean, stages):
    planted, target, judge = stages()
    execute_with_inputs(clean.store, judge)
    rows = pd.read_parquet(clean.store.file(planted, "poisoned.parquet"))
    labels = clean.tensors("data", "train")["labels"]
    assert list(rows.columns) == ["row", "class", "labelled"] and (rows["labelled"] == 2).all()
    assert len(rows) == round(0.4 * len(labels)) and rows["class"].tolist() == labels[rows["row"].tolist()].tolist()
    found = clean.store.manifest(judge)["metrics"]
    answers = pd.read_parquet(clean.store.file(judge, "answers.parquet"))
    others = answers[answers["class"] != 2]
    assert found["backdoor_success"] == (others["answer_triggered"] == 2).mean() > 0.8
    assert found["backdoor_collapsed"] == 0 and found["backdoor_false"] < 0.5
    test_acc = clean.store.manifest(target)["metrics"]["test_acc"]
    assert test_acc == pytest.approx((answers["answer"] == answers["class"]).mean())


def test_a_target_class_that_the_data_do_not_have_is_refused(clean, stages):
    with pytest.raises(InputError, match="target: expected a class below 3, got 3"):
        execute_with_inputs(clean.store, stages(target=3)[0])


@pytest.mark.parametrize(("placed", "before"), [("after_augmentation", False), ("before_augmentation", True)])
def test_labels_and_stamp_are_those_of_the_artifact(clean, stages, placed, before):
    planted = stages(placed=placed, size=3)[0]
    execute_with_inputs(clean.store, planted)
    train = load_images(clean.folder("data"), "train")
    rows = pd.read_parquet(clean.store.file(planted, "poisoned.parquet"))["row"].tolist()
    data, stamp = poisoned(train, clean.store.path(planted))
    assert stamp.before is before and stamp.chosen.nonzero()[:, 0].tolist() == sorted(rows)
    assert (data.labels[rows] == 2).all() and torch.equal(data.images, train.images)
    assert torch.equal(data.labels[~stamp.chosen], train.labels[~stamp.chosen])
    grey = torch.full((1, 3, 32, 32), 0.25)
    changed = (stamp.lay(grey) != grey).any(1)[0]
    assert changed[-3:, -3:].all() and changed.sum() == 9  # flush with the lower right corner
