"""Stores as finished runs leave them, with made-up numbers: nothing is trained."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors.numpy import save_file

from smoothsweep.orchestrator.commands.status import names_of
from smoothsweep.orchestrator.planning.state import write_trial_notes
from smoothsweep.orchestrator.planning.trial import Trial, trials_of
from smoothsweep.orchestrator.stages.stage import Stage, with_ancestors
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.load import load_sweep
from tests.tiny import write_tiny

EPOCHS, CLASSES, SIDE, SHOWN = 48, 48, 64, 4
NUMBERS = {"target": "test_acc", "judge_embedder": "embedder_acc1", "judge_evaluator": "attack_acc1"}
SECONDS = {"target": 10.0, "attack": 30.0}
"""What such stages took for `finish`; every other stage took a second."""


def stages_of(trials: Iterable[Trial]) -> list[Stage]:
    """Every stage of the trials once, inputs first."""
    return with_ancestors([stage for trial in trials for stage in trial.stages])


def commit(
    store: Store,
    stage: Stage,
    write: Callable[[Path], dict[str, Any] | None] = lambda folder: None,
    *,
    metrics: dict[str, Any] | None = None,
    **facts: Any,
) -> None:
    """The artifact of a stage. write: puts files into its folder, may return metrics; facts: of its manifest."""
    draft = store.draft(stage)
    found = (write(draft) or {}) | (metrics or {})
    inputs = {role: {"stage": one.name, "fingerprint": one.fingerprint} for role, one in stage.inputs.items()}
    known = {**stage.identity(), "fingerprint": stage.fingerprint, "inputs": inputs}
    store.commit(stage, draft, {**known, "metrics": found, "seconds": 1.0, **facts})


def recorded(
    folder: Path, *, root: Path | None = None, without: Iterable[str] = (), code: str = "1a2b3c", **changes: Any
) -> tuple[list[Trial], Store]:
    """The trials of a tiny sweep, and their store, for doors that read manifests alone. without: kinds of stages that
    have not finished."""
    folder.mkdir(exist_ok=True)
    loaded = load_sweep(write_tiny(folder, **changes))
    store, trials = Store(root=root or folder / "store"), trials_of(loaded)
    store.open_for_writing()
    facts = {"seconds": 2.5, "finished_at": 1.7e9, "code_version": code, "device": "cpu", "host": "here"}
    for stage in stages_of(trials):
        if stage.name not in without and not store.has(stage):
            metrics = {NUMBERS[stage.name]: int(stage.fingerprint[:4], 16) / 65535} if stage.name in NUMBERS else {}
            commit(store, stage, _name, metrics=metrics, libraries={"torch": "2"}, **facts)
    write_trial_notes(store, loaded.sweep.name, trials, names_of(loaded, trials))
    return trials, store


def _name(folder: Path) -> None:
    (folder / "what.txt").write_text("made up")


def finish(store: Store, trials: Sequence[Trial], rates: Callable[[Trial], Sequence[float]]) -> None:
    """Every stage of the trials. rates: what the judge accepts of a trial, one fraction per class."""
    judged = ((stage, trial) for trial in trials for stage in trial.stages if stage.name.startswith("judge_"))
    of_judge = {stage.fingerprint: trial for stage, trial in judged}
    for stage in stages_of(trials):

        def write(folder: Path, stage: Stage = stage) -> None:
            if (trial := of_judge.get(stage.fingerprint)) is not None:
                found = np.array(rates(trial), float)
                column = f"{stage.name.removeprefix('judge_')}_acc1"
                pd.DataFrame({"class": range(len(found)), column: found}).to_parquet(folder / "per_class.parquet")

        commit(store, stage, write, seconds=SECONDS.get(stage.name, 1.0), device="cpu")


def write_artifacts(trials: Sequence[Trial], store: Store) -> None:
    """Artifacts with the files, rows and epochs of real ones: the same for the same fingerprint."""
    facts = {"code_version": "bench", "libraries": {}, "device": "cpu", "host": "bench", "seconds": 20.0}
    for stage in stages_of(trials):
        if store.has(stage):
            continue

        def write(folder: Path, stage: Stage = stage) -> dict[str, Any]:
            metrics = _metrics(stage)
            FILES.get(stage.name, _nothing)(folder, stage, metrics)
            return metrics

        commit(store, stage, write, finished_at=1.7e9, hints=dict(stage.hints), **facts)


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
