"""Classifiers that learn a target's answers by SGD, as parts of attacks: LOMMA's students, and surrogates.

Students learn the target's scores of public images (sutd-visual-computing-group/Re-thinking_MI, engine.py
train_augmodel); the target is asked as everybody else asks it. Surrogates learn what it answered to the prior's
pictures, by cross-entropy, on changed views of the pictures and on themselves: their training is given no target. Every
draw follows from the seed, the network and the step, so that a resumed training is the same training.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from smoothsweep.core.attacks.gan_training import KeptState, descend
from smoothsweep.core.attacks.optimisation.crops import apply_crops, draw_crop_per_image
from smoothsweep.core.attacks.shared.base import AttackInputs, MadePart, PartContext
from smoothsweep.core.attacks.shared.view import ScoreView, View
from smoothsweep.core.attacks.surrogates import ANSWERS, PICTURES, ROWS
from smoothsweep.core.attacks.training_settings import (
    SURROGATE_VIEWS,
    Distillation,
    DistilledBySGD,
    StudentConfig,
    SurrogateTraining,
)
from smoothsweep.core.checks import present
from smoothsweep.core.data.images import resize_uint8
from smoothsweep.core.declared import build
from smoothsweep.core.errors import TrainingDiverged
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.seeds import derive_seed, generator

CHECKPOINTS = 20
"""Checkpoints of each network's training."""


