"""Targets as stages train and test them: alone, interrupted, on several workers."""

import shutil
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import psutil
import pytest
import ray
import ray.train
import torch
import torch.distributed
import yaml
from tiny import tiny_sweep

from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.data.synthetic import synthetic_faces
from smoothsweep.core.metrics.accuracy import expected_calibration_error
from smoothsweep.orchestrator.cluster import connection
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.orchestrator.stages.graph import target_stage
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.expand import expand
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.training import LabelSmoothing, Recipe
from smoothsweep.tasks import ray_train
from smoothsweep.tasks.context import MachineLeaving, TaskContext, ask_machine_leaving, read_progress
from smoothsweep.tasks.files import load_images, load_tensors, save_images
from smoothsweep.tasks.target import CALIBRATION_BINS, measure_utility, train_together
from smoothsweep.tasks.training import (
    CHECKPOINT,
    STOP_KEY,
    Training,
    load_classifier,
    save_classifier,
    smoothing_of_epoch,
    train_alone,
)
from smoothsweep.tasks.unfinished import load_checkpoint


class Killed(Exception):
    """The worker is gone."""


class OneRank:
    """In the place of Ray Train's trainer: runs the loop here, as rank 0 of 1, from the last checkpoint kept.

    asked: what it was made with; killed_after: the reports after which the worker dies, None for never.
    """

    asked: list["OneRank"]
    killed_after: int | None

    def __init__(self, loop, *, train_loop_config, scaling_config, torch_config, run_config):
        self.loop, self.config = loop, train_loop_config
        self.scaling, self.torch, self.run = scaling_config, torch_config, run_config
        self.reports = []
        self.asked.append(self)

    @property
    def place(self):
        return Path(self.run.storage_path) / self.run.name

    def fit(self):
        store = torch.distributed.HashStore()
        torch.distributed.init_process_group(self.torch.backend, store=store, rank=0, world_size=1)
        try:
            self.loop(self.config)
        finally:
            torch.distributed.destroy_process_group()

    def report(self, metrics, checkpoint=None):
        self.reports.append(metrics)
        if checkpoint is not None:
            shutil.copytree(checkpoint.path, self.place / f"checkpoint_{len(self.kept):03d}")
        if len(self.reports) == self.killed_after:
            raise Killed

    @property
    def kept(self):
        return sorted(self.place.glob("checkpoint_*"))

    def last(self):
        return ray.train.Checkpoint.from_directory(self.kept[-1]) if self.kept else None


@contextmanager
def one_rank(monkeypatch, killed_after=None, leaves=None):
    """Within it `ray_train.fit` runs here. Yields the trainers that were asked for."""
    trainer = type("OneRank", (OneRank,), {"asked": [], "killed_after": killed_after})
    here = SimpleNamespace(get_world_rank=lambda: 0, get_world_size=lambda: 1)
    with monkeypatch.context() as patched:
        patched.setattr(ray_train, "_Trainer", trainer)
        patched.setattr(ray, "cluster_resources", lambda: {"CPU": 2.0})
        patched.setattr(ray.train, "get_context", lambda: here)
        patched.setattr(ray.train, "get_checkpoint", lambda: trainer.asked[-1].last())
        patched.setattr(ray.train, "report", lambda *given, **more: trainer.asked[-1].report(*given, **more))
        patched.setattr(ray.train, "get_preemption_info", lambda: leaves)
        yield trainer.asked


class Elsewhere:
    """tasks.context.SharedFolders of a worker on another machine: its own copies, and what it leaves comes back."""

    def __init__(self, root):
        self.root, self.left = Path(root), []

    def bring(self, artifact):
        return shutil.copytree(artifact, self.root / "inputs" / artifact.name, dirs_exist_ok=True)

    @contextmanager
    def joined(self, work):
        folder = self.root / f"{work.name}.joined"
        folder.mkdir(parents=True)
        yield folder
        self.left.append(folder)

    def pull(self, work):
        for folder in self.left:
            shutil.copytree(folder, work, dirs_exist_ok=True)

    def checkpoints(self, work):
        return None, str(self.root / "checkpoints")


@pytest.fixture(scope="module")
def faces():
    return synthetic_faces(population="private", identities=3, per_identity=6, size=32, seed=1)


def of_minutes(test):
    """With a real group of Ray Train."""
    return pytest.mark.slow(pytest.mark.timeout(900)(test))


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


