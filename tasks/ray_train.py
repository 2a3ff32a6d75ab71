"""What every training under Ray Train shares: the trainer, its failures, checkpoints in and out."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import ray
import ray.train
import torch
from ray.train import Checkpoint, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer, get_device
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from smoothsweep.core import screen
from smoothsweep.core.checks import present
from smoothsweep.core.same_code import expected_code, only_this_code
from smoothsweep.tasks.context import SharedFolders, context_value, promised_gpus
from smoothsweep.tasks.unfinished import load_checkpoint, save_checkpoint

FOLDER, STATE_FILE = "ray_train", "state.pt"
WORKER_FAILURES = 3  # lost workers of one training before it counts as failed
PREEMPTIONS = -1  # machines that were drained first are no failures, however many

_TRAIN: Any = ray.train  # whose types are a union of two versions, chosen when it is imported
_Base: Any = TorchTrainer
_announcement: ContextVar[Callable[..., None] | None] = ContextVar("announcement", default=None)


def announcing(tell: Callable[..., None]) -> AbstractContextManager[None]:
    """Within it `fit` has every rank call `tell(clock=...)` when it starts; with rank 0's the devices are held."""
    return context_value(_announcement, tell)


class _Trainer(_Base):
    """A trainer without Ray's detached cleaner of placement groups, which needs the dashboard and outlives the job."""

    def _create_default_callbacks(self) -> list[Any]:
        callbacks = super()._create_default_callbacks()
        return [callback for callback in callbacks if type(callback).__name__ != "PlacementGroupCleanerCallback"]


def fit(
    loop: Callable[[dict[str, Any]], None],
    settings: dict[str, Any],
    *,
    workers: int,
    work: Path,
    shared: SharedFolders | None = None,
) -> None:
    """Run `loop(settings)` on every worker until all are through; lost workers restart from the last checkpoint.

    settings reach the loop with `on_gpu` added. State lies in `work`, so that a killed driver resumes as well; where
    machines see no common file system, `shared` says where, and what workers leave elsewhere is in `work` afterwards.
    The group's placement group is the caller's to remove if this process is killed (`cluster.remove_lost_groups`).
    Raises the first worker's error when it fails for good.
    """
    gpus = max(ray.cluster_resources().get("GPU", 0), promised_gpus() or 0)  # a cluster may yet grow them
    on_gpu = gpus >= workers
    filesystem, storage_path = shared.checkpoints(work) if shared else (None, str(work))
    _throw_away_damaged(work / FOLDER)
    trainer = _Trainer(
        _announced(loop, _announcement.get(), expected_code()),
        train_loop_config={**settings, "on_gpu": on_gpu},
        scaling_config=ScalingConfig(num_workers=workers, use_gpu=on_gpu, resources_per_worker={"CPU": 1}),
        torch_config=TorchConfig(backend="nccl" if on_gpu else "gloo"),
        run_config=_TRAIN.RunConfig(
            name=FOLDER,
            storage_path=storage_path,
            storage_filesystem=filesystem,
            failure_config=_TRAIN.FailureConfig(max_failures=WORKER_FAILURES, max_preemption_failures=PREEMPTIONS),
            checkpoint_config=_TRAIN.CheckpointConfig(num_to_keep=1),
            logging_config=_TRAIN.LoggingConfig(log_level="ERROR"),
        ),
    )
    try:
        trainer.fit()
    except ray.train.WorkerGroupError as error:
        raise next(iter(error.worker_failures.values()), error) from None
    if shared:
        shared.pull(work)


def _throw_away_damaged(folder: Path) -> None:
    """Remove what an earlier run of this training left if a note or a checkpoint in it is damaged: it starts anew."""
    try:
        for note in folder.glob("*.json"):
            json.loads(note.read_bytes())
        whole = all(load_checkpoint(state) is not None for state in folder.glob(f"*/{STATE_FILE}"))
    except (OSError, ValueError):
        whole = False
    if not whole:
        screen.err(f"smoothsweep: {folder}: checkpoints are damaged; they are thrown away")
        shutil.rmtree(folder, ignore_errors=True)


def _announced(
    loop: Callable[[dict[str, Any]], None], tell: Callable[..., None] | None, code: str | None
) -> Callable[[dict[str, Any]], None]:
    """The loop, told of when it starts on a worker, which has this code."""
    if tell is None and code is None:
        return loop

    def run(settings: dict[str, Any]) -> None:
        with only_this_code(code):
            if tell is not None:
                tell(clock=ray.train.get_context().get_world_rank() == 0)
            loop(settings)

    return run


def data_parallel(on_gpu: bool) -> Callable[[nn.Module], nn.Module]:
    """How a rank wraps a model: DDP, with synchronised BatchNorm where the device has it (torch refuses on CPUs)."""

    def wrap(model: nn.Module) -> nn.Module:
        if not on_gpu:
            return DistributedDataParallel(model)
        device = get_device()
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model.to(device))
        return DistributedDataParallel(model, device_ids=[device])

    return wrap


def last_state() -> dict[str, Any] | None:
    """The state in Ray Train's last checkpoint of this run, after a lost worker or a killed driver."""
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return None
    with checkpoint.as_directory() as folder:
        return load_checkpoint(Path(folder) / STATE_FILE)


def report_state(rank: int, state: dict[str, Any] | None, **metrics: float) -> None:
    """Hand a state to Ray Train. A collective: every rank calls it as often; rank 0 brings the checkpoint."""
    if rank != 0:
        ray.train.report(metrics)
        return
    with tempfile.TemporaryDirectory() as folder:
        save_checkpoint(Path(folder) / STATE_FILE, present(state, "state"))
        ray.train.report(metrics, checkpoint=Checkpoint.from_directory(folder))


def machine_leaves() -> bool:
    """Whether the machine of any rank is about to be taken away: Ray Train restarts the group when it is gone.

    A collective: every rank calls it as often.
    """
    return ray.train.get_preemption_info() is not None


def prepare_rank(on_gpu: bool) -> tuple[int, int, str]:
    """(rank, world size, device) of this worker; on CPUs one thread each, so that sums do not depend on cores."""
    if not on_gpu:
        torch.set_num_threads(1)
    context = ray.train.get_context()
    return context.get_world_rank(), context.get_world_size(), "cuda" if on_gpu else "cpu"
