"""A target trained under Ray Train is the one trained alone; Ray Train itself is replaced by one rank, here."""

import pytest
import torch

from smoothsweep.core.data.synthetic import synthetic_faces
from smoothsweep.core.training.classifier import Epochs
from smoothsweep.sweeps.training import Recipe
from smoothsweep.tasks import ray_train
from smoothsweep.tasks.context import TaskContext, read_progress
from smoothsweep.tasks.distributed import train_together
from smoothsweep.tasks.files import load_images, save_images
from smoothsweep.tasks.training import Training, train_alone
from tests.one_rank import Elsewhere, Killed, one_rank

EPOCHS = 4


def config(**changes):
    recipe = Recipe(
        architecture="resnet_small",
        pretrained=False,
        image_size=32,
        epochs=EPOCHS,
        batch_size=9,
        workers=2,
        checkpoint_every=1,
        **changes,
    )
    settings = recipe.model_dump(mode="json", exclude_none=True)
    return {**settings, "defense": recipe.defense.resolved("clean"), "seed": 3, "protocol": "clean"}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for part, seed in (("train", 1), ("test", 2)):
        faces = synthetic_faces(population="private", identities=3, per_identity=6, size=32, seed=seed)
        save_images(folder, part, faces)
    return folder


@pytest.fixture(scope="module")
def alone(data, tmp_path_factory):
    context = TaskContext(work=tmp_path_factory.mktemp("work"))
    return train_alone(Training.of(config()), load_images(data, "train"), load_images(data, "test"), context)


def context(work, **more):
    work.mkdir(exist_ok=True)
    return TaskContext(work=work, **more)


def same(one, other):
    (model, records), (expected, known) = one, other
    ours, theirs = model.state_dict(), expected.state_dict()
    assert set(ours) == set(theirs) and all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert len(records) == len(known) == EPOCHS
    return all({**vars(r), "seconds": 0} == {**vars(k), "seconds": 0} for r, k in zip(records, known, strict=True))


@pytest.fixture
def epochs(monkeypatch):
    """The epochs that are really done."""
    done, run = [], Epochs.run

    def counted(self, epoch, *given, **more):
        done.append(epoch)
        return run(self, epoch, *given, **more)

    monkeypatch.setattr(Epochs, "run", counted)
    return done


def test_a_rank_of_ray_train_trains_the_same_target(data, alone, tmp_path, monkeypatch):
    with one_rank(monkeypatch) as asked:
        together = train_together(config(), data, context(tmp_path / "work"))
    assert same(together, alone)
    [trainer] = asked
    assert trainer.scaling.num_workers == 2 and trainer.run.storage_path == str(tmp_path / "work")
    assert len(trainer.reports) == EPOCHS - 1 and read_progress(tmp_path / "work")["fraction"] == 1.0


def test_a_lost_rank_does_no_epoch_again(data, alone, tmp_path, monkeypatch, epochs):
    with one_rank(monkeypatch, killed_after=2), pytest.raises(Killed):
        train_together(config(), data, context(tmp_path / "work"))
    with one_rank(monkeypatch):
        together = train_together(config(), data, context(tmp_path / "work"))
    assert epochs == [0, 1, 2, 3] and same(together, alone)


def test_a_group_whose_machine_leaves_keeps_every_epoch(data, tmp_path, monkeypatch):
    with one_rank(monkeypatch) as asked:
        train_together({**config(), "checkpoint_every": 100}, data, context(tmp_path / "calm"))
    assert asked[0].reports == []
    with one_rank(monkeypatch) as asked:
        monkeypatch.setattr(ray_train, "machine_leaves", lambda: True)
        train_together({**config(), "checkpoint_every": 100}, data, context(tmp_path / "leaving"))
    assert len(asked[0].reports) == EPOCHS - 1


def test_a_rank_on_another_machine_brings_back_what_it_made(data, alone, tmp_path, monkeypatch):
    shared = Elsewhere(tmp_path / "there")
    with one_rank(monkeypatch) as asked:
        together = train_together(config(), data, context(tmp_path / "work", shared=shared))
    assert same(together, alone) and asked[0].kept[0].is_relative_to(tmp_path / "there" / "checkpoints")
