"""A user's classifier: how it reads images, what it answers, what an attacker sees of it, and its way into a sweep."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeGuard, cast, get_args

import torch
from annotated_types import Ge
from safetensors.torch import save_file
from torch import Tensor, nn

from smoothsweep.core.attacks.shared.base import ACCESS_LEVELS, Access
from smoothsweep.core.bounds import Count
from smoothsweep.core.checks import require, require_choice
from smoothsweep.core.declared import check_value
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.base import Answers
from smoothsweep.core.external.kinds import KINDS
from smoothsweep.core.external.model import ExternalModel, OpenedModel, answering, check_side, has_gradient
from smoothsweep.core.external.named import HELD
from smoothsweep.core.files import write_file
from smoothsweep.core.held import holding
from smoothsweep.core.models.architectures import TRANSFORMS_INPUT
from smoothsweep.core.models.classifiers import Classifier, UnalteredLogits, build_classifier
from smoothsweep.core.models.inference import Channels, Normalisation, Triple
from smoothsweep.core.models.official import classifier_of
from smoothsweep.sweeps.imported import CARD, CARD_VERSION, WEIGHTS, TargetCard, checked_card

ANSWERS: tuple[Answers, ...] = get_args(Answers)
FUNCTION = "function"
"""The kind of external model that an object of this process is."""
PROBE_IMAGES = 2  # images sent to a model when it is opened


@dataclass(frozen=True)
class Model:
    """Any network or function from images to classes.

    Raises InputError for settings that contradict each other or the classifier.

    Attributes:
        classifier: Images float32 [N, 3, S, S] -> logits or probabilities float [N, C], or labels, whole numbers [N]; a
            function may answer as a numpy array. A network (also of TorchScript) is used as a copy, in evaluation mode
            and in float32, whatever the precision of its weights. Or a state dictionary, or a trainer's dictionary that
            holds one, with its `architecture`, a name as in a sweep file.
        image_size: S in pixels.
        input_range: The numbers of black and white, such as (0, 1) or (-1, 1); this or `mean` and `std` is given.
        mean, std: Mean and deviation of the channels of pictures in [0, 1], as torchvision's Normalize has them.
        channels: "rgb", or "bgr" for a network that gets blue first.
        answers: "logits", "probabilities" or "labels".
        architecture: Architecture of a state dictionary.
        num_classes: C; may be left out unless it answers labels.
        access: What an attacker sees of it; None for all that its answers give: "labels", else "gradients" where they
            carry them, else "scores". Probabilities carry their gradients through a softmax, which may vanish.
    """

    classifier: nn.Module | Callable[[Tensor], Any] | Mapping[str, Any]
    _: KW_ONLY
    image_size: int
    input_range: tuple[float, float] | None = None
    mean: Triple | None = None
    std: Triple | None = None
    channels: Channels = "rgb"
    architecture: str | None = None
    answers: Answers = "logits"
    num_classes: int | None = None
    access: Access | None = None
    reads: Normalisation = field(init=False)

    def __post_init__(self) -> None:
        if isinstance(self.classifier, Mapping):
            object.__setattr__(self, "classifier", _built(self.classifier, self.architecture))
        elif self.architecture is not None:
            raise InputError(f"architecture: expected it with a state dictionary alone, got {self.architecture}")
        require(callable(self.classifier), "model", "a network, a function or a state dictionary", self.classifier)
        check_value(Count, self.image_size, "image_size")
        require_choice("answers", self.answers, ANSWERS)
        if self.num_classes is not None:
            check_value(Annotated[Count, Ge(2)], self.num_classes, "num_classes")
        elif self.answers == "labels":
            raise InputError("num_classes: expected how many classes there are, since labels do not show it, got none")
        if self.access is not None:
            require_choice("access", self.access, ACCESS_LEVELS[1:])
        object.__setattr__(self, "reads", self._reading())

    def _reading(self) -> Normalisation:
        stated = [name for name in ("input_range", "mean", "std") if getattr(self, name) is not None]
        if stated == ["input_range"] and self.input_range is not None:
            require(len(self.input_range) == 2, "input_range", "the numbers of black and white", self.input_range)
            return Normalisation.of_range(*self.input_range, channels=self.channels)
        if stated == ["mean", "std"] and self.mean is not None and self.std is not None:
            return Normalisation(mean=(*self.mean,), std=(*self.std,), channels=self.channels)
        got = " and ".join(stated) or "nothing"
        raise InputError(f"model: expected either input_range, or mean and std, got {got}")

    @contextmanager
    def bring_in(self, folder: Path, images: Tensor, *, device: torch.device | str) -> Generator[TargetCard]:
        """Write the folder that a sweep names as an imported target, which is good within the context.

        images: float32 [N, 3, S, S] in [-1, 1]; two of them are sent to the model, which no query count includes.
        Gives the card. Raises InputError where the answers contradict the stated settings.
        """
        samples, answer = images[:PROBE_IMAGES].to(device), cast("nn.Module | Callable[[Tensor], Any]", self.classifier)
        if isinstance(answer, nn.Module):
            answer = copy.deepcopy(answer)
            # A program of TorchScript's copy has weights that are no leaves: moved before this, torch warns of their
            # gradients.
            for weights in answer.parameters():
                weights.detach_().requires_grad_(False)
            answer = answer.to(device).float().eval()
        access, classes = self._examined(answer, samples)
        card: dict[str, Any] = {"num_classes": classes, "image_size": self.image_size, "transform_input": False}
        card |= {"mean": self.reads.mean, "std": self.reads.std, "channels": self.reads.channels}
        folder.mkdir(parents=True)
        with holding(answer) as name:
            if access == "gradients" and self.answers == "logits" and _is_plain(answer):
                card |= {"architecture": answer.architecture, "transform_input": _transforms_input(answer)}
                state = {key: value.detach().cpu().contiguous() for key, value in answer.state_dict().items()}
                save_file(state, folder / WEIGHTS)
            else:
                card |= {"architecture": FUNCTION, "outside": {"answers": self.answers, "access": access}}
                write_file(folder / KINDS[FUNCTION].file, json.dumps({HELD: name}))
            checked = checked_card({"version": CARD_VERSION, "data": None, "defense": None, **card}, "model")
            write_file(folder / CARD, checked.text)
            yield checked

    def _examined(self, answer: Any, samples: Tensor) -> tuple[Access, int]:
        """What an attacker sees of the model, and how many classes it has; asks it for two images."""

        def ask(classes: int | None, access: Access) -> ExternalModel:
            return ExternalModel(
                OpenedModel(answer=answering(answer, "model")),
                answers=self.answers,
                access=access,
                num_classes=classes,
                normalisation=self.reads,
                where="model",
            )

        first = ask(self.num_classes, "scores")
        # No query is sent to a function without need: it may be an endpoint that counts queries.
        is_network = isinstance(answer, nn.Module)
        classes = (check_side(first, samples, said_by="image_size=") if is_network else first(samples)).shape[1]
        if self.answers == "probabilities":
            ask(classes, "scores").check_answers(samples, said_by="answers =")
        highest, why = self._highest(ask(classes, "gradients"), samples)
        if self.access is not None and ACCESS_LEVELS.index(self.access) > ACCESS_LEVELS.index(highest):
            raise InputError(f"access: expected at most {highest}, since {why}, got {self.access}")
        return self.access or highest, classes

    def _highest(self, opened: ExternalModel, samples: Tensor) -> tuple[Access, str]:
        """The highest access that an attacker can have, and why it is no higher."""
        if self.answers == "labels":
            return "labels", "its answers are labels"
        if isinstance(self.classifier, Classifier) and self.classifier.answer.leaves != "gradients":
            return self.classifier.answer.leaves, "its defense leaves no more"
        return ("gradients", "") if has_gradient(opened, samples) else ("scores", "its answers carry no gradients")


def _built(state: Mapping[str, Any], architecture: str | None) -> nn.Module:
    if architecture is None:
        raise InputError(
            'model: expected architecture="resnet18" or another name beside a state dictionary, which says no layers, '
            "got none"
        )
    return classifier_of(state, architecture, f"model as {architecture}")


def _is_plain(network: Any) -> TypeGuard[Classifier]:
    """Whether it is a classifier of ours as its architecture and its weights make it, which shows its layers."""
    if not isinstance(network, Classifier) or not isinstance(network.normalise, nn.Identity):
        return False
    if type(network.answer) is not UnalteredLogits or type(network.head) is not nn.Linear:
        return False
    with torch.device("meta"):
        plain = build_classifier(network.architecture, network.num_classes, protocol="clean")
    shapes = ({name: value.shape for name, value in one.state_dict().items()} for one in (plain, network))
    return next(shapes) == next(shapes)


def _transforms_input(network: Classifier) -> bool:
    return network.architecture == TRANSFORMS_INPUT and bool(getattr(network.backbone, "transform_input", False))
