"""What an attacker with the target's weights can read besides its logits: features, and answers in training mode."""

from __future__ import annotations

import copy
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from smoothsweep.core.attacks.optimisation.objective import Target, target_logits
from smoothsweep.core.attacks.shared.execution import Execution, frozen_copy
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.classifiers import LogitsWithAuxiliary


class TargetLayers:
    """The layers of a frozen target on the execution's device. Every image counts in `shown`."""

    def __init__(self, target: Any, shown: list[int], execution: Execution) -> None:
        self._target, self._shown, self._execution = target, shown, execution

    def features(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """As `core.attacks.shared.view.GradientView.features`."""
        features = target_logits(self._body, images, None)
        self._shown[0] += len(images)
        return features, self._head(features)

    @torch.no_grad()
    def scores_in_training(self, images: Tensor, seed: int) -> Tensor:
        """As `core.attacks.shared.view.GradientView.scores_in_training`."""
        device = self._execution.device
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []), self._execution.arithmetic():
            torch.manual_seed(seed)
            output = self._in_training(images.to(device))
        self._shown[0] += len(images)
        logits = output.logits if isinstance(output, LogitsWithAuxiliary) else output
        return logits.float().softmax(1)

    def _require(self, is_there: bool) -> None:
        if not is_there:
            raise InputError(
                "target: expected a network with features under its last layer, got one that shows its answers alone"
            )

    @cached_property
    def _body(self) -> Target:
        self._require(all(hasattr(self._target, name) for name in ("embed", "head")))
        return self._execution.target(_Body(self._target))

    @cached_property
    def _head(self) -> nn.Module:
        return frozen_copy(self._target.head)

    @cached_property
    def _in_training(self) -> nn.Module:
        self._require(isinstance(self._target, nn.Module))
        return copy.deepcopy(self._target).train()


class _Body(nn.Module):
    """The network without its last layer."""

    def __init__(self, target: nn.Module) -> None:
        super().__init__()
        self.target: Any = target

    def forward(self, images: Tensor) -> Tensor:
        return self.target.embed(images)
