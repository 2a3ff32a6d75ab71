"""A classifier that somebody has in memory, and what its owner says of it: how it reads images, what it answers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.attacks.access import ACCESS_LEVELS, Access
from core.attacks.execution import Execution, Prepared
from core.attacks.view import View, view_of
from core.checks import require, require_choice, require_count
from core.devices import ExecutionConfig
from core.errors import InputError
from core.models.classifiers import Classifier
from core.models.normalisation import Normalisation, Triple, input_layer

Answers = Literal["logits", "probabilities", "labels"]
ANSWERS: tuple[Answers, ...] = get_args(Answers)

TRIED = 2  # images that it is shown when it is opened
_TINY = torch.finfo(torch.float32).tiny
_OFF = 1e-2  # by how much probabilities may miss 1


@dataclass(frozen=True)
class Model:
    """Any network or function from images to classes.

    classifier: images float32 [N, 3, S, S] -> logits or probabilities float [N, C], or labels, whole numbers [N]; a
    function may answer as a numpy array. It is used in evaluation mode, as a copy if it is a network. image_size: S in
    pixels. How it reads a picture, in exactly one way: input_range, the numbers of black and white, such as (0, 1) or
    (-1, 1); or mean and std of the three channels of pictures in [0, 1], as torchvision's Normalize has them.
    answers: "logits", "probabilities" or "labels". num_classes: C; may be left out unless it answers labels.
    access: what an attacker sees of it; None for all that its answers give: "labels", else "gradients" where they carry
    them, else "scores". Probabilities carry their gradients through a softmax, which may vanish.

    Raises InputError, one line, for what cannot be.
    """

    classifier: nn.Module | Callable[[Tensor], Any]
    _: KW_ONLY
    image_size: int
    input_range: tuple[float, float] | None = None
    mean: Triple | None = None
    std: Triple | None = None
    answers: Answers = "logits"
    num_classes: int | None = None
    access: Access | None = None
    reads: Normalisation = field(init=False)

    def __post_init__(self) -> None:
        require(callable(self.classifier), "model", "a network or a function", self.classifier)
        require_count("image_size", self.image_size)
        require_choice("answers", self.answers, ANSWERS)
        if self.num_classes is not None:
            require_count("num_classes", self.num_classes, 2)
        elif self.answers == "labels":
            raise InputError("num_classes: expected how many classes there are, since labels do not show it, got none")
        if self.access is not None:
            require_choice("access", self.access, ACCESS_LEVELS[1:])
        object.__setattr__(self, "reads", self._reading())

    def _reading(self) -> Normalisation:
        said = [name for name in ("input_range", "mean", "std") if getattr(self, name) is not None]
        if said == ["input_range"]:
            require(len(self.input_range) == 2, "input_range", "the numbers of black and white", self.input_range)
            return Normalisation.of_range(*self.input_range)
        if said == ["mean", "std"]:
            return Normalisation(mean=tuple(self.mean), std=tuple(self.std))
        got = " and ".join(said) or "nothing"
        raise InputError(f"model: expected either input_range, or mean and std, got {got}")

    def open(self, images: Tensor, *, device: torch.device | str = "cpu") -> OpenModel:
        """Ready to be attacked on a device. images: float32 [N, 3, S, S] in [-1, 1]; two of them are shown to it,
        beside all counts. Raises InputError where its answers are not what was said."""
        inside = self.answers == "logits" and all(hasattr(self.classifier, name) for name in ("embed", "head"))
        asked, shown = (AskedInside if inside else Asked)(self, device), images[:TRIED].to(device)
        with torch.no_grad():
            classes = asked.checked(shown).shape[1]
        highest, why = self._highest(asked, shown)
        if self.access is not None and ACCESS_LEVELS.index(self.access) > ACCESS_LEVELS.index(highest):
            raise InputError(f"access: expected at most {highest}, since {why}, got {self.access}")
        return OpenModel(
            asked, access=self.access or highest, num_classes=classes, image_size=self.image_size, device=device
        )

    def _highest(self, asked: Asked, shown: Tensor) -> tuple[Access, str]:
        """The most that an attacker can see of it, and why."""
        if self.answers == "labels":
            return "labels", "its answers are labels"
        if isinstance(self.classifier, Classifier) and self.classifier.answer.leaves != "gradients":
            return self.classifier.answer.leaves, "its defense leaves no more"
        return ("gradients", "") if _has_gradient(asked, shown) else ("scores", "its answers carry no gradients")


class Asked(nn.Module):
    """images float [N, 3, S, S] in [-1, 1] -> logits [N, C], whatever the classifier reads and answers.

    Logits of probabilities are their logarithms, of labels 1 for the class and 0 for the others. What a function
    answers is looked at every time, what a network answers when it is opened: then torch.fx can fold it.
    """

    def __init__(self, model: Model, device: torch.device | str) -> None:
        super().__init__()
        self.answers, self.num_classes = model.answers, model.num_classes
        self.device = torch.device(device)
        self.wants(model.reads)
        self.is_network = isinstance(model.classifier, nn.Module)
        self.classifier = model.classifier
        if self.is_network:
            self.classifier = copy.deepcopy(model.classifier).to(device).requires_grad_(False)
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        if not self.is_network or self.answers == "labels":
            return self.checked(images)
        return _logits(self.classifier(self.normalise(images)), self.answers)

    def checked(self, images: Tensor) -> Tensor:
        """The same. Raises InputError, one line, unless the answer is what was said."""
        answer = self.classifier(self.normalise(images))
        if self.answers == "labels":
            labels = _labels(answer, len(images), self.num_classes).to(images.device)
            return F.one_hot(labels, self.num_classes).float()
        return _logits(_rows(answer, len(images), self.answers, self.num_classes).to(images.device), self.answers)

    def wants(self, normalisation: Normalisation) -> None:
        """From now on the classifier is shown images as this normalisation has them."""
        self.normalise = input_layer(normalisation).to(self.device)


class AskedInside(Asked):
    """A network of logits with features under its last layer, as ours have them."""

    def embed(self, images: Tensor) -> Tensor:
        """Penultimate features [N, D]."""
        return self.classifier.embed(self.normalise(images))

    @property
    def head(self) -> nn.Module:
        """Features [N, D] -> logits [N, C]."""
        return self.classifier.head


class OpenModel:
    """A model on a device, of which views are cut: up to its access, and none above."""

    def __init__(
        self, asked: Asked, *, access: Access, num_classes: int, image_size: int, device: torch.device | str
    ) -> None:
        self.asked, self.access, self.num_classes, self.image_size = asked, access, num_classes, image_size
        self.execution = Execution(ExecutionConfig(), device)
        self._views: dict[Access, View] = {}

    def view(self, access: Access, who: str) -> View:
        """The view of an access level, which counts all that it was ever asked. Raises InputError, one line naming
        `who`, where the model gives less."""
        if ACCESS_LEVELS.index(access) > ACCESS_LEVELS.index(self.access):
            raise InputError(f"model: expected access to its {access} for {who}, got access to its {self.access}")
        if access not in self._views:
            # A function is not handed over as a module: nobody may copy or trace what might be an endpoint.
            target = self.asked if self.asked.is_network else Prepared(self.asked)
            self._views[access] = view_of(
                target, access, num_classes=self.num_classes, image_size=self.image_size, execution=self.execution
            )
        return self._views[access]


def _logits(answer: Tensor, answers: Answers) -> Tensor:
    return answer.clamp_min(_TINY).log() if answers == "probabilities" else answer


def _rows(answer: Any, images: int, answers: Answers, classes: int | None) -> Tensor:
    """The answer as a tensor [N, C] of finite numbers."""
    found = _tensor(answer, answers)
    wide = found.ndim == 2 and len(found) == images and found.shape[1] == (classes or max(2, found.shape[1]))
    if not wide or not found.is_floating_point():
        raise InputError(f"model: expected {answers}, floats [{images}, {classes or 'C'}], got {_form(found)}")
    if not found.isfinite().all():
        raise InputError(f"model: expected finite {answers}, got NaN or infinity")
    if answers == "probabilities" and ((found < 0).any() or ((found.detach().sum(1) - 1).abs() > _OFF).any()):
        raise InputError("model: expected probabilities, which are not negative and sum to 1, got others: logits?")
    return found


def _labels(answer: Any, images: int, classes: int) -> Tensor:
    """The answer as a tensor int64 [N]."""
    found = _tensor(answer, "labels")
    whole = not found.is_floating_point() and not found.is_complex() and found.dtype != torch.bool
    if not whole or found.shape != (images,):
        raise InputError(f"model: expected labels, whole numbers [{images}], got {_form(found)}")
    if ((found < 0) | (found >= classes)).any():
        got = f"{int(found.min())} to {int(found.max())}"
        raise InputError(f"model: expected labels from 0 to {classes - 1}, got {got}")
    return found.long()


def _tensor(answer: Any, answers: Answers) -> Tensor:
    if isinstance(answer, np.ndarray) and answer.dtype.kind in "iuf":
        return torch.from_numpy(answer)
    if not isinstance(answer, Tensor):
        raise InputError(f"model: expected {answers} as a tensor or an array of numbers, got {type(answer).__name__}")
    return answer


def _form(found: Tensor) -> str:
    return f"{str(found.dtype).removeprefix('torch.')} {list(found.shape)}"


def _has_gradient(asked: Asked, images: Tensor) -> bool:
    with torch.enable_grad():
        return asked(images[:1].clone().requires_grad_(True)).requires_grad
