"""The same training loop on several workers under Ray Train: DDP, one global batch, resumable."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray
import ray.train
import torch
from ray.train import Checkpoint, CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from core.data.images import ImageSet
from core.models.classifiers import Classifier, build_classifier
from core.models.training import EpochRecord
from tasks.context import Config, TaskContext
from tasks.files import load_checkpoint, save_checkpoint
from tasks.training import Worker, train

STATE_FILE, FINAL_FILE = "state.pt", "final.pt"
WORKER_FAILURES = 3  # lost workers of one training before it counts as failed


def train_together(
    config: Config, data: ImageSet, test: ImageSet | None, context: TaskContext
) -> tuple[Classifier, list[EpochRecord]]:
    """Train on config['workers'] Ray Train workers. A lost worker costs the epochs since the last checkpoint.

    Every rank sees its slice of the one global batch that a single process would see; on GPUs BatchNorm is
    synchronised, on CPUs torch has no such layer and each rank keeps its own statistics.
    """
    on_gpu = ray.cluster_resources().get("GPU", 0) >= config["workers"]
    settings = {"config": dict(config), "work": str(context.work), "data": ray.put((data, test)), "on_gpu": on_gpu}
    TorchTrainer(
        _worker_loop,
        train_loop_config=settings,
        scaling_config=ScalingConfig(num_workers=config["workers"], use_gpu=on_gpu, resources_per_worker={"CPU": 1}),
        torch_config=TorchConfig(backend="nccl" if on_gpu else "gloo"),
        run_config=RunConfig(
            name="ray_train",
            storage_path=str(context.work),
            failure_config=FailureConfig(max_failures=WORKER_FAILURES),
            checkpoint_config=CheckpointConfig(num_to_keep=1),
            logging_config=ray.train.LoggingConfig(log_level="ERROR"),
        ),
    ).fit()
    final = load_checkpoint(context.work / FINAL_FILE)
    if final is None:
        raise RuntimeError("Ray Train ended without leaving the trained weights")
    model = build_classifier(config["architecture"], data.num_classes, protocol=config["protocol"], seed=config["seed"])
    model.load_state_dict(final["model"])
    return model, [EpochRecord(**record) for record in final["records"]]


def _worker_loop(settings: dict[str, Any]) -> None:
    """What each rank runs: the common loop, with Ray Train's checkpoints in and out."""
    context = ray.train.get_context()
    worker = Worker(
        rank=context.get_world_rank(), world_size=context.get_world_size(), wrap=_data_parallel(settings["on_gpu"])
    )
    if not settings["on_gpu"]:
        torch.set_num_threads(1)
    data, test = ray.get(settings["data"])
    task_context = TaskContext(work=Path(settings["work"]), device="cuda" if settings["on_gpu"] else "cpu")
    model, records = train(
        settings["config"], data, test if worker.rank == 0 else None, task_context,
        worker=worker, resume=_last_state(), checkpoint=_reporter(worker.rank),
    )  # fmt: skip
    if worker.rank == 0:
        state = {"model": {k: v.cpu() for k, v in model.state_dict().items()}, "records": [vars(r) for r in records]}
        save_checkpoint(task_context.work / FINAL_FILE, state)


def _data_parallel(on_gpu: bool) -> Callable[[nn.Module], nn.Module]:
    def wrap(model: nn.Module) -> nn.Module:
        if not on_gpu:
            return DistributedDataParallel(model)
        device = ray.train.torch.get_device()
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model.to(device))
        return DistributedDataParallel(model, device_ids=[device])

    return wrap


def _last_state() -> dict[str, Any] | None:
    """The state in Ray Train's last checkpoint of this run, after a lost worker or a killed driver."""
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return None
    with checkpoint.as_directory() as folder:
        return load_checkpoint(Path(folder) / STATE_FILE)


def _reporter(rank: int) -> Callable[[dict[str, Any]], None]:
    """Hands states to Ray Train. `report` is a collective: every rank calls it, rank 0 brings the checkpoint."""

    def report(state: dict[str, Any]) -> None:
        if rank != 0:
            ray.train.report({"epoch": state["epoch"]})
            return
        with tempfile.TemporaryDirectory() as folder:
            torch.save(state, Path(folder) / STATE_FILE)
            ray.train.report({"epoch": state["epoch"]}, checkpoint=Checkpoint.from_directory(folder))

    return report
