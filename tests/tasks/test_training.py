"""The training stages: effective alpha, checkpoints, what a resumed training gives."""

import pandas as pd
import pytest
import torch

from smoothsweep.core.data.synthetic import synthetic_faces
from smoothsweep.core.training.classifier import Epochs
from smoothsweep.sweeps.training import LabelSmoothing, Recipe
from smoothsweep.tasks import training
from smoothsweep.tasks.context import TaskContext, read_progress
from smoothsweep.tasks.training import (
    STOP_KEY,
    Training,
    load_classifier,
    save_classifier,
    smoothing_of_epoch,
    train_alone,
)


@pytest.fixture(scope="module")
def faces():
    return synthetic_faces(population="private", identities=3, per_identity=6, size=32, seed=1)


def config(**changes):
    recipe = Recipe(architecture="resnet_small", pretrained=False, image_size=32, epochs=4, batch_size=9, **changes)
    settings = recipe.model_dump(mode="json", exclude_none=True)
    return {**settings, "defense": recipe.defense.resolved("clean"), "seed": 3, "protocol": "clean"}


def test_alpha_of_every_epoch_is_logged_as_the_schedule_says(faces, tmp_path):
    defense = LabelSmoothing(alpha=-0.4, schedule={"kind": "linear", "start": 0.25, "end": 0.75})
    settings = config(defense=defense)
    model, records = train_alone(Training.of(settings), faces, faces, TaskContext(work=tmp_path))
    save_classifier(tmp_path, model, records)
    history = pd.read_parquet(tmp_path / "history.parquet")
    assert history["alpha"].tolist() == pytest.approx([0.0, -0.2, -0.4, -0.4])
    assert history["test_acc"].notna().all() and history["lr"].iloc[-1] < history["lr"].iloc[0]
    assert read_progress(tmp_path)["fraction"] == 1.0
    again = load_classifier(tmp_path, settings, "cpu")
    images = torch.zeros(2, 3, 32, 32)
    assert torch.allclose(again(images), model.eval()(images), atol=1e-5)  # another memory layout, other rounding


@pytest.mark.parametrize(
    ("defense", "curve"),
    [
        (LabelSmoothing(alpha=0.1), [0.1] * 4),
        (LabelSmoothing(alpha=-0.1), [0, 0, -0.1, -0.1]),
        (LabelSmoothing(schedule={"kind": "piecewise", "points": [[0, 0.2], [1, -0.2]]}), [0.1, 0, -0.1, -0.2]),
        (LabelSmoothing(alpha=0.0, schedule={"kind": "ramp", "start": 0.5, "end": 0.6}), [0] * 4),
    ],
)
def test_the_papers_schedules_are_the_defaults(defense, curve):
    alpha_of = smoothing_of_epoch(defense.resolved("clean"), 4)
    assert [alpha_of(epoch) for epoch in range(4)] == pytest.approx(curve)


def test_every_way_from_zero_to_zero_is_one_training():
    plain = LabelSmoothing(alpha=0.0).resolved("clean")
    assert LabelSmoothing(alpha=0.0, schedule={"kind": "ramp"}).resolved("clean") == plain
    assert LabelSmoothing(alpha=0.1, schedule={"kind": "ramp"}).resolved("clean") != plain


def test_a_training_killed_after_a_checkpoint_ends_with_the_same_weights(faces, tmp_path, monkeypatch):
    calm, rough = tmp_path / "calm", tmp_path / "rough"
    calm.mkdir()
    rough.mkdir()
    settings = config(checkpoint_every=2)
    expected, _ = train_alone(Training.of(settings), faces, None, TaskContext(work=calm))

    class Killed(Exception):
        pass

    real = training.save_checkpoint

    def save_and_die(path, state):
        real(path, state)
        raise Killed

    monkeypatch.setattr(training, "save_checkpoint", save_and_die)
    with pytest.raises(Killed):
        train_alone(Training.of(settings), faces, None, TaskContext(work=rough))
    monkeypatch.setattr(training, "save_checkpoint", real)
    run, done = Epochs.run, []
    monkeypatch.setattr(Epochs, "run", lambda self, epoch, alpha: done.append(epoch) or run(self, epoch, alpha))
    resumed, records = train_alone(Training.of(settings), faces, None, TaskContext(work=rough))
    assert [r.epoch for r in records] == [0, 1, 2, 3] and done == [2, 3]
    for name, value in expected.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name


@pytest.mark.parametrize(("reached_at", "fractions"), [(None, [0.25, 0.5, 0.75, 1.0]), (0.0, [1.0])])
def test_progress_is_the_share_of_the_epochs_or_whole_where_the_goal_is_reached(faces, tmp_path, reached_at, fractions):
    told = []

    class Told(TaskContext):
        def progress(self, fraction, text=""):
            told.append(fraction)

    settings = {**config(), **({} if reached_at is None else {STOP_KEY: reached_at})}
    train_alone(Training.of(settings), faces, faces, Told(work=tmp_path))
    assert told == fractions
