"""A sweep of seconds that goes through every stage: what the end-to-end tests run."""

from pathlib import Path
from typing import Any

import yaml

from smoothsweep.core.judges.table import JUDGES

TRAINING = {
    "pretrained": False,
    "image_size": 32,
    "epochs": 2,
    "batch_size": 16,
    "augmentation": {"hue": 0.0},
}


def tiny_sweep(**changes: Any) -> dict[str, Any]:
    return {
        "name": "tiny",
        "seeds": [1],
        "data": {"kind": "synthetic", "identities": 4, "train_per_class": 8, "test_per_class": 4, "size": 32},
        "public": {"kind": "synthetic", "identities": 60, "per_identity": 1, "size": 32},
        "recipe": {"architecture": "resnet_small", "checkpoint_every": 1, **TRAINING},
        "prior": {"kind": "eigenfaces", "components": 12},
        "attack": {
            "pool": {"size": 20, "truncation_psi": 1.0, "truncation_cutoff": None},
            "candidates": 4,
            "steps": 3,
            "lr": 0.03,
            "batch_size": 4,
            "selected": 2,
            "selection_repeats": 4,
        },
        "judges": {name: dict(JUDGES[name].example) for name in ("evaluator", "embedder", "knowledge")},
        "tracking": {"models": "none"},  # their export costs more than the whole sweep
        "grid": {"recipe.defense.alpha": [0.0, -0.2]},
        "baseline": {"recipe.defense.alpha": 0.0},
        **changes,
    }


def write_tiny(folder: Path, **changes: Any) -> Path:
    path = folder / "tiny.yaml"
    path.write_text("# Tiny.\n" + yaml.safe_dump(tiny_sweep(**changes), sort_keys=False))
    return path


def searchable(name: str, search: dict[str, Any], /, **changes: Any) -> dict[str, Any]:
    """The smallest sweep that may hold a search, for tests that run nothing of it."""
    return {
        "name": name,
        "seeds": [1, 2],
        "data": {"kind": "synthetic", "identities": 4},
        "public": {"kind": "synthetic", "identities": 50},
        "recipe": {"architecture": "resnet_small", "pretrained": False, "image_size": 32, "batch_size": 16},
        "prior": {"kind": "eigenfaces", "components": 8},
        "attack": {"pool": {"size": 20}, "candidates": 4, "steps": 5, "selected": 2},
        "judges": {"embedder": {"name": "synthetic"}},
        "search": search,
        **changes,
    }
