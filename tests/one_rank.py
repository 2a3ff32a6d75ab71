"""Ray Train's edge, in this process: a group of one rank under torch's own process group, and checkpoints on disk."""

import shutil
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import ray
import ray.train
import torch.distributed

from smoothsweep.tasks import ray_train


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
def one_rank(monkeypatch, killed_after=None):
    """Within it `ray_train.fit` runs here. Yields the trainers that were asked for."""
    trainer = type("OneRank", (OneRank,), {"asked": [], "killed_after": killed_after})
    here = SimpleNamespace(get_world_rank=lambda: 0, get_world_size=lambda: 1)
    with monkeypatch.context() as patched:
        patched.setattr(ray_train, "_Trainer", trainer)
        patched.setattr(ray, "cluster_resources", lambda: {"CPU": 2.0})
        patched.setattr(ray.train, "get_context", lambda: here)
        patched.setattr(ray.train, "get_checkpoint", lambda: trainer.asked[-1].last())
        patched.setattr(ray.train, "report", lambda *given, **more: trainer.asked[-1].report(*given, **more))
        patched.setattr(ray.train, "get_preemption_info", lambda: None)
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
