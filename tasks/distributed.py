"""The classifier's training loop on several workers under Ray Train: DDP, one global batch, resumable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.models.classifiers import Classifier
from smoothsweep.core.training.batches import Stamp
from smoothsweep.core.training.classifier import EpochRecord
from smoothsweep.tasks.context import Config, TaskContext, joined_context
from smoothsweep.tasks.parts_of_images import training_images
from smoothsweep.tasks.training import Training, Worker, restored_classifier, train, train_alone
from smoothsweep.tasks.unfinished import load_checkpoint, save_checkpoint

FINAL_FILE = "final.pt"


def train_as_asked(
    training: Training,
    folder: Path,
    images: ImageSet,
    test: ImageSet,
    context: TaskContext,
    stamp: Stamp | None = None,
) -> tuple[Classifier, list[EpochRecord]]:
    """Train on as many workers as the configuration names. Raises AccuracyNotReached where it asks for more than came.

    folder: the `data` artifact that the images are of.
    """
    if training.config["workers"] > 1:
        model, records = train_together(training.config, folder, context)
    else:
        model, records = train_alone(training, images, test, context, stamp)
    training.check_goal(records)
    return model, records


def train_together(config: Config, data: Path, context: TaskContext) -> tuple[Classifier, list[EpochRecord]]:
    """Train on config['workers'] Ray Train workers. A lost worker costs the epochs since the last checkpoint.

    data: a `data` artifact, which every worker maps for itself: ten gigabytes do not travel through an object store.
    Every rank sees its slice of the one global batch that a single process would see; on GPUs BatchNorm is
    synchronised, on CPUs torch has no such layer and each rank keeps its own statistics.
    """
    from smoothsweep.tasks import ray_train  # brings Ray, which one worker does without

    settings = {"config": dict(config), "work": str(context.work), "data": str(data), "shared": context.shared}
    ray_train.fit(_worker_loop, settings, workers=config["workers"], work=context.work, shared=context.shared)
    final = load_checkpoint(context.work / FINAL_FILE)
    if final is None:
        raise RuntimeError("Ray Train ended without leaving the trained weights")
    model = restored_classifier(config, final["model"], where=str(context.work / FINAL_FILE))
    return model.to(context.device), [EpochRecord(**record) for record in final["records"]]


def _worker_loop(settings: dict[str, Any]) -> None:
    """What each rank runs: the common loop, with Ray Train's checkpoints in and out."""
    from smoothsweep.tasks import ray_train

    rank, world_size, device = ray_train.prepare_rank(settings["on_gpu"])
    worker = Worker(rank=rank, world_size=world_size, wrap=ray_train.data_parallel(settings["on_gpu"]))
    data, work, shared = Path(settings["data"]), Path(settings["work"]), settings["shared"]
    with joined_context(data, work, device=device, shared=shared) as (folder, context):
        images, test = training_images(settings["config"], folder)
        model, records = train(
            Training.of(settings["config"]),
            images,
            test,
            context,
            worker=worker,
            resume=ray_train.last_state(),
            checkpoint=lambda state: ray_train.report_state(rank, state, epoch=state["epoch"]),
            hurry=ray_train.machine_leaves,
        )
        if rank == 0:
            weights = {name: tensor.cpu().contiguous() for name, tensor in model.state_dict().items()}
            save_checkpoint(context.work / FINAL_FILE, {"model": weights, "records": [vars(r) for r in records]})
