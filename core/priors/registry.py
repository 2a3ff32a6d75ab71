"""The networks of priors, and their files: weights.safetensors beside prior.json.

A directory holds a prior when it holds both. An imported StyleGAN2 has its discriminator.safetensors beside them.
Only plain tensors and JSON are read; nothing is unpickled.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from smoothsweep.core.cards import NetworkCard, read_weights, write_weights
from smoothsweep.core.checks import present
from smoothsweep.core.errors import InputError
from smoothsweep.core.files import write_file
from smoothsweep.core.held import held
from smoothsweep.core.priors.base import Prior, PriorNetwork
from smoothsweep.core.priors.kinds import NETWORKS, read_prior_card
from smoothsweep.core.priors.settings import DESCRIPTION, DISCRIMINATOR, WEIGHTS, HeldConfig, PriorSettings
from smoothsweep.core.priors.stylegan2 import StyleGAN2Discriminator


def save_prior(prior: Prior, directory: Path) -> None:
    """Write weights.safetensors and prior.json into `directory`, created if needed; prior.json last."""
    directory.mkdir(parents=True, exist_ok=True)
    write_prior(prior, weights=directory / WEIGHTS, description=directory / DESCRIPTION)


def load_prior(directory: Path) -> PriorNetwork:
    """Read what `save_prior` wrote: in eval mode, on the CPU, without parameter gradients. Raises InputError."""
    return read_prior(weights=directory / WEIGHTS, description=directory / DESCRIPTION)


def save_discriminator(discriminator: StyleGAN2Discriminator, directory: Path) -> None:
    """Write discriminator.safetensors beside the StyleGAN2 of the same configuration that `directory` holds."""
    write_weights(discriminator, directory / DISCRIMINATOR)


def load_discriminator(directory: Path) -> StyleGAN2Discriminator:
    """Read what `save_discriminator` wrote: in eval mode, on the CPU, without gradients. Raises InputError."""
    card = read_prior_card(directory / DESCRIPTION)
    if card.kind != "stylegan2":
        raise InputError(f"{directory / DESCRIPTION}: kind: expected stylegan2 with a discriminator, got {card.kind!r}")
    return read_weights(StyleGAN2Discriminator, card.config, directory / DISCRIMINATOR)


def from_files(settings: PriorSettings, images: None = None) -> Prior:
    """The prior that the settings find in a file. Raises InputError."""
    files = present(settings.files, "the prior's files")
    return read_prior(weights=files.weights, description=files.description)


def card_of(prior: Prior) -> NetworkCard:
    """What a prior in memory is built from; of a class that is none of ours, its name and the prior itself."""
    kinds = {kind.network: name for name, kind in NETWORKS.items()}
    place = f"{type(prior).__module__}:{type(prior).__qualname__}"
    if not isinstance(prior, PriorNetwork) or place not in kinds:
        return NetworkCard(kind=type(prior).__name__, config=prior)
    return NetworkCard(kind=kinds[place], config=prior.config)


def write_prior(prior: Prior, *, weights: Path, description: Path, dtype: str = "float32") -> None:
    """As `save_prior`, under any two names. dtype: of the stored weights, float32 or float16."""
    card = card_of(prior)
    if not isinstance(prior, PriorNetwork) or card.kind not in NETWORKS:
        raise ValueError(f"prior: expected one of {', '.join(sorted(NETWORKS))}, got {card.kind}")
    text = json.dumps(card.plain, indent=2) + "\n"
    write_weights(prior, weights, dtype)
    write_file(description, text)


def read_prior(*, weights: Path, description: Path) -> PriorNetwork:
    """As `load_prior`, from any two names; float16 weights become float32. Raises InputError."""
    card = read_prior_card(description)
    return read_weights(NETWORKS[card.kind].load(), card.config, weights)


class HeldPrior(PriorNetwork):
    """A prior that a caller of the library hands over, whatever its class."""

    _prior: Prior

    def __init__(self, config: HeldConfig) -> None:
        super().__init__(config)
        object.__setattr__(self, "_prior", held(config.name))  # no part of this network: its weights are not kept

    @classmethod
    def of(cls, prior: Prior, name: str) -> HeldPrior:
        """The prior that is held under this name."""
        sizes = {size: getattr(prior, size) for size in ("z_dim", "num_ws", "w_dim", "resolution")}
        return cls(HeldConfig(name=name, **sizes))

    def _apply(self, fn: Any, recurse: bool = True) -> HeldPrior:
        if isinstance(self._prior, nn.Module):
            self._prior._apply(fn, recurse)
        return self

    def sample_z(self, n: int, seed: int) -> np.ndarray:
        """As the prior draws them."""
        return self._prior.sample_z(n, seed)

    def map(self, z: Tensor, *, psi: float = 1.0, cutoff: int | None = None) -> Tensor:
        """As the prior maps them."""
        return self._prior.map(z, psi=psi, cutoff=cutoff)

    def synthesize(self, w: Tensor) -> Tensor:
        """As the prior draws them."""
        return self._prior.synthesize(w)
