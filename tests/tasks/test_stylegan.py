"""A generator trained under Ray Train is the one trained alone; Ray Train itself is replaced by one rank, here."""

import pytest
import torch

from smoothsweep.core.data.synthetic import synthetic_faces
from smoothsweep.core.priors.kinds import make_settings
from smoothsweep.tasks import ray_train
from smoothsweep.tasks.context import TaskContext, read_progress
from smoothsweep.tasks.files import save_tensors
from smoothsweep.tasks.stylegan import train_generator
from tests.one_rank import Elsewhere, Killed, one_rank

# Of one weight, [1, 8], DDP's bucket and its gradient write the strides of a side of length 1 differently.
pytestmark = pytest.mark.filterwarnings("ignore:Grad strides do not match bucket view strides")

STEPS = 5
SETTINGS = {
    "z_dim": 8,
    "w_dim": 8,
    "mapping_layers": 1,
    "channel_base": 64,
    "channel_max": 8,
    "kimg": STEPS * 4 / 1000,
    "batch_size": 4,
    "lr": 0.01,
    "seed": 3,
}


def settings(workers):
    return make_settings("stylegan2", **SETTINGS, workers=workers)


@pytest.fixture(scope="module")
def public(tmp_path_factory):
    folder = tmp_path_factory.mktemp("public")
    faces = synthetic_faces(population="public", identities=8, per_identity=1, size=16, seed=0)
    save_tensors(folder / "images.safetensors", {"images": faces.images})
    return folder


@pytest.fixture(scope="module")
def alone(public, tmp_path_factory):
    work = tmp_path_factory.mktemp("work")
    made = train_generator(settings(1), public, TaskContext(work=work))
    assert read_progress(work)["text"] == f"step {STEPS}/{STEPS}"
    return made


def same(one, other):
    ours, theirs = one.state_dict(), other.state_dict()
    return set(ours) == set(theirs) and all(torch.equal(ours[name], theirs[name]) for name in ours)


def context(work, **more):
    work.mkdir(exist_ok=True)
    return TaskContext(work=work, **more)


def test_a_rank_of_ray_train_trains_the_same_generator(public, alone, tmp_path, monkeypatch):
    with one_rank(monkeypatch) as asked:
        together = train_generator(settings(2), public, context(tmp_path / "work"))
    assert same(together, alone) and not together.training
    assert not any(weight.requires_grad for weight in together.parameters())
    [trainer] = asked
    assert trainer.scaling.num_workers == 2 and not trainer.scaling.use_gpu and trainer.torch.backend == "gloo"
    assert trainer.run.storage_path == str(tmp_path / "work") and trainer.reports == [
        {"step": step} for step in range(1, STEPS + 1)
    ]
    assert read_progress(tmp_path / "work")["text"] == f"step {STEPS}/{STEPS}"


@pytest.mark.parametrize("done", [1, 3])
def test_a_lost_rank_goes_on_from_its_last_checkpoint(public, alone, tmp_path, monkeypatch, done):
    with one_rank(monkeypatch, killed_after=done), pytest.raises(Killed):
        train_generator(settings(2), public, context(tmp_path / "work"))
    with one_rank(monkeypatch) as asked:
        together = train_generator(settings(2), public, context(tmp_path / "work"))
    assert [report["step"] for report in asked[0].reports] == list(range(done + 1, STEPS + 1))
    assert same(together, alone)


def test_a_rank_on_another_machine_brings_back_what_it_made(public, alone, tmp_path, monkeypatch):
    shared = Elsewhere(tmp_path / "there")
    with one_rank(monkeypatch) as asked:
        together = train_generator(settings(2), public, context(tmp_path / "work", shared=shared))
    assert same(together, alone) and asked[0].kept[0].is_relative_to(tmp_path / "there" / "checkpoints")
    assert (tmp_path / "there" / "inputs" / public.name).is_dir() and len(shared.left) == 1


def test_a_group_that_leaves_nothing_is_an_error(public, tmp_path, monkeypatch):
    monkeypatch.setattr(ray_train, "fit", lambda *given, **more: None)
    with pytest.raises(RuntimeError, match="without leaving the trained generator"):
        train_generator(settings(2), public, context(tmp_path / "work"))


def test_a_training_alone_goes_on_from_its_last_checkpoint(public, alone, tmp_path):
    steps, begun = [], context(tmp_path / "work")

    class Stops(TaskContext):
        def progress(self, fraction, text=""):
            steps.append(text)
            if len(steps) == 2:
                raise Killed

    with pytest.raises(Killed):
        train_generator(settings(1), public, Stops(work=begun.work))
    again = train_generator(settings(1), public, Stops(work=begun.work))
    assert steps == [f"step {step}/{STEPS}" for step in range(1, STEPS + 1)] and same(again, alone)
