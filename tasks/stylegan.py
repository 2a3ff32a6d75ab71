"""Training a StyleGAN2 prior: one process, or several under Ray Train."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from smoothsweep.core.priors.gan_training import train_stylegan2
from smoothsweep.core.priors.stylegan2 import StyleGAN2
from smoothsweep.core.priors.stylegan2_settings import StyleGAN2Config, StyleGAN2Training
from smoothsweep.tasks import ray_train
from smoothsweep.tasks.context import TaskContext, joined_context
from smoothsweep.tasks.files import load_tensors
from smoothsweep.tasks.unfinished import load_checkpoint, save_checkpoint

CHECKPOINT, FINAL_FILE = "checkpoint.pt", "final.pt"
CHECKPOINTS = 20  # per training


def train_generator(settings: StyleGAN2Training, public: Path, context: TaskContext) -> StyleGAN2:
    """The averaged generator of a training on the images of a `public` artifact; goes on from its last checkpoint."""
    images = _images(public)
    network = settings.network(images.shape[-1])
    if settings.workers > 1:
        loop_settings = {
            "settings": settings,
            "network": network,
            "work": str(context.work),
            "data": str(public),
            "shared": context.shared,
        }
        ray_train.fit(_worker_loop, loop_settings, workers=settings.workers, work=context.work, shared=context.shared)
        state = load_checkpoint(context.work / FINAL_FILE)
        if state is None:
            raise RuntimeError("Ray Train ended without leaving the trained generator")
    else:
        state = _train_alone(settings, network, images, context)
    generator = StyleGAN2(network)
    generator.load_state_dict(state)
    return generator.eval().requires_grad_(False)


def _train_alone(
    settings: StyleGAN2Training, network: StyleGAN2Config, images: Tensor, context: TaskContext
) -> dict[str, Any]:
    path = context.work / CHECKPOINT

    def keep(step: int, state: dict[str, Any]) -> None:
        save_checkpoint(path, state)
        context.progress(step / settings.steps, f"step {step}/{settings.steps}")
        if step < settings.steps:
            context.leave_with_the_machine()

    state, _, _ = train_stylegan2(
        images,
        network,
        settings,
        seed=settings.seed,
        device=context.device,
        resume=load_checkpoint(path),
        on_checkpoint=keep,
        checkpoint_every=_interval(settings),
        hurry=context.machine_leaves,
    )
    return state


def _worker_loop(loop_settings: dict[str, Any]) -> None:
    """What each rank runs under Ray Train."""
    rank, world_size, device = ray_train.prepare_rank(loop_settings["on_gpu"])
    public, work, shared = Path(loop_settings["data"]), Path(loop_settings["work"]), loop_settings["shared"]
    with joined_context(public, work, device=device, shared=shared) as (folder, context):
        state = _train_on_rank(loop_settings, _images(folder), context, rank, world_size)
        if rank == 0:
            save_checkpoint(context.work / FINAL_FILE, {name: tensor.cpu() for name, tensor in state.items()})


def _train_on_rank(
    loop_settings: dict[str, Any], images: Tensor, context: TaskContext, rank: int, world_size: int
) -> dict[str, Any]:
    settings = loop_settings["settings"]

    def keep(step: int, state: dict[str, Any]) -> None:
        ray_train.report_state(rank, state, step=step)
        if rank == 0:
            context.progress(step / settings.steps, f"step {step}/{settings.steps}")

    state, _, _ = train_stylegan2(
        images,
        loop_settings["network"],
        settings,
        seed=settings.seed,
        device=context.device,
        rank=rank,
        world_size=world_size,
        wrap=ray_train.data_parallel(loop_settings["on_gpu"]),
        resume=ray_train.last_state(),
        on_checkpoint=keep,
        checkpoint_every=_interval(settings),
    )
    return state


def _images(public: Path) -> Tensor:
    return load_tensors(public / "images.safetensors")["images"]


def _interval(settings: StyleGAN2Training) -> int:
    return max(1, settings.steps // CHECKPOINTS)
