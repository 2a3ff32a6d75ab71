"""What judges share that have a linear head on features learnt elsewhere, a row of `core.models.embedder_kinds`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from smoothsweep.core.bounds import FilePath
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.base import RECONSTRUCTIONS, Judge, Planned, StageBuilder
from smoothsweep.core.models.embedder_kinds import KINDS

SIDE = 160
"""Pixels of the real images, where a published set is reduced from its files."""


@dataclass(frozen=True, kw_only=True)
class ByFeatures(Judge):
    """A judge by a linear head on the features of a network that learnt on other images.

    Attributes:
        name: The network.
        weights: File of the network's weights, None for the shipped or staged one.
        verify: Whether it says too if a face recogniser accepts reconstructions as the person, by thresholds from the
            public images, and what the prior can show (its reach). false: neither; null: where there are public images
            enough; true: fewer than 50 are refused.
        networks: Networks that `name` may be.
    """

    networks: ClassVar[tuple[str, ...]] = ()
    size = SIDE
    independent = True

    name: str
    weights: FilePath | None = None
    verify: bool | None = False

    @property
    def citations(self) -> tuple[str, ...]:
        """Sources of the judge and of its network."""
        return (*self.cites, *KINDS[self.name].cites)

    @property
    def staged(self) -> str | None:
        """The network's published file, unless the settings name another."""
        return self.name if self.weights is None and KINDS[self.name].is_staged else None

    @property
    def reads_public(self) -> bool:
        """They are the strangers of verification."""
        return self.verify is not False

    @property
    def reconstruction_size(self) -> int:
        """Side in pixels at which the network is to get images."""
        return KINDS[self.name].size

    def check(self, sweep: Any) -> None:
        """Strangers, where verification is asked for."""
        if self.verify and sweep.public is None:
            raise InputError("verify: expected public images, which are its strangers, got none")

    def plan(self, builder: StageBuilder, name: str) -> Planned:
        """The real images' features; where staged weights lie the worker knows, and checks."""
        weights_source = builder.staged(self.name) if KINDS[self.name].is_staged else KINDS[self.name].shipped_file
        config = {"network": self.name, **builder.content(self.weights or weights_source, "weights")}
        hints = {"path": self.weights} if self.weights is not None else {}
        real = builder.embeddings({"data": builder.data(self.size)}, config, hints)
        return Planned(config=config, hints=hints, inputs={"real": real, RECONSTRUCTIONS: RECONSTRUCTIONS})