class Student(nn.Module):
    """A classifier that is known by its `config`: images [N, 3, S, S] in [-1, 1] -> logits [N, C]."""

    def __init__(self, config: StudentConfig, *, pretrained: bool = False, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        self.classifier = build_classifier(
            config.architecture, config.classes, protocol="clean", pretrained=pretrained, seed=seed
        )

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(images)


@dataclass(kw_only=True)
class DistillationState(KeptState):
    """A training under way.

    Attributes:
        settings: What tells it from another.
        losses: The loss of every step.
    """

    KIND: ClassVar[str] = "distillation checkpoint"
    MODULES: ClassVar[tuple[str, ...]] = ("network", "sgd")
    ROWS: ClassVar[tuple[str, ...]] = ("losses",)

    settings: dict[str, Any]
    network: nn.Module
    sgd: torch.optim.SGD
    losses: list[float] = field(default_factory=list)

    @property
    def step(self) -> int:
        return len(self.losses)

    def identity(self) -> dict[str, Any]:
        return self.settings


def fresh_state(network: nn.Module, recipe: DistilledBySGD, settings: dict[str, Any], **more: Any) -> DistillationState:
    """A training that begins. settings, more: how it is trained, and what else tells it from another."""
    sgd = torch.optim.SGD(
        network.parameters(), lr=recipe.lr, momentum=recipe.momentum, weight_decay=recipe.weight_decay
    )
    told = {"settings": {**settings, "architectures": list(recipe.architectures)}, **more}
    return DistillationState(settings=told, network=network.train(), sgd=sgd)


def distil(
    state: DistillationState,
    loss_at: Callable[[int], Tensor],
    *,
    steps: int,
    lr_at: Callable[[int], float],
    seed_at: Callable[[int], int],
    called: str,
    on_step: Callable[[DistillationState], None] = lambda state: None,
) -> None:
    """Take the steps that are left.

    seed_at: of what the network draws itself in a step (dropout, stochastic depth). Raises TrainingDiverged with the
    step when a loss is not finite.
    """
    device = next(state.network.parameters()).device
    while state.step < steps:
        for group in state.sgd.param_groups:
            group["lr"] = lr_at(state.step)
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(seed_at(state.step))
            loss = loss_at(state.step)
        if not loss.isfinite():
            raise TrainingDiverged(f"{called} diverged at step {state.step}: loss {loss.item():.3g}")
        descend(state.sgd, loss)
        state.losses.append(loss.item())
        on_step(state)


def distil_in_turn(
    recipe: DistilledBySGD,
    loss_at: Callable[[int, nn.Module, int], Tensor],
    *,
    told: Callable[[int], dict[str, Any]],
    lr_at: Callable[[int], float],
    seed_at: Callable[[int, int], int],
    steps: int,
    classes: int,
    called: str,
    view: View,
    part_context: PartContext,
) -> tuple[dict[str, nn.Module], Tensor]:
    """A network of each architecture, one after the other, gone on from the state that the part context kept last.

    Args:
        loss_at: (which of them, it, step) -> its loss.
        told: Which of them -> what tells its training from another.
        lr_at, seed_at: As of `distil`, the latter of (which of them, step).
        called: What is distilled, in the names of networks and in a line about the progress.

    Returns the networks by name, in eval mode without gradients, and the losses [count, steps].
    """
    kept, done, count = part_context.last_state() or {"done": [], "under_way": None}, [], len(recipe.architectures)

    def keep(state: DistillationState) -> None:
        share = (len(done) + state.step / steps) / count
        part_context.progress(share, f"{called} {len(done)}, step {state.step}/{steps}")
        if state.step % max(1, steps // CHECKPOINTS) == 0 and state.step < steps:
            part_context.keep_state({"done": [past.checkpoint() for past in done], "under_way": state.checkpoint()})

    for number, architecture in enumerate(recipe.architectures):
        config = StudentConfig(architecture=architecture, classes=classes)
        seed = derive_seed(recipe.seed, called, number)
        network = Student(config, pretrained=recipe.pretrained, seed=seed).to(view.execution.device)
        state = fresh_state(network, recipe, **told(number))
        if number < len(kept["done"]):
            state.restore(kept["done"][number])
        elif number == len(kept["done"]) and kept["under_way"] is not None:
            state.restore(kept["under_way"])
        with view.execution.arithmetic():
            distil(
                state,
                partial(loss_at, number, network),
                steps=steps,
                lr_at=lr_at,
                seed_at=partial(seed_at, number),
                called=f"{called} {number}",
                on_step=keep,
            )
        done.append(state)
    networks = {f"{called}{number}": state.network.eval().requires_grad_(False) for number, state in enumerate(done)}
    return networks, torch.tensor([state.losses for state in done])


def last_loss(losses: Tensor) -> float:
    """Mean of losses [networks, steps] over what was distilled since the last checkpoint could be kept."""
    return losses[:, -max(1, losses.shape[1] // CHECKPOINTS) :].mean().item()


def batch_rows(step: int, count: int, size: int, order: Callable[[int], torch.Generator]) -> Tensor:
    """Which of `count` images a step sees, [size]. order: epoch -> what its order is drawn from."""
    epoch, place = divmod(step, count // size)
    return torch.randperm(count, generator=order(epoch))[place * size : (place + 1) * size]


def distillation_loss(logits: Tensor, teacher: Tensor, temperature: float = 1.0) -> Tensor:
    """KL(teacher | student), mean over the batch, divided by temperature^2 as published (others multiply).

    logits, teacher: [B, C]; the teacher's logits, or the logarithms of its scores, which differ by a constant.
    """
    wanted, student_log_probabilities = (teacher / temperature).log_softmax(1), (logits / temperature).log_softmax(1)
    terms = torch.where(wanted.isneginf(), 0.0, wanted.exp() * (wanted - student_log_probabilities))
    return terms.sum(1).mean() / temperature**2


def make_students(
    settings: Mapping[str, Any], inputs: AttackInputs, view: ScoreView, part_context: PartContext
) -> MadePart:
    """Networks "student0", "student1", ...; tensor losses [students, steps]. One is made after the other."""
    recipe = build(Distillation, settings, what="students", prefix="attack.students.")
    device, images = view.execution.device, resize_uint8(present(inputs.public, "public"), view.image_size)
    steps = recipe.steps(len(images), present(inputs.protocol, "protocol"))

    def loss_at(number: int, student: nn.Module, step: int) -> Tensor:
        rows = batch_rows(
            step, len(images), recipe.batch_size, lambda epoch: generator(recipe.seed, "distil order", epoch)
        )
        batch = images[rows].to(device).float() / 127.5 - 1
        return distillation_loss(student(batch), view.scores(batch).log().to(device), recipe.temperature)

    networks, losses = distil_in_turn(
        recipe,
        loss_at,
        told=lambda number: {"settings": recipe.settings},
        lr_at=lambda step: recipe.lr_at(step // (len(images) // recipe.batch_size)),
        seed_at=lambda number, step: derive_seed(recipe.seed, "distil", step),
        steps=steps,
        classes=view.num_classes,
        called="student",
        view=view,
        part_context=part_context,
    )
    return MadePart(tensors={"losses": losses}, networks=networks, facts={"distillation_loss": last_loss(losses)})


def make_surrogates(
    settings: Mapping[str, Any], inputs: AttackInputs, view: View, part_context: PartContext
) -> MadePart:
    """Networks "surrogate0", "surrogate1", ...; losses [networks, steps]; confidences [Q, C], their mean softmax of the
    pictures."""
    own = {key: value for key, value in settings.items() if key != "learns"}
    recipe = build(SurrogateTraining, own, what="surrogates", prefix="attack.surrogates.")
    pictures, answered = inputs.parts[PICTURES]["images"], inputs.parts[ANSWERS[settings["learns"]]]
    device, classes, answers = view.execution.device, len(answered["hits"]), answered["answers"]
    answers = F.one_hot(answers, classes).float() if answers.ndim == 1 else answers
    weights, steps = answer_weights(answers, recipe.balance), recipe.steps(len(pictures))

    def loss_at(number: int, network: nn.Module, step: int) -> Tensor:
        """On a view of each picture, and half of it on the picture itself where that is shown: in one pass."""
        rows = batch_rows(
            step,
            len(pictures),
            recipe.batch_size,
            lambda epoch: generator(recipe.seed, "surrogate order", number, epoch),
        )
        shown = pictures[rows].to(device).float() / 127.5 - 1
        source = generator(recipe.seed, "surrogate view", number, step)
        views = draw_crop_per_image(SURROGATE_VIEWS, len(rows), *shown.shape[2:], source)
        changed = apply_crops(shown, views, shown.shape[-1])
        batch = torch.cat([shown, changed]) if recipe.shown == "both" else changed
        times = len(batch) // len(rows)
        wanted, weighed = answers[rows].to(device).repeat(times, 1), weights[rows].to(device).repeat(times)
        per_picture = -(wanted * network(batch).log_softmax(1)).sum(1)
        return (weighed * per_picture).sum() / weighed.sum()

    networks, losses = distil_in_turn(
        recipe,
        loss_at,
        told=lambda number: {"settings": asdict(recipe), "number": number},
        lr_at=lambda step: recipe.lr_at(step, steps),
        seed_at=lambda number, step: derive_seed(recipe.seed, "surrogate", number, step),
        steps=steps,
        classes=classes,
        called="surrogate",
        view=view,
        part_context=part_context,
    )
    found = _mean_confidences(networks.values(), pictures, view)
    agreement = (found.argmax(1) == answers.argmax(1)).float().mean().item()
    return MadePart(
        tensors={"losses": losses, "confidences": found},
        networks=networks,
        facts={"surrogate_loss": last_loss(losses), "agreement": agreement},
    )


@torch.no_grad()
def _mean_confidences(networks: Collection[nn.Module], pictures: Tensor, view: View) -> Tensor:
    """The mean softmax [Q, C] of the networks at pictures uint8 [Q, 3, R, R], on the CPU."""
    found = []
    with view.execution.arithmetic():
        for rows in pictures.split(ROWS):
            scaled = rows.to(view.execution.device).float() / 127.5 - 1
            scores = torch.stack([network(scaled).float().softmax(1) for network in networks])
            found.append(scores.mean(0).cpu())
    return torch.cat(found)


def answer_weights(answers: Tensor, balance: float) -> Tensor:
    """The weight [N] of each of the answers [N, C]: (1 - b) / (1 - b^(n + 1)), n of its class; of mean 1.

    The official SMILE multiplies the mean loss of a batch by such weights, which weighs no picture against another.
    """
    decided = answers.argmax(1)
    counts = decided.bincount(minlength=answers.shape[1])[decided].double()
    weights = (1 - balance) / (1 - balance ** (counts + 1))
    return (weights / weights.mean()).float()
