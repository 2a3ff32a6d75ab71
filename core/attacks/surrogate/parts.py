"""What the surrogate attacks need once: pictures of the prior, the target's answers to them, networks that learnt them.

The pictures are of no target, the answers are all that the target is asked for before classes are inverted, and
the networks are made from these two alone: their training is given no target.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

from smoothsweep.core.attacks.ppa.config import Pool
from smoothsweep.core.attacks.shared.base import AttackInputs, MadePart, Part, PartContext
from smoothsweep.core.attacks.surrogate.config import SurrogateTraining
from smoothsweep.core.checks import present, require
from smoothsweep.core.declared import build

if TYPE_CHECKING:
    from torch import Tensor

    from smoothsweep.core.attacks.shared.view import LabelView, ScoreView, View
    from smoothsweep.core.attacks.surrogate.training import SurrogateState

PICTURES, SURROGATES = "pictures", "surrogates"
ANSWERS: dict[str, str] = {"labels": "answered_labels", "scores": "answered_scores"}
"""Access -> the part that has the target's answers of that kind."""

ROWS = 64  # pictures at once


def surrogate_parts(pool: Pool, training: SurrogateTraining, access: Literal["labels", "scores"]) -> tuple[Part, ...]:
    """The three, in their order."""
    answers = ANSWERS[access]
    return (
        Part(name=PICTURES, needs=("prior",), settings=asdict(pool)),
        Part(name=answers, needs=("target", PICTURES)),
        Part(name=SURROGATES, needs=(PICTURES, answers), settings={**asdict(training), "learns": access}),
    )


def check_budget(pool_size: int, classes: int) -> None:
    """Raise InputError for fewer pictures than the target has classes."""
    require(pool_size >= classes, "attack.pool.size", f"at least a query for each of the {classes} classes", pool_size)


def make_pictures(settings: Mapping[str, Any], inputs: AttackInputs, view: View, part_context: PartContext) -> MadePart:
    """w [Q, num_ws, w_dim]; images uint8 [Q, 3, image_size, image_size], as they are sent to the target."""
    from smoothsweep.core.attacks.optimisation.crops import Preprocess
    from smoothsweep.core.attacks.ppa.pool import decode_pool
    from smoothsweep.core.data.images import to_uint8

    pool, prior = Pool(**settings), present(inputs.prior, "prior")
    shape = Preprocess(size=view.image_size, crop=pool.crop)
    w, images = decode_pool(prior, pool, lambda decoded: to_uint8(shape(decoded.clamp(-1, 1))), view.execution)
    return MadePart(tensors={"w": w, "images": images})


def make_answered_labels(
    settings: Mapping[str, Any], inputs: AttackInputs, view: LabelView, part_context: PartContext
) -> MadePart:
    """answers int64 [Q], a query each; hits int64 [C], how often each class was answered. Raises InputError, see
    `check_budget`."""
    return _answered(inputs, view, lambda images: view.labels(images))


def make_answered_scores(
    settings: Mapping[str, Any], inputs: AttackInputs, view: ScoreView, part_context: PartContext
) -> MadePart:
    """As `make_answered_labels`, with the probabilities float32 [Q, C]."""
    return _answered(inputs, view, lambda images: view.scores(images))


def _answered(inputs: AttackInputs, view: LabelView, ask: Any) -> MadePart:
    import torch

    from smoothsweep.core.errors import InputError

    pictures = inputs.parts[PICTURES]["images"]
    check_budget(len(pictures), view.num_classes)
    answers = torch.cat([ask(rows.float() / 127.5 - 1) for rows in pictures.split(ROWS)])
    if answers.ndim == 1 and bool((answers < 0).any()):
        nobody = int((answers < 0).sum())
        raise InputError(
            f"target: expected a class for each of {len(answers)} pictures, got none for {nobody}, which it accepts as "
            "nobody: surrogates cannot learn that; attack it by brep_mi"
        )
    decided = answers if answers.ndim == 1 else answers.argmax(1)
    hits = decided.bincount(minlength=view.num_classes)
    never = float((hits == 0).sum())
    return MadePart(tensors={"answers": answers, "hits": hits}, facts={"classes_never_hit": never})


def make_surrogates(
    settings: Mapping[str, Any], inputs: AttackInputs, view: View, part_context: PartContext
) -> MadePart:
    """Networks "surrogate0", "surrogate1", ...; losses [networks, steps]; confidences [Q, C], their mean softmax of the
    pictures."""
    import torch
    import torch.nn.functional as F

    from smoothsweep.core.attacks.distillation.training import distil_in_turn, last_loss
    from smoothsweep.core.attacks.surrogate.training import SurrogateData, answer_weights, teach

    recipe = build(
        SurrogateTraining,
        {key: value for key, value in settings.items() if key != "learns"},
        what="surrogates",
        prefix="attack.surrogates.",
    )
    pictures, answered = inputs.parts[PICTURES]["images"], inputs.parts[ANSWERS[settings["learns"]]]
    classes, answers = len(answered["hits"]), answered["answers"]
    answers = F.one_hot(answers, classes).float() if answers.ndim == 1 else answers
    lesson = SurrogateData(pictures=pictures, answers=answers, weights=answer_weights(answers, recipe.balance))

    def teach_one(state: SurrogateState, keep: Callable[[SurrogateState], None]) -> None:
        with view.execution.arithmetic():
            teach(state, lesson, view.execution.device, keep)

    done = distil_in_turn(
        lambda number: _new_surrogate(recipe, number, classes, view),
        teach_one,
        part_context,
        count=len(recipe.architectures),
        steps=recipe.steps(len(pictures)),
        called="surrogate",
    )
    networks = [state.network.eval().requires_grad_(False) for state in done]
    confidences = _confidences(networks, pictures, view)
    agreement = (confidences.argmax(1) == answers.argmax(1)).float().mean().item()
    losses = torch.tensor([state.losses for state in done])
    return MadePart(
        tensors={"losses": losses, "confidences": confidences},
        networks={f"surrogate{number}": network for number, network in enumerate(networks)},
        facts={"surrogate_loss": last_loss(losses), "agreement": agreement},
    )


def _new_surrogate(recipe: SurrogateTraining, number: int, classes: int, view: View) -> SurrogateState:
    from smoothsweep.core.attacks.distillation.config import StudentConfig
    from smoothsweep.core.attacks.distillation.students import Student
    from smoothsweep.core.attacks.surrogate.training import SurrogateState
    from smoothsweep.core.seeds import derive_seed

    config = StudentConfig(architecture=recipe.architectures[number], classes=classes)
    network = Student(config, pretrained=recipe.pretrained, seed=derive_seed(recipe.seed, "surrogate", number))
    return SurrogateState.fresh(network.to(view.execution.device), recipe, number=number)


def _confidences(networks: list[Any], pictures: Tensor, view: View) -> Tensor:
    import torch

    confidences, run = [], view.execution
    with torch.no_grad(), run.arithmetic():
        for rows in pictures.split(ROWS):
            scaled = rows.to(run.device).float() / 127.5 - 1
            confidences.append(torch.stack([network(scaled).float().softmax(1) for network in networks]).mean(0).cpu())
    return torch.cat(confidences)
