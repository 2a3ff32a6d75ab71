"""Made-up artifacts of trials, with the files, rows and epochs of real ones: nothing is trained."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors.numpy import save_file

from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.stages.stage import Stage, with_ancestors
from smoothsweep.orchestrator.store.base import Store

EPOCHS, CLASSES, SIDE, SHOWN = 48, 48, 64, 4


def write_artifacts(trials: Sequence[Trial], store: Store) -> None:
    """Artifacts of all stages of the trials: made-up numbers, the same for the same fingerprint, in the real files."""
    for stage in with_ancestors([stage for trial in trials for stage in trial.stages]):
        if store.has(stage):
            continue
        folder = store.draft(stage)
        metrics = _metrics(stage)
        FILES.get(stage.name, _nothing)(folder, stage, metrics)
        manifest = {
            **stage.identity(),
            "fingerprint": stage.fingerprint,
            "metrics": metrics,
            "code_version": "bench",
            "inputs": {n: {"stage": s.name, "fingerprint": s.fingerprint} for n, s in stage.inputs.items()},
            "libraries": {},
            "device": "cpu",
            "host": "bench",
            "seconds": 20.0,
            "finished_at": 1.7e9,
            "hints": dict(stage.hints),
        }
        store.commit(stage, folder, manifest)


def _rng(stage: Stage) -> np.random.Generator:
    return np.random.default_rng(int(hashlib.sha256(stage.fingerprint.encode()).hexdigest()[:8], 16))


METRICS = {
    "target": ("test_acc", "train_acc", "ece", "logit_gap"),
    "attack": ("target_conf", "gradient_cosine", "num_frozen"),
    "judge_evaluator": (
        "attack_acc1",
        "attack_acc1_std",
        "attack_acc1_std_slots",
        "attack_acc5",
        "attack_conf",
        "dist_eval",
        "dist_eval_plain",
        "evaluator_real_acc",
    ),
    "judge_embedder": (
        "embedder_acc1",
        "embedder_acc1_std",
        "embedder_acc5",
        "embedder_real_acc",
        "dist_face",
        "dist_face_plain",
    ),
    "knowledge": ("xi_train", "xi_test"),
}


def _metrics(stage: Stage) -> dict[str, Any]:
    sizes = {
        "data": {"num_classes": CLASSES, "num_train": CLASSES * 20, "num_test": CLASSES * 10},
        "public": {"num_public": 6000},
        "pool": {"pool_size": 500},
    }
    rng, extra = _rng(stage), {"epochs_trained": EPOCHS} if stage.name == "target" else {}
    drawn = {name: round(float(rng.uniform(0.2, 0.9)), 4) for name in METRICS.get(stage.name, ())}
    drawn |= {name: 0.95 for name in drawn if name.endswith("_real_acc")}  # judges that can tell a leak
    return {**sizes.get(stage.name, {}), **drawn, **extra}


def _nothing(folder: Path, stage: Stage, metrics: dict[str, Any]) -> None:
    return None


def _data(folder: Path, stage: Stage, metrics: dict[str, Any]) -> None:
    labels = np.repeat(np.arange(CLASSES), 4)
    images = _rng(stage).integers(0, 255, (len(labels), 3, SIDE, SIDE), dtype=np.uint8)
    save_file({"images": images, "labels": labels}, str(folder / "train.safetensors"))
    (folder / "names.json").write_text(json.dumps([f"person {label}" for label in range(CLASSES)]))


def _target(folder: Path, stage: Stage, metrics: dict[str, Any]) -> None:
    rng, names = _rng(stage), ("lr", "loss", "train_acc", "test_acc", "seconds", "alpha", "logit_gap")
    history = pd.DataFrame({name: rng.uniform(0, 1, EPOCHS) for name in names})
    history.insert(0, "epoch", range(EPOCHS))
    history.to_parquet(folder / "history.parquet")


def _judge(folder: Path, stage: Stage, metrics: dict[str, Any]) -> None:
    key = "embedder_acc1" if stage.name == "judge_embedder" else "attack_acc1"
    hits = _rng(stage).uniform(0, 1, CLASSES).round(2)
    pd.DataFrame({"class": [f"person {c}" for c in range(CLASSES)], key: hits}).to_parquet(folder / "per_class.parquet")
    metrics[key] = float(hits.mean())
    count = CLASSES * SHOWN
    rows = {"class": np.repeat(np.arange(CLASSES), SHOWN), "rank": np.tile(np.arange(SHOWN), CLASSES)}
    drawn = {"hit": _rng(stage).random(count) < 0.5, "nearest": np.arange(count)}
    pd.DataFrame({**rows, **drawn}).to_parquet(folder / "per_image.parquet")


def _reconstructions(folder: Path, stage: Stage, metrics: dict[str, Any]) -> None:
    labels = np.repeat(np.arange(CLASSES), SHOWN)
    images = _rng(stage).integers(0, 255, (len(labels), 3, SIDE, SIDE), dtype=np.uint8)
    save_file({"images": images, "labels": labels}, str(folder / "images.safetensors"))


FILES = {
    "data": _data,
    "target": _target,
    "judge_evaluator": _judge,
    "judge_embedder": _judge,
    "loot": _reconstructions,
}
