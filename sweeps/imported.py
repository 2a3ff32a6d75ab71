"""A classifier that somebody else trained, brought in by `smoothsweep import target`."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any

from core.errors import InputError
from sweeps.base import FilePath, Model

CARD, WEIGHTS = "target.json", "weights.safetensors"
CARD_KEYS = {"architecture", "num_classes", "image_size", "transform_input", "data", "defense", "source"}


class ImportedClassifier(Model):
    """imported: the folder that `smoothsweep import target` wrote (weights.safetensors and target.json)."""

    imported: FilePath

    @cached_property
    def folder(self) -> Path:
        return Path(self.imported).expanduser()

    @cached_property
    def card(self) -> dict[str, Any]:
        """What the import noted: architecture, num_classes, image_size, transform_input, defense. Raises InputError."""
        path = self.folder / CARD
        try:
            card = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: expected what `smoothsweep import target` writes, got: {error}") from None
        if not isinstance(card, dict) or CARD_KEYS - set(card):
            raise InputError(f"{path}: expected the keys {', '.join(sorted(CARD_KEYS))}")
        return card

    @property
    def architecture(self) -> str:
        return self.card["architecture"]

    @property
    def image_size(self) -> int:
        return self.card["image_size"]


def trained_or_imported(raw: Any) -> str:
    """Which of the two a mapping in a sweep file describes: the discriminator of their union."""
    given = raw if isinstance(raw, dict) else getattr(raw, "__dict__", {})
    return "brought_in" if "imported" in given else "trained_here"
