"""Pictures as they lie in the store: training images, and reconstructions by the attack's own ranking."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from safetensors import safe_open

from smoothsweep.orchestrator.planning.trial import InversionStages
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.base import Store


def class_names(store: Store, stages: InversionStages) -> list[str]:
    """Names of the classes by label."""
    return json.loads(store.needed_file(stages.data, "names.json").read_text())


def training_labels(store: Store, stages: InversionStages) -> np.ndarray:
    """int64 [N], by row of the target's training images."""
    return _tensor(store.needed_file(stages.data, "train.safetensors"), "labels")


def training_image(store: Store, stages: InversionStages, row: int) -> np.ndarray:
    """uint8 [3, H, W] of the target's training images."""
    return image_in(store.needed_file(stages.data, "train.safetensors"), row)


def reconstructed_labels(store: Store, stages: InversionStages) -> np.ndarray:
    """int64 [M], the class of every reconstruction."""
    return _tensor(_reconstructions_file(store, stages.inverted), "labels")


def reconstruction(store: Store, stages: InversionStages, label: int, rank: int) -> np.ndarray:
    """uint8 [3, H, W]: the reconstruction of a class that the attack ranks in this place, from 0."""
    rows = np.flatnonzero(reconstructed_labels(store, stages) == label)
    return image_in(_reconstructions_file(store, stages.inverted), int(rows[rank]))


def image_in(path: Path, row: int) -> np.ndarray:
    """One image as uint8 [3, H, W], read without loading the others."""
    with safe_open(str(path), framework="numpy") as file:
        image = file.get_slice("images")[row : row + 1][0]
    if image.dtype == np.uint8:
        return image
    return ((image.astype(np.float32).clip(-1, 1) + 1) * 127.5).round().astype(np.uint8)


def _reconstructions_file(store: Store, reconstructions: Stage) -> Path:
    """The images as decoded, or the largest of those kept for the judges (protocol `paper`)."""
    files = sorted(store.path(reconstructions).glob("images*.safetensors"), key=lambda path: path.stat().st_size)
    return next((path for path in files if path.name == "images.safetensors"), files[-1])


def _tensor(path: Path, name: str) -> np.ndarray:
    with safe_open(str(path), framework="numpy") as file:
        return file.get_tensor(name)
