"""What one attack has reconstructed, as tables and pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from smoothsweep.core.audit.attacking import Attacker, InvertedClasses, OnProgress
from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.accuracy import result_slots


@dataclass(frozen=True, kw_only=True)
class AttackResult:
    """The reconstructions of one attack.

    Attributes:
        inverted: The images, their latents, and what they cost.
        seed: Seed of the attack.
    """

    inverted: InvertedClasses
    seed: int

    @property
    def name(self) -> str:
        """The name of the attack, with the settings that distinguish it from others of its kind."""
        return " ".join(filter(None, (self.inverted.kind, self.inverted.attack.variant)))

    @property
    def table(self) -> pd.DataFrame:
        """One row per image: class, rank (0: best of its class), score (the model's confidence, NaN: not queried)."""
        labels, scores = self.inverted.labels, self.inverted.scores
        score = np.full(len(labels), np.nan) if scores is None else scores.double().numpy()
        return pd.DataFrame({"class": labels.numpy(), "rank": result_slots(labels).numpy(), "score": score})

    def images(self, target_class: int) -> np.ndarray:
        """The images of a class, uint8 [k, R, R, 3], best first. Raises InputError for one that was not attacked."""
        images = self.inverted.images[self.inverted.labels == target_class]
        if not len(images):
            raise InputError(f"class: expected one that was attacked, got {target_class}")
        return np.ascontiguousarray(images.permute(0, 2, 3, 1).numpy())

    def pictures(self, target_class: int) -> list[Image.Image]:
        """The images of a class as PIL images, best first. Raises InputError for one that was not attacked."""
        return [Image.fromarray(pixels) for pixels in self.images(target_class)]


def results_of(
    attacker: Attacker,
    attacks: Sequence[Mapping[str, Any]],
    classes: Sequence[int],
    seeds: Sequence[int],
    on_progress: OnProgress,
) -> list[list[AttackResult]]:
    """The reconstructions of every attack under every seed, [attacks][seeds]. attacks: the settings of each."""
    return [
        [
            AttackResult(inverted=attacker.invert(attack, classes, seed=seed, on_progress=on_progress), seed=seed)
            for seed in seeds
        ]
        for attack in attacks
    ]
