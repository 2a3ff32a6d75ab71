"""A finished sweep of three recipes under two attacks and a control, with pictures and people's names, made of known
numbers: what leaves the machine is told from what lies in it."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from safetensors.numpy import save_file

from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.load import load_sweep
from tests.made_stores import commit, stages_of
from tests.tiny import write_tiny

PEOPLE, IMAGES, SIDE = 12, 2, 16
NAMES = [f"Zuzanna-Quill-{number}" for number in range(PEOPLE)]
ALPHAS, SEEDS = [0.0, 0.1, -0.2], [1, 2, 3]
POOL = {"size": 20, "truncation_psi": 1.0, "truncation_cutoff": None}
PPA = {"kind": "ppa", "pool": POOL, "candidates": 4, "steps": 3, "selected": IMAGES, "selection_repeats": 4}
ATTACKS = [
    {**PPA, "loss": "poincare"},
    {**PPA, "loss": "cross_entropy"},
    {"kind": "random_latents", "selected": IMAGES, "truncation_psi": 1.0, "truncation_cutoff": None},
]
LEAK = {0.0: 0.8, 0.1: 0.78, -0.2: 0.2, -0.8: 0.1}
"""Factor of the smoothing -> about the fraction of reconstructions that the judge accepts."""


@dataclass(frozen=True)
class Shared:
    """sweep: its file; store: its root; rates: trial -> fraction accepted of each person; accuracy: trial -> of test
    images."""

    sweep: Path
    store: Path
    rates: dict[str, np.ndarray]
    accuracy: dict[str, float]


def made_shared(folder: Path, **changes) -> Shared:
    """The sweep as a run leaves it. changes: to its file."""
    grid = {"recipe.defense.alpha": ALPHAS, "attack": ATTACKS}
    data = {"kind": "synthetic", "identities": PEOPLE, "train_per_class": 4, "test_per_class": 4, "size": 32}
    judges = {"embedder": {"name": "synthetic"}}
    sweep = write_tiny(folder, **{"grid": grid, "seeds": SEEDS, "judges": judges, "data": data, **changes})
    store, trials = Store(root=folder / "store"), trials_of(load_sweep(sweep))
    store.open_for_writing()
    rates = {trial.id: _rates(trial) for trial in trials}
    accuracy = {trial.id: round(0.95 - abs(trial.cell.axes["alpha"]) / 10 + trial.seed / 1000, 6) for trial in trials}
    of_judge = {trial.stages[-1].fingerprint: trial for trial in trials}
    of_target = {stage.fingerprint: trial for trial in trials for stage in trial.stages if stage.name == "target"}
    for stage in stages_of(trials):
        if store.has(stage):
            continue

        def write(folder: Path, stage: Stage = stage) -> dict | None:
            if stage.name == "data":
                return _data(folder)
            if stage.name == "target":
                return _target(folder, accuracy[of_target[stage.fingerprint].id])
            if stage.name == "judge_embedder":
                return _judge(folder, rates[of_judge[stage.fingerprint].id])
            if stage.name == "loot":
                _pictures(folder / "images.safetensors", int(stage.fingerprint[:2], 16))
            return None

        commit(store, stage, write, seconds=2.0, device="cpu", host="here", libraries={})
    return Shared(sweep, store.root, rates, accuracy)


def _rates(trial) -> np.ndarray:
    """Fractions in steps of one image of two; the second attack finds a person less, the control nearly nobody."""
    alpha, attack = trial.cell.axes["alpha"], str(trial.cell.axes["attack_settings"])
    number = sum(map(ord, attack)) + round(100 * alpha) + trial.seed
    mean = 0.05 if trial.is_control else LEAK[alpha] - 0.1 * ("cross_entropy" in attack)
    return np.random.default_rng(number).binomial(IMAGES, mean, PEOPLE) / IMAGES


def _data(folder: Path) -> dict:
    labels = np.repeat(np.arange(PEOPLE), 4)
    images = np.zeros((len(labels), 3, SIDE, SIDE), np.uint8)
    images[:, 0] = 250  # photographs alone are red
    save_file({"images": images, "labels": labels}, str(folder / "train.safetensors"))
    (folder / "names.json").write_text(json.dumps(NAMES))
    return {"num_classes": PEOPLE, "num_train": len(labels), "num_test": 4 * PEOPLE}


def _target(folder: Path, accuracy: float) -> dict:
    curve = pd.DataFrame({"epoch": range(2), "alpha": 0.0, "loss": 1.0, "train_acc": 0.9, "test_acc": accuracy})
    curve.to_parquet(folder / "history.parquet")
    return {"test_acc": accuracy}


def _pictures(path: Path, shade: int) -> None:
    labels = np.repeat(np.arange(PEOPLE), IMAGES)
    images = np.zeros((len(labels), 3, SIDE, SIDE), np.uint8)
    images[:, 1] = (labels * IMAGES + np.tile(np.arange(IMAGES), PEOPLE))[:, None, None] * 8  # says class and rank
    images[:, 2] = shade
    save_file({"images": images, "labels": labels}, str(path))


def _judge(folder: Path, rates: np.ndarray) -> dict:
    classes = np.arange(PEOPLE)
    pd.DataFrame({"class": classes, "embedder_acc1": rates}).to_parquet(folder / "per_class.parquet")
    hits = [rank < round(rate * IMAGES) for rate in rates for rank in range(IMAGES)]
    images = {"class": np.repeat(classes, IMAGES), "rank": np.tile(np.arange(IMAGES), PEOPLE), "hit": hits}
    pd.DataFrame({**images, "nearest": 0, "distance": 1.0}).to_parquet(folder / "per_image.parquet")
    return {"embedder_acc1": float(rates.mean()), "dist_face": 1 - float(rates.mean()) / 2}