@pytest.mark.parametrize(("reached_at", "fractions"), [(None, [0.25, 0.5, 0.75, 1.0]), (0.0, [1.0])])
def test_progress_is_the_share_of_the_epochs_or_whole_where_the_goal_is_reached(faces, tmp_path, reached_at, fractions):
    told = []

    class Told(TaskContext):
        def progress(self, fraction, text=""):
            told.append(fraction)

    settings = {**config(), **({} if reached_at is None else {STOP_KEY: reached_at})}
    train_alone(Training.of(settings), faces, faces, Told(work=tmp_path))
    assert told == fractions


@pytest.mark.parametrize("protocol", ["paper", "clean"])
def test_a_targets_calibration_follows_its_protocol(tmp_path, protocol):
    """A fifth is wrong, with a confidence of exactly 1, as negative smoothing makes it; the others have 0.95."""
    labels, wrong = torch.arange(40) % 2, torch.arange(40) % 5 == 0
    images = torch.zeros(40, 3, 8, 8, dtype=torch.uint8)
    images[(labels == 1) ^ wrong, 0] = 255
    images[~wrong, 1] = 255

    class Target(torch.nn.Module):
        def forward(self, x):
            sure = torch.where(x[:, 1].mean((1, 2)) > 0, 1.472, 30.0)
            sign = torch.where(x[:, 0].mean((1, 2)) > 0, 1.0, -1.0)
            return torch.stack([-sign * sure, sign * sure], dim=1)

    test = ImageSet(images=images, labels=labels, names=("a", "b"))
    found = measure_utility(
        Target(), test, {"image_size": 8, "protocol": protocol}, tmp_path, TaskContext(work=tmp_path)
    )
    logits = load_tensors(tmp_path / "test_logits.safetensors")["logits"]
    both = {
        name: expected_calibration_error(logits, labels, protocol=name, bins=CALIBRATION_BINS)
        for name in ("paper", "clean")
    }
    assert found["ece"] == both[protocol] and abs(both["paper"] - both["clean"]) > 0.2
    assert found["test_acc"] == 0.8


def after(looks: int):
    """A machine that leaves once it was asked about so often."""
    asked = iter(range(10**9))
    return lambda: next(asked) >= looks


class DyingAfter(TaskContext):
    """Of a process that is killed once so many epochs are done."""

    def progress(self, fraction, text=""):
        if fraction == 0.75:
            raise Killed


@pytest.mark.parametrize(
    ("every", "leaves", "context", "end"),
    [(100, after(1), TaskContext, MachineLeaving), (2, lambda: False, DyingAfter, Killed)],
    ids=["its machine leaves", "killed"],
)
def test_a_training_that_was_ended_goes_on_from_its_checkpoint_to_the_same_weights(
    faces, tmp_path, every, leaves, context, end
):
    """Before its turn, where the machine says that it leaves."""
    settings, calm, rough = Training.of(config(checkpoint_every=every)), tmp_path / "calm", tmp_path / "rough"
    calm.mkdir()
    rough.mkdir()
    expected, _ = train_alone(settings, faces, None, TaskContext(work=calm))
    with ask_machine_leaving(leaves), pytest.raises(end):
        train_alone(settings, faces, None, context(work=rough))
    assert len(load_checkpoint(rough / CHECKPOINT)["records"]) == 2
    resumed, records = train_alone(settings, faces, None, TaskContext(work=rough))
    assert [record.epoch for record in records] == [0, 1, 2, 3]
    for name, value in expected.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name


def test_the_last_epoch_is_finished_rather_than_kept(faces, tmp_path):
    with ask_machine_leaving(after(3)):
        _, records = train_alone(Training.of(config(checkpoint_every=100)), faces, None, TaskContext(work=tmp_path))
    assert len(records) == 4 and not (tmp_path / CHECKPOINT).exists()


GOAL = 0.35  # of sixteen test images; reached in the fifth epoch


@pytest.fixture(scope="module")
def two_cpus():
    connection.start_ray(num_cpus=2, object_store_memory=100 * 2**20)
    yield
    connection.stop_ray()


def stage(tmp_path, goal, **recipe):
    raw = tiny_sweep(judges={}, grid={}, baseline={})
    raw["recipe"] |= {"workers": 2, "epochs": 12, "stop_at_test_acc": goal, **recipe}
    (tmp_path / "stop.yaml").write_text(yaml.safe_dump(raw))
    return target_stage(expand(load_sweep(tmp_path / "stop.yaml"))[0].settings, 1)


