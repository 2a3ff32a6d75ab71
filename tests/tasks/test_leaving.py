"""A machine that is about to be taken away: what was done is kept at once, the rest is for another, numbers stay."""

import pytest
import torch

from benchmarks.sleeping import sleep_classes
from smoothsweep.core.data.synthetic import synthetic_faces
from smoothsweep.sweeps.training import Recipe
from smoothsweep.tasks.context import MachineLeaving, TaskContext, ask_machine_leaving
from smoothsweep.tasks.training import CHECKPOINT, Training, train_alone
from smoothsweep.tasks.unfinished import load_checkpoint


def after(looks: int):
    """A machine that leaves once it was asked about so often."""
    asked = iter(range(10**9))
    return lambda: next(asked) >= looks


def training(**changes):
    recipe = Recipe(architecture="resnet_small", pretrained=False, image_size=32, epochs=4, batch_size=9, **changes)
    settings = recipe.model_dump(mode="json", exclude_none=True)
    return {**settings, "defense": recipe.defense.resolved("clean"), "seed": 3, "protocol": "clean"}


@pytest.fixture(scope="module")
def faces():
    return synthetic_faces(population="private", identities=3, per_identity=6, size=32, seed=1)


def test_a_training_leaves_a_checkpoint_before_its_turn_and_ends_elsewhere_with_the_same_weights(faces, tmp_path):
    settings, calm, rough = training(checkpoint_every=100), tmp_path / "calm", tmp_path / "rough"
    calm.mkdir()
    rough.mkdir()
    expected, _ = train_alone(Training.of(settings), faces, None, TaskContext(work=calm))
    with ask_machine_leaving(after(1)), pytest.raises(MachineLeaving):
        train_alone(Training.of(settings), faces, None, TaskContext(work=rough))
    assert len(load_checkpoint(rough / CHECKPOINT)["records"]) == 2
    moved, records = train_alone(Training.of(settings), faces, None, TaskContext(work=rough))
    assert [record.epoch for record in records] == [0, 1, 2, 3]
    for name, value in expected.state_dict().items():
        assert torch.equal(value, moved.state_dict()[name]), name


def test_the_last_epoch_is_finished_rather_than_kept(faces, tmp_path):
    with ask_machine_leaving(after(3)):
        _, records = train_alone(Training.of(training(checkpoint_every=100)), faces, None, TaskContext(work=tmp_path))
    assert len(records) == 4 and not (tmp_path / CHECKPOINT).exists()


def test_classes_are_left_between_two(tmp_path):
    settings, context = {"classes": 3, "seconds": 0.0}, TaskContext(work=tmp_path)
    with ask_machine_leaving(after(2)), pytest.raises(MachineLeaving):
        sleep_classes(settings, {}, [0, 1, 2], context)
    done = sorted((tmp_path / "classes").iterdir())
    assert len(done) == 2
    before = [path.stat().st_mtime_ns for path in done]
    sleep_classes(settings, {}, [0, 1, 2], context)
    assert [path.stat().st_mtime_ns for path in done] == before, "what was done is not done again"
    assert len(list((tmp_path / "classes").iterdir())) == 3
