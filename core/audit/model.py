"""A user's classifier in memory, with its preprocessing, its kind of answers and the access it gives."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, cast, get_args

import torch
from torch import Tensor, nn

from smoothsweep.core.attacks.shared.base import ACCESS_LEVELS, Access
from smoothsweep.core.attacks.shared.execution import Execution, PreparedTarget
from smoothsweep.core.attacks.shared.view import View, view_of
from smoothsweep.core.checks import require, require_choice, require_count
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.base import Answers
from smoothsweep.core.external.model import ExternalModel, OpenedModel, answering, as_logits, check_side, has_gradient
from smoothsweep.core.models.classifiers import Classifier
from smoothsweep.core.models.inference import Channels, Normalisation, Triple, input_layer
from smoothsweep.core.models.official import classifier_of

ANSWERS: tuple[Answers, ...] = get_args(Answers)
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
        stated = [name for name in ("input_range", "mean", "std") if getattr(self, name) is not None]
        if stated == ["input_range"] and self.input_range is not None:
            require(len(self.input_range) == 2, "input_range", "the numbers of black and white", self.input_range)
            return Normalisation.of_range(*self.input_range, channels=self.channels)
        if stated == ["mean", "std"] and self.mean is not None and self.std is not None:
            return Normalisation(mean=(*self.mean,), std=(*self.std,), channels=self.channels)
        got = " and ".join(stated) or "nothing"
        raise InputError(f"model: expected either input_range, or mean and std, got {got}")

    def open(self, images: Tensor, *, device: torch.device | str = "cpu") -> OpenModel:
        """Prepare the model for attacks on a device.

        images: float32 [N, 3, S, S] in [-1, 1]; two of them are sent to the model, which no query count includes.
        Raises InputError where the answers contradict the stated settings.
        """
        samples, answer = images[:PROBE_IMAGES].to(device), cast("nn.Module | Callable[[Tensor], Any]", self.classifier)
        if isinstance(answer, nn.Module):
            answer = copy.deepcopy(answer)
            # A program of TorchScript has no requires_grad_ of its own. Its copy's weights are no leaves: moved before
            # this, torch warns of their gradients.
            for weights in answer.parameters():
                weights.detach_().requires_grad_(False)
            answer = answer.to(device).float().eval()

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
        access = self.access or highest
        opened: Network | ExternalModel = ask(classes, access)
        if isinstance(answer, nn.Module) and self.answers != "labels":
            inside = self.answers == "logits" and all(hasattr(answer, name) for name in ("embed", "head"))
            opened = (NetworkLayers if inside else Network)(answer, self.answers, self.reads, device)
        return OpenModel(opened, access=access, num_classes=classes, image_size=self.image_size, device=device)

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


class Network(nn.Module):
    """A network that answers with logits or probabilities; like `ExternalModel`, without checks of its answers.

    It is a module, so that torch.fx can fold it and an attack may use its layers.
    """

    def __init__(self, classifier: Any, answers: Answers, reads: Normalisation, device: torch.device | str) -> None:
        super().__init__()
        self.classifier: Any
        self.classifier, self.answers, self.device = classifier, answers, torch.device(device)
        self.wants(reads)
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        return as_logits(self.classifier(self.normalise(images)), self.answers)

    def wants(self, normalisation: Normalisation) -> None:
        """Use another normalisation of the images from now on."""
        self.normalise = input_layer(normalisation).to(self.device)


class NetworkLayers(Network):
    """A network of logits that also gives its penultimate features, like the networks of `core.models`."""

    def embed(self, images: Tensor) -> Tensor:
        """Penultimate features [N, D]."""
        return self.classifier.embed(self.normalise(images))

    @property
    def head(self) -> nn.Module:
        """Features [N, D] -> logits [N, C]."""
        return self.classifier.head


class OpenModel:
    """A model on a device, of which attacks get views up to its access."""

    def __init__(
        self,
        asked: Network | ExternalModel,
        *,
        access: Access,
        num_classes: int,
        image_size: int,
        device: torch.device | str,
    ) -> None:
        self.asked, self.access, self.num_classes, self.image_size = asked, access, num_classes, image_size
        self.execution = Execution(ExecutionConfig(), device)
        self._views: dict[Access, View] = {}

    def view(self, access: Access, who: str) -> View:
        """The view of an access level, which counts all queries. Raises InputError, naming `who`, for more access
        than the model gives."""
        if ACCESS_LEVELS.index(access) > ACCESS_LEVELS.index(self.access):
            raise InputError(f"model: expected access to its {access} for {who}, got access to its {self.access}")
        if access not in self._views:
            # A function is not wrapped in a module, which other code may copy or trace: it may be an endpoint.
            target = PreparedTarget(self.asked) if isinstance(self.asked, ExternalModel) else self.asked
            self._views[access] = view_of(
                target, access, num_classes=self.num_classes, image_size=self.image_size, execution=self.execution
            )
        return self._views[access]