def epochs_until(goal, store, target):
    """Train; how many epochs it took to reach the goal, which no epoch before did."""
    execute_with_inputs(store, target)
    history = pd.read_parquet(store.path(target) / "history.parquet")
    reached = (history["test_acc"] >= goal).tolist()
    assert reached == [False] * (len(reached) - 1) + [True] and len(reached) < 12
    return len(reached)


def kill_a_worker_after_a_checkpoint(store):
    """In the background: one of the two, once the group has left its first checkpoint."""
    while not any(store.root.glob("target/*.work/ray_train/checkpoint_*")):
        time.sleep(0.02)
    workers = [p for p in psutil.Process().children(recursive=True) if "RayTrainWorker" in "".join(p.cmdline()[:1])]
    workers[0].kill()
    killed.append(workers[0].pid)


killed = []


@of_minutes
def test_the_group_ends_with_the_epoch_that_reaches_the_goal(two_cpus, tmp_path):
    """Which falls on one that leaves a checkpoint."""
    store = open_store(str(tmp_path / "store"))
    store.open_for_writing()
    assert epochs_until(GOAL, store, stage(tmp_path, GOAL, checkpoint_every=5)) == 5


@of_minutes
def test_a_group_that_lost_a_worker_ends_with_the_same_epoch(two_cpus, tmp_path):
    store = open_store(str(tmp_path / "store"))
    store.open_for_writing()
    killer = threading.Thread(target=kill_a_worker_after_a_checkpoint, args=[store], daemon=True)
    killer.start()
    assert epochs_until(GOAL, store, stage(tmp_path, GOAL)) == 5
    assert killed


EPOCHS = 4


def config_of_distributed():
    return config(workers=2, checkpoint_every=1)


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
    return train_alone(
        Training.of(config_of_distributed()), load_images(data, "train"), load_images(data, "test"), context
    )


def context(work, **more):
    work.mkdir(exist_ok=True)
    return TaskContext(work=work, **more)


def same(one, other):
    (model, records), (expected, known) = one, other
    ours, theirs = model.state_dict(), expected.state_dict()
    assert set(ours) == set(theirs) and all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert len(records) == len(known) == EPOCHS
    return all({**vars(r), "seconds": 0} == {**vars(k), "seconds": 0} for r, k in zip(records, known, strict=True))


def test_a_rank_of_ray_train_trains_the_same_target(data, alone, tmp_path, monkeypatch):
    with one_rank(monkeypatch) as asked:
        together = train_together(config_of_distributed(), data, context(tmp_path / "work"))
    assert same(together, alone)
    [trainer] = asked
    assert trainer.scaling.num_workers == 2 and trainer.run.storage_path == str(tmp_path / "work")
    assert len(trainer.reports) == EPOCHS - 1 and read_progress(tmp_path / "work")["fraction"] == 1.0


def test_a_lost_rank_does_no_epoch_again(data, alone, tmp_path, monkeypatch):
    """Every epoch but the last is reported once, whoever did it."""
    with one_rank(monkeypatch, killed_after=2) as lost, pytest.raises(Killed):
        train_together(config_of_distributed(), data, context(tmp_path / "work"))
    with one_rank(monkeypatch) as asked:
        together = train_together(config_of_distributed(), data, context(tmp_path / "work"))
    assert (len(lost[0].reports), len(asked[0].reports)) == (2, EPOCHS - 1 - 2) and same(together, alone)


def test_a_group_whose_machine_leaves_keeps_every_epoch(data, tmp_path, monkeypatch):
    with one_rank(monkeypatch) as asked:
        train_together({**config_of_distributed(), "checkpoint_every": 100}, data, context(tmp_path / "calm"))
    assert asked[0].reports == []
    with one_rank(monkeypatch, leaves="in two minutes") as asked:
        train_together({**config_of_distributed(), "checkpoint_every": 100}, data, context(tmp_path / "leaving"))
    assert len(asked[0].reports) == EPOCHS - 1


def test_a_rank_on_another_machine_brings_back_what_it_made(data, alone, tmp_path, monkeypatch):
    shared = Elsewhere(tmp_path / "there")
    with one_rank(monkeypatch) as asked:
        together = train_together(config_of_distributed(), data, context(tmp_path / "work", shared=shared))
    assert same(together, alone) and asked[0].kept[0].is_relative_to(tmp_path / "there" / "checkpoints")
