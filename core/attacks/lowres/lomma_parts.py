"""What LOMMA needs beside a GAN, as parts: the distilled students, and the target's mean feature on public images."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from smoothsweep.core.attacks.distillation.config import Distillation, StudentConfig
from smoothsweep.core.attacks.shared.base import AttackInputs, MadePart, Part, PartContext
from smoothsweep.core.checks import present
from smoothsweep.core.declared import build

if TYPE_CHECKING:
    from torch import Tensor

    from smoothsweep.core.attacks.distillation.students import StudentState
    from smoothsweep.core.attacks.shared.view import GradientView, ScoreView

STUDENTS, FEATURES = "students", "public_features"
MOST_IMAGES = 5050  # that the mean feature is taken over: 101 batches of 50 in the official code
ROWS = 64  # images at once


def students(settings: Distillation) -> Part:
    """The students of a target."""
    return Part(name=STUDENTS, needs=("public", "target"), settings=settings.settings)


def public_features() -> Part:
    """Mean and standard deviation of the target's penultimate features."""
    return Part(name=FEATURES, needs=("public", "target"))


def make_students(
    settings: Mapping[str, Any], inputs: AttackInputs, view: ScoreView, part_context: PartContext
) -> MadePart:
    """Networks "student0", "student1", ...; tensor losses [students, steps]. One is made after the other."""
    import torch

    from smoothsweep.core.attacks.distillation.students import PublicBatches, distil
    from smoothsweep.core.attacks.distillation.training import distil_in_turn, last_loss
    from smoothsweep.core.data.images import resize_uint8

    recipe = build(Distillation, settings, what="students", prefix="attack.students.")
    device = view.execution.device
    steps = recipe.steps(len(present(inputs.public, "public")), present(inputs.protocol, "protocol"))
    batches = PublicBatches(resize_uint8(present(inputs.public, "public"), view.image_size), recipe, device)

    def teacher(images: Tensor) -> Tensor:
        return view.scores(images).log().to(device)

    def teach(state: StudentState, keep: Callable[[StudentState], None]) -> None:
        with view.execution.arithmetic():
            distil(
                state,
                batches.at,
                teacher,
                recipe,
                steps=steps,
                per_epoch=batches.per_epoch,
                on_step=keep,
            )

    done = distil_in_turn(
        lambda number: _new_student(recipe, number, view),
        teach,
        part_context,
        count=len(recipe.architectures),
        steps=steps,
        called="student",
    )
    losses = torch.tensor([state.losses for state in done])
    return MadePart(
        tensors={"losses": losses},
        networks={f"student{number}": state.network.eval().requires_grad_(False) for number, state in enumerate(done)},
        facts={"distillation_loss": last_loss(losses)},
    )


def _new_student(recipe: Distillation, number: int, view: ScoreView) -> StudentState:
    from smoothsweep.core.attacks.distillation.students import Student, StudentState
    from smoothsweep.core.seeds import derive_seed

    config = StudentConfig(architecture=recipe.architectures[number], classes=view.num_classes)
    seed = derive_seed(recipe.seed, "student", number)
    student = Student(config, pretrained=recipe.pretrained, seed=seed)
    return StudentState.fresh(student.to(view.execution.device), recipe)


def make_public_features(
    settings: Mapping[str, Any], inputs: AttackInputs, view: GradientView, part_context: PartContext
) -> MadePart:
    """mean, std [D] over at most 5,050 public images (std unbiased; the published code uses the mean alone)."""
    import torch

    from smoothsweep.core.data.images import resize_uint8
    from smoothsweep.core.seeds import generator

    chosen = torch.randperm(len(present(inputs.public, "public")), generator=generator("public features"))[:MOST_IMAGES]
    images, features = resize_uint8(present(inputs.public, "public")[chosen], view.image_size), []
    with torch.no_grad(), view.execution.arithmetic():
        for batch in images.split(ROWS):
            features.append(view.features(batch.to(view.execution.device).float() / 127.5 - 1)[0].float().cpu())
    mean, std = moments(torch.cat(features))
    return MadePart(tensors={"mean": mean, "std": std}, facts={"public_images": float(len(images))})


def moments(features: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and unbiased standard deviation [D] of features [N, D]."""
    return features.mean(0), features.std(0)
