"""What a kind of prior is: its settings, who makes it, and the networks that it brings. Loads no torch.

docs/new-prior.md shows how to add one. The table is `core.priors.kinds`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from smoothsweep.core.cards.network_kind import NetworkKind
from smoothsweep.core.named_code import load_named

if TYPE_CHECKING:
    from smoothsweep.core.cards.network_card import NetworkCard

WEIGHTS, DESCRIPTION, DISCRIMINATOR = "weights.safetensors", "prior.json", "discriminator.safetensors"
LICENCE = "licence.txt"  # beside weights, where what is made with them is bound to something


@dataclass(frozen=True, kw_only=True)
class PriorFiles:
    """Where a prior that is there already lies. key: of the sweep file, which named it."""

    weights: Path
    description: Path
    key: str
    discriminator: Path | None = None


@dataclass(frozen=True, kw_only=True)
class PriorSettings:
    """The parameters of a prior, the keys of a sweep file's `prior`; a kind overrides what it changes.

    Where a prior is made from public images, `network_card` is needed: planning asks for its sizes before it is made.

    Attributes:
        title: What pages call it, its kind where empty.
        unsaid: Parameters that a sweep file does not set: they are what the kind has.
        with_discriminator: Whether the discriminator that it was trained with lies beside it.
    """

    title: ClassVar[str] = ""
    unsaid: ClassVar[tuple[str, ...]] = ()
    with_discriminator: ClassVar[bool] = False

    @property
    def files(self) -> PriorFiles | None:
        """What it is read from; None where it is made from public images."""
        return None

    @property
    def licence(self) -> str | None:
        """What images and results that are made with it are bound to, for a person; None: nothing."""
        return None

    def network_card(self, size: int) -> NetworkCard:
        """What its network will be built from, of a prior that is made from public images of `size` pixels a side."""
        raise NotImplementedError  # every prior made from images has its own; those that are there are read from files

    def used_card(self, card: NetworkCard) -> NetworkCard:
        """What its network is built from, of a prior that is read from files whose card this is.

        Raises InputError for a network that these settings cannot have.
        """
        return card

    def check_public(self, *, count: int | None = None, size: int | None = None) -> None:
        """Raise InputError if it cannot be made from so many public images of that side; None: not known yet."""

    def check_shown(self, image_size: int) -> None:
        """Raise InputError if its images do not suit a target that takes images of that side."""


PriorNetworkKind = NetworkKind  # what a row of PRIORS calls it


@dataclass(frozen=True, kw_only=True)
class PriorKind:
    """One kind of prior.

    Attributes:
        make: 'module:function' of (settings, public images uint8 [N, 3, R, R] or None) -> Prior.
        needs_public: Whether it learns from the public images.
        networks: Name in prior.json -> a network that came with this kind and that no other kind brings.
        cites: Its sources, as `core.citations` has them.
    """

    settings: type[PriorSettings]
    make: str
    needs_public: bool = False
    networks: Mapping[str, PriorNetworkKind] = field(default_factory=dict)
    cites: tuple[str, ...] = ()

    def function(self) -> Callable[..., Any]:
        """The function that makes it."""
        return load_named(self.make)
