"""How a kind of network is built again from what is kept of it: a row of a table of networks. Loads no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from smoothsweep.core.named_code import load_named


@dataclass(frozen=True, kw_only=True)
class NetworkKind:
    """A kind of network, which its card names.

    Attributes:
        config: Frozen dataclass of the configuration, which the card holds, and which checks itself.
        network: 'module:class' of the network, which is built from one configuration alone and keeps it as `config`.
            Of a prior it is a `core.priors.base.PriorNetwork`.
    """

    config: type[Any]
    network: str

    def load(self) -> type[Any]:
        """The class of the network. Loads torch."""
        return load_named(self.network)
