"""The attacker's priors by kind, and the card of a prior's network (prior.json). Loads no torch.

docs/new-prior.md shows how to add one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from smoothsweep.core.cards import NetworkCard, NetworkKind, read_network_card
from smoothsweep.core.checks import present
from smoothsweep.core.declared import build
from smoothsweep.core.errors import InputError
from smoothsweep.core.plugins import refuse_broken, with_plugins
from smoothsweep.core.priors.settings import (
    EigenfacesConfig,
    EigenfacesFit,
    HeldConfig,
    MobileStyleGANConfig,
    PriorFolder,
    PriorKind,
    PriorSettings,
    RandomFace,
    ShippedPrior,
    StyleGAN2Config,
)

STYLEGAN2 = ("karras2020analyzing", "karras2020training")
"""What to cite for its networks and their training."""


def _same_network(name: str, kind: PriorKind, known: Mapping[str, PriorKind]) -> str | None:
    """Why a plugin's row cannot stand beside those before it; None where it can."""
    if not issubclass(kind.settings, PriorSettings):
        return f"expected settings that derive from PriorSettings, got {kind.settings.__name__}"
    again = sorted({name for row in known.values() for name in row.networks} & set(kind.networks))
    return f"expected networks that no other prior brings, got {', '.join(again)}" if again else None


PRIORS: dict[str, PriorKind] = with_plugins(
    "priors",
    {
        "eigenfaces": PriorKind(
            settings=EigenfacesFit,
            make="smoothsweep.core.priors.eigenfaces:from_public",
            needs_public=True,
            networks={
                "eigenfaces": NetworkKind(
                    config=EigenfacesConfig, network="smoothsweep.core.priors.eigenfaces:Eigenfaces"
                )
            },
            cites=("turk1991eigenfaces",),
        ),
        "shipped": PriorKind(
            settings=ShippedPrior, make="smoothsweep.core.priors.registry:from_files", cites=STYLEGAN2
        ),
        "folder": PriorKind(
            settings=PriorFolder,
            make="smoothsweep.core.priors.registry:from_files",
            networks={
                "stylegan2": NetworkKind(config=StyleGAN2Config, network="smoothsweep.core.priors.stylegan2:StyleGAN2"),
                "held": NetworkKind(config=HeldConfig, network="smoothsweep.core.priors.registry:HeldPrior"),
            },
            cites=STYLEGAN2,
        ),
        "random_face": PriorKind(
            settings=RandomFace,
            make="smoothsweep.core.priors.random_face:framed",
            networks={
                "mobilestylegan": NetworkKind(
                    config=MobileStyleGANConfig, network="smoothsweep.core.priors.mobilestylegan:MobileStyleGAN"
                )
            },
            cites=("belousov2021mobilestylegan", "karras2019style"),
        ),
    },
    PriorKind,
    _same_network,
)

NETWORKS: dict[str, NetworkKind] = {name: kind for row in PRIORS.values() for name, kind in row.networks.items()}
"""Name in prior.json -> the network, of every kind of prior."""


def brings_network(name: str) -> str:
    """The kind of prior that brings the network of that name, a row of `NETWORKS`."""
    return next(kind for kind, row in PRIORS.items() if name in row.networks)


def make_settings(kind: str, **parameters: Any) -> PriorSettings:
    """The settings of a prior of that kind, of plain values. Raises InputError, which lists the kinds."""
    refuse_broken("priors", kind)
    if kind not in PRIORS:
        raise InputError(f"prior.kind: expected one of {', '.join(PRIORS)}, got {kind!r}")
    return build(PRIORS[kind].settings, parameters, what=f"prior {kind}", prefix="prior.")


def read_prior_card(path: Path) -> NetworkCard:
    """The checked card. Raises InputError, one line naming the file and the key."""
    configs = {name: kind.config for name, kind in NETWORKS.items()}
    return read_network_card(path, configs, "the JSON description of a prior")


def network_card(settings: PriorSettings, size: int | None) -> NetworkCard:
    """What the network of a prior is, or will be, built from.

    size: side in pixels of the public images, where it learns from them. Raises InputError, one line, for a file that
    does not say it.
    """
    if settings.files is None:
        return settings.network_card(present(size, "size"))
    return settings.used_card(read_prior_card(settings.files.description))
