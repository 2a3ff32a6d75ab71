"""What LOMMA needs beside a GAN, as parts: the distilled students, and the target's mean feature on public images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from core.attacks.base import Part
from core.attacks.lowres.config import Distillation, StudentConfig
from core.declared import build

if TYPE_CHECKING:
    from torch import Tensor

    from core.attacks.given import Given, MadePart, Workshop
    from core.attacks.lowres.students import StudentState
    from core.attacks.view import GradientView, ScoreView
    from core.training.team import Team

STUDENTS, FEATURES = "students", "public_features"
MOST_IMAGES = 5050  # that the mean feature is taken over: 101 batches of 50 in the official code
CHECKPOINTS = 20  # per student
ROWS = 64  # images at once


def students(settings: Distillation) -> Part:
    """The students of a target."""
    return Part(name=STUDENTS, needs=("public", "target"), settings=settings.settings, workers=settings.workers)


def public_features() -> Part:
    """Mean and standard deviation of the target's penultimate features."""
    return Part(name=FEATURES, needs=("public", "target"))


def make_students(settings: Mapping[str, Any], given: Given, view: ScoreView, workshop: Workshop) -> MadePart:
    """Networks "student0", "student1", ...; tensor losses [students, steps]. One is made after the other."""
    import torch

    from core.attacks.given import MadePart
    from core.attacks.lowres.students import PublicBatches, distil
    from core.data.transforms import resize_uint8

    recipe = build(Distillation, settings, what="students", prefix="attack.students.")
    device = view.execution.device
    steps, count = recipe.steps(len(given.public), given.protocol), len(recipe.architectures)
    batches = PublicBatches(resize_uint8(given.public, view.image_size), recipe, device)
    kept, done = workshop.last_state() or {"done": [], "under_way": None}, []

    def teacher(images: Tensor) -> Tensor:
        return view.scores(images).log().to(device)

    def keep(state: StudentState) -> None:
        workshop.progress((len(done) + state.step / steps) / count, f"student {len(done)}, step {state.step}/{steps}")
        if state.step % max(1, steps // CHECKPOINTS) == 0 and state.step < steps:
            workshop.keep_state({"done": [past.checkpoint() for past in done], "under_way": state.checkpoint()})

    for number in range(count):
        state = _new_student(recipe, number, view, workshop.team)
        if number < len(kept["done"]):
            state.restore(kept["done"][number])
        elif number == len(kept["done"]) and kept["under_way"] is not None:
            state.restore(kept["under_way"])
        with view.execution.arithmetic():
            distil(state, batches.at, teacher, recipe, steps=steps, per_epoch=batches.per_epoch,
                   team=workshop.team, on_step=keep)  # fmt: skip
        done.append(state)
    losses = torch.tensor([state.losses for state in done])
    return MadePart(
        tensors={"losses": losses},
        networks={f"student{number}": state.student.eval().requires_grad_(False) for number, state in enumerate(done)},
        facts={"distillation_loss": losses[:, -max(1, steps // CHECKPOINTS) :].mean().item()},
    )


def _new_student(recipe: Distillation, number: int, view: ScoreView, team: Team) -> StudentState:
    from core.attacks.lowres.students import Student, new_training
    from core.attacks.seeds import derive_seed

    config = StudentConfig(architecture=recipe.architectures[number], classes=view.num_classes)
    seed = derive_seed(recipe.seed, "student", number)
    student = Student(config, pretrained=recipe.pretrained, seed=seed)
    return new_training(team.join(student.to(view.execution.device)), recipe)


def make_public_features(
    settings: Mapping[str, Any], given: Given, view: GradientView, workshop: Workshop
) -> MadePart:
    """mean, std [D] over at most 5,050 public images (std unbiased; the published code uses the mean alone)."""
    import torch

    from core.attacks.given import MadePart
    from core.attacks.seeds import generator
    from core.data.transforms import resize_uint8

    chosen = torch.randperm(len(given.public), generator=generator("public features"))[:MOST_IMAGES]
    images, found = resize_uint8(given.public[chosen], view.image_size), []
    with torch.no_grad(), view.execution.arithmetic():
        for batch in images.split(ROWS):
            found.append(view.features(batch.to(view.execution.device).float() / 127.5 - 1)[0].float().cpu())
    mean, std = moments(torch.cat(found))
    return MadePart(tensors={"mean": mean, "std": std}, facts={"public_images": float(len(images))})


def moments(features: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and unbiased standard deviation [D] of features [N, D]."""
    return features.mean(0), features.std(0)
