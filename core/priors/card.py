"""prior.json, the card of a prior's network: its configuration, declared and checked once. Loads no torch."""

from __future__ import annotations

from pathlib import Path

from smoothsweep.core.cards.network_card import NetworkCard, read_network_card
from smoothsweep.core.checks import present
from smoothsweep.core.priors.kinds import NETWORKS
from smoothsweep.core.priors.settings import PriorSettings


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
