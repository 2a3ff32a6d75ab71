"""Training a StyleGAN2 prior: one process, or several under Ray Train."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from core.priors.gan_recipe import GanRecipe
from core.priors.gan_training import train_stylegan2
from core.priors.stylegan2 import StyleGAN2
from core.priors.stylegan2_layers import StyleGAN2Config
from tasks import ray_train
from tasks.context import Config, TaskContext, joined_context
from tasks.files import load_tensors
from tasks.settings import GENERATOR_KEYS, gan_recipe
from tasks.unfinished import load_checkpoint, save_checkpoint

CHECKPOINT, FINAL_FILE = "checkpoint.pt", "final.pt"
CHECKPOINTS = 20  # per training


def train_generator(config: Config, public: Path, context: TaskContext) -> StyleGAN2:
    """The averaged generator of a training on the images of a `public` artifact; goes on from its last checkpoint."""
    images = _images(public)
    network = StyleGAN2Config(resolution=images.shape[-1], **{key: config[key] for key in GENERATOR_KEYS})
    if config["workers"] > 1:
        settings = {
            "config": dict(config), "network": network, "work": str(context.work), "data": str(public),
            "shared": context.shared,
        }  # fmt: skip
        ray_train.fit(_worker_loop, settings, workers=config["workers"], work=context.work, shared=context.shared)
        state = load_checkpoint(context.work / FINAL_FILE)
        if state is None:
            raise RuntimeError("Ray Train ended without leaving the trained generator")
    else:
        state = _train_alone(config, network, images, context)
    generator = StyleGAN2(network)
    generator.load_state_dict(state)
    return generator.eval().requires_grad_(False)


def _train_alone(config: Config, network: StyleGAN2Config, images: Tensor, context: TaskContext) -> dict[str, Any]:
    recipe, path = gan_recipe(config), context.work / CHECKPOINT

    def keep(step: int, state: dict[str, Any]) -> None:
        save_checkpoint(path, state)
        context.progress(step / recipe.steps, f"step {step}/{recipe.steps}")
        if step < recipe.steps:
            context.leave_with_the_machine()

    state, _, _ = train_stylegan2(
        images, network, recipe, seed=config["seed"], device=context.device, resume=load_checkpoint(path),
        on_checkpoint=keep, checkpoint_every=_interval(recipe), hurry=context.machine_leaves,
    )  # fmt: skip
    return state


def _worker_loop(settings: dict[str, Any]) -> None:
    """What each rank runs under Ray Train."""
    rank, world_size, device = ray_train.prepare_rank(settings["on_gpu"])
    public, work, shared = Path(settings["data"]), Path(settings["work"]), settings["shared"]
    with joined_context(public, work, device=device, shared=shared) as (folder, context):
        state = _train_on_rank(settings, _images(folder), context, rank, world_size)
        if rank == 0:
            save_checkpoint(context.work / FINAL_FILE, {name: tensor.cpu() for name, tensor in state.items()})


def _train_on_rank(
    settings: dict[str, Any], images: Tensor, context: TaskContext, rank: int, world_size: int
) -> dict[str, Any]:
    config, recipe = settings["config"], gan_recipe(settings["config"])

    def keep(step: int, state: dict[str, Any]) -> None:
        ray_train.report_state(rank, state, step=step)
        if rank == 0:
            context.progress(step / recipe.steps, f"step {step}/{recipe.steps}")

    state, _, _ = train_stylegan2(
        images, settings["network"], recipe, seed=config["seed"], device=context.device, rank=rank,
        world_size=world_size, wrap=ray_train.data_parallel(settings["on_gpu"]), resume=ray_train.last_state(),
        on_checkpoint=keep, checkpoint_every=_interval(recipe),
    )  # fmt: skip
    return state


def _images(public: Path) -> Tensor:
    return load_tensors(public / "images.safetensors")["images"]


def _interval(recipe: GanRecipe) -> int:
    return max(1, recipe.steps // CHECKPOINTS)
