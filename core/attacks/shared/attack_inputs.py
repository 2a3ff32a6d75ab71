"""What an attack, or the making of one of its parts, gets besides its view of the target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn

from smoothsweep.core.attacks.optimisation.losses import Protocol as AttackProtocol
from smoothsweep.core.priors.base import Prior

if TYPE_CHECKING:
    from smoothsweep.core.attacks.shared.view import GradientView

Tensors = Mapping[str, Tensor]


class PartContext(Protocol):
    """Where a part that takes long keeps its state, so that the next attempt after a crash goes on from there."""

    def last_state(self) -> dict[str, Any] | None:
        """The state kept last, tensors and plain values on the CPU; None at the beginning."""

    def keep_state(self, state: Mapping[str, Any]) -> None:
        """Replace the kept state as a whole."""

    def progress(self, fraction: float, text: str) -> None:
        """How far it is, in [0, 1], and a few words."""


@dataclass(frozen=True, kw_only=True)
class AttackInputs:
    """What the attack's `needs` name; the rest is None. Networks are frozen and on the execution's device.

    Attributes:
        protocol: "paper" or "clean", None for a part that it does not reach.
        public: uint8 [N, 3, S, S].
        parts: Name -> its tensors, read when they are looked at.
        networks: Name of a part -> its networks by name, of kinds of its own, read likewise.
        discriminator: Gives the prior's own discriminator.
        targets: Setting -> view of its target, for those of the attack's `other_targets` that are not the attacked one.
    """

    protocol: AttackProtocol | None
    prior: Prior | None = None
    public: Tensor | None = None
    discriminator: Callable[[], nn.Module] | None = None
    parts: Mapping[str, Tensors] = field(default_factory=dict)
    networks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    targets: Mapping[str, GradientView] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class MadePart:
    """A part: its tensors and its networks by name, each kept in a file of its own, and numbers to record.

    networks: of kinds in `core.attacks.kept_networks.PART_NETWORKS`.
    """

    tensors: Tensors = field(default_factory=dict)
    networks: Mapping[str, nn.Module] = field(default_factory=dict)
    facts: Mapping[str, float | None] = field(default_factory=dict)


def on_cpu(tensors: Tensors) -> dict[str, Tensor]:
    """The tensors detached, on the CPU, contiguous."""
    return {name: tensor.detach().to(torch.device("cpu")).contiguous() for name, tensor in tensors.items()}
