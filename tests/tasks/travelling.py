"""What the tables of settings are run with: tasks called directly, artifacts reduced to a digest."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from safetensors.torch import load_file

from smoothsweep.core.errors import InputError
from smoothsweep.sweeps.training import Augmentation
from smoothsweep.tasks.context import TaskContext
from smoothsweep.tasks.registry import task

NEVER_THE_SAME = ("seconds",)  # a column of the history
PLAIN = {"kind": "label_smoothing", "alpha": 0.0, "schedule": {"kind": "constant"}}


def made(stage: str, config: Mapping[str, Any], inputs: Mapping[str, Path], folder: Path) -> dict[str, Any]:
    """Run the stage's task into `folder`, with a manifest as the store leaves it; its metrics."""
    shutil.rmtree(folder, ignore_errors=True)
    work = folder / ".work"
    work.mkdir(parents=True)
    metrics = task(stage).function()(dict(config), dict(inputs), folder, TaskContext(work=work))
    shutil.rmtree(work)
    (folder / "manifest.json").write_text(json.dumps({"stage": stage, "config": config, "metrics": metrics}))
    return metrics


def outcome(stage: str, config: Mapping[str, Any], inputs: Mapping[str, Path], folder: Path) -> str:
    """A digest of everything in the artifact and its metrics; or the line of the refusal."""
    try:
        metrics = made(stage, config, inputs, folder)
    except InputError as error:
        return f"refused: {error}"
    digest = hashlib.sha256(repr(sorted(metrics.items())).encode())
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".safetensors":
            for name, value in sorted(load_file(path).items()):
                digest.update(f"{name}{list(value.shape)}{value.dtype}".encode() + value.contiguous().numpy().tobytes())
        elif path.suffix == ".parquet":
            rows = pd.read_parquet(path)
            digest.update(rows.drop(columns=[c for c in NEVER_THE_SAME if c in rows]).to_csv().encode())
        elif path.name != "manifest.json" and path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()


def training(**changes: Any) -> dict[str, Any]:
    """A configuration of a tiny training."""
    return {
        "architecture": "resnet_small",
        "pretrained": False,
        "image_size": 32,
        "epochs": 2,
        "batch_size": 9,
        "optimizer": "adam",
        "lr": 0.001,
        "weight_decay": 0.0,
        "lr_schedule": "multistep",
        "augmentation": Augmentation().model_dump(mode="json"),
        "seed": 3,
        "protocol": "clean",
        **changes,
    }
