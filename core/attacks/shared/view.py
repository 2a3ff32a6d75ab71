"""All that an attack gets of a target, cut down to its access level by what the view is made of.

A view holds functions, not the network: a view of labels has no function that gives scores, and nothing leads from
one to the other. Every view counts the images it was shown.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from smoothsweep.core.attacks.optimisation.descent import Target, target_logits
from smoothsweep.core.attacks.shared.base import ACCESS_LEVELS, Access
from smoothsweep.core.attacks.shared.execution import Execution, PreparedTarget, frozen_copy
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.classifiers import Classifier, LogitsWithAuxiliary

Answer = Callable[[Tensor], Tensor]
NO_PERSON = -1  # the label of an image that a recogniser does not accept as anybody
FORWARD_ROWS = 256  # images at once at most where nothing is kept for gradients


class View:
    """Access `none`: the number of classes, the size of an input, and a device to compute on.

    num_classes; image_size: side in pixels of the target's input; execution: device, precision and batch sizes.
    """

    access: Access = "none"

    def __init__(self, *, num_classes: int, image_size: int, execution: Execution) -> None:
        self.num_classes, self.image_size, self.execution = num_classes, image_size, execution
        self._shown = [0]

    @property
    def queries(self) -> int:
        """How many images the target has been shown so far."""
        return self._shown[0]


class LabelView(View):
    """Access `labels`: the class that the target decides for, and nothing else."""

    access = "labels"

    def __init__(self, *, labels: Answer, shown: list[int], **others: Any) -> None:
        super().__init__(**others)
        self._shown, self.labels = shown, labels


class ScoreView(LabelView):
    """Access `scores`: probabilities, without gradients."""

    access = "scores"

    def __init__(self, *, scores: Answer, **others: Any) -> None:
        super().__init__(**others)
        self.scores = scores


class GradientView(ScoreView):
    """Access `gradients`: logits [N, C] of images [N, 3, S, S] as a differentiable function."""

    access = "gradients"

    def __init__(self, *, logits: PreparedTarget, layers: TargetLayers, **others: Any) -> None:
        super().__init__(**others)
        self.logits, self._layers = logits, layers

    def features(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Penultimate features [N, D] and logits [N, C] of one pass, both differentiable.

        Raises InputError, one line, for a target that has no layer under its last one.
        """
        return self._layers.features(images)

    def scores_in_training(self, images: Tensor, seed: int) -> Tensor:
        """Probabilities float32 [N, C] on the device by a copy of the target in training mode, without gradients.

        Its norms use the statistics of these images, and its dropout is drawn from `seed`.
        """
        return self._layers.scores_in_training(images, seed)


def view_of(
    target: nn.Module | PreparedTarget,
    access: Access,
    *,
    num_classes: int,
    image_size: int,
    execution: Execution,
    gives: Access = "gradients",
    accepts: float | None = None,
) -> View:
    """The view of a frozen target, on the execution's device, at one access level.

    gives: what the target itself can give; raises InputError, one line, for a view of more. accepts: the logit from
    which on the target accepts an image as anybody, None for one that always decides.
    `labels(images)` gives int64 [N], -1 for an image that is accepted as nobody; `scores(images)` float32 [N, C]
    (softmax); both take images [N, 3, S, S] from any
    device and leave their answer on the CPU. What is asked under gradients counts as well. Answers are those that
    the target's defense leaves, and it gives no more than that.
    """
    leaves = target.answer.leaves if isinstance(target, Classifier) else ACCESS_LEVELS[-1]  # of it by its defense
    gives = min(gives, leaves, key=ACCESS_LEVELS.index)
    if ACCESS_LEVELS.index(access) > ACCESS_LEVELS.index(gives):
        raise InputError(f"target: expected access to its {access}, got a model that gives {gives} alone")
    common = {"num_classes": num_classes, "image_size": image_size, "execution": execution}
    if access == "none":
        return View(**common)
    shown, prepared = [0], execution.target(target)

    def counted(images: Tensor) -> Tensor:
        logits = prepared(images)
        shown[0] += len(images)  # after it: what did not fit into memory was not answered
        return logits

    logits = PreparedTarget(counted, shown=shown)

    def answers(images: Tensor, finished: Callable[[Tensor], Tensor]) -> Tensor:
        with torch.no_grad(), execution.arithmetic():

            def answer(rows: slice) -> Tensor:
                return finished(target_logits(logits, images[rows].to(execution.device), None).float()).cpu()

            batch = execution.forward_batch("classification", logits, most=FORWARD_ROWS)
            return torch.cat(batch.run(answer, len(images)))

    def scores(images: Tensor) -> Tensor:
        return answers(images, lambda scores: scores.softmax(1))

    def labels(images: Tensor) -> Tensor:
        if accepts is None:
            return scores(images).argmax(1)
        return answers(images, lambda logits: _accepted(logits, accepts))

    if access == "labels":
        return LabelView(labels=labels, shown=shown, **common)
    if access == "scores":
        return ScoreView(scores=scores, labels=labels, shown=shown, **common)
    layers = TargetLayers(target, shown, execution)
    return GradientView(logits=logits, layers=layers, scores=scores, labels=labels, shown=shown, **common)


def _accepted(logits: Tensor, accepts: float) -> Tensor:
    """The class of the largest logit, int64 [N]; -1 where that is below `accepts`."""
    largest = logits.max(1)
    return largest.indices.where(largest.values >= accepts, torch.full_like(largest.indices, NO_PERSON))


class TargetLayers:
    """The layers of a frozen target on the execution's device. Every image counts in `shown`."""

    def __init__(self, target: Any, shown: list[int], execution: Execution) -> None:
        self._target, self._shown, self._execution = target, shown, execution

    def features(self, images: Tensor) -> tuple[Tensor, Tensor]:
        features = target_logits(self._body, images, None)
        self._shown[0] += len(images)
        return features, self._head(features)

    @torch.no_grad()
    def scores_in_training(self, images: Tensor, seed: int) -> Tensor:
        device = self._execution.device
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []), self._execution.arithmetic():
            torch.manual_seed(seed)
            output = self._in_training(images.to(device))
        self._shown[0] += len(images)
        logits = output.logits if isinstance(output, LogitsWithAuxiliary) else output
        return logits.float().softmax(1)

    @cached_property
    def _body(self) -> Target:
        if not (hasattr(self._target, "embed") and hasattr(self._target, "head")):
            raise InputError(_ANSWERS_ALONE)
        return self._execution.target(_Body(self._target))

    @cached_property
    def _head(self) -> nn.Module:
        return frozen_copy(self._target.head)

    @cached_property
    def _in_training(self) -> nn.Module:
        if not isinstance(self._target, nn.Module):
            raise InputError(_ANSWERS_ALONE)
        return copy.deepcopy(self._target).train()


_ANSWERS_ALONE = "target: expected a network with features under its last layer, got one that shows its answers alone"


class _Body(nn.Module):
    """The network without its last layer."""

    def __init__(self, target: nn.Module) -> None:
        super().__init__()
        self.target: Any = target

    def forward(self, images: Tensor) -> Tensor:
        return self.target.embed(images)
