"""How a part of attacks is made: a row of the table of parts. It loads no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from smoothsweep.core.attacks.shared.access import Access
from smoothsweep.core.cards.network_kind import NetworkKind
from smoothsweep.core.named_code import load_named


@dataclass(frozen=True, kw_only=True)
class PartKind:
    """One kind of part.

    Attributes:
        version: Raised when the same settings would give other numbers.
        make: "module:function" of (settings, inputs, view, part_context) -> MadePart.
        access: What it sees of the target.
        trains: Whether it trains a network, and so may take a training's share of a device.
        told_protocol: Whether it depends on the protocol itself. Else `inputs.protocol` is None, and one artifact
            serves both protocols.
        distilled: Whether it learns answers of a target, and so has the target's classes without seeing the target.
        layers: Whether it reads layers of the target below the last one.
        networks: Kinds of the networks that it may leave, by their names on cards. One that decodes latents has
            `resolution` and `synthesize`.
        title: Its label for people, where that is not the name with spaces.
    """

    version: int
    make: str
    title: str = ""
    access: Access = "none"
    trains: bool = False
    told_protocol: bool = True
    distilled: bool = False
    layers: bool = False
    networks: Mapping[str, NetworkKind] = field(default_factory=dict)

    @property
    def labelled(self) -> bool:
        """Whether it numbers the target's classes."""
        return self.distilled or self.access != "none"

    def function(self) -> Callable[..., Any]:
        """The function that makes it."""
        return load_named(self.make)
