"""What recording costs: 500 trials into SQLite and into a server on PostgreSQL, while nothing else is measured.

python -m benchmarks.tracking          (needs PostgreSQL, see deploy/mlflow-postgres.sh; without it SQLite alone)

The trials' artifacts are made up, with the files, rows and epochs of real ones; recording reads and writes them as it
does in a sweep: contact sheets, tables, curves, data sets, means over seeds. Models are measured apart.
"""

from __future__ import annotations

import hashlib
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from safetensors.numpy import save_file

from benchmarks.many_recipes import many_recipes
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.planning.trials import trials_of
from smoothsweep.orchestrator.running.recorder import Recorder, open_recorder
from smoothsweep.orchestrator.stages.stage import Stage, with_ancestors
from smoothsweep.orchestrator.store.common.base import Store
from smoothsweep.orchestrator.store.local import LocalStore
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.loaded import LoadedSweep

ROOT = Path(__file__).resolve().parent.parent
RECIPES, SEEDS = 50, 5  # times the quickstart's two attacks: 500 trials
EPOCHS, CLASSES, SIDE, SHOWN = 48, 48, 64, 4
TRIAL_S = 60.0  # device-seconds of the quickstart's cheapest trials, for the share that recording would take
PORTS = (5471, 5472)


def measure(recipes: int = RECIPES) -> dict[str, float]:
    """Figures by name: seconds per trial, of the end of the sweep, MiB that the driver grew by."""
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="smoothsweep-bench-") as folder:
        Path(folder).chmod(0o755)  # PostgreSQL runs as another user
        loaded = load_sweep(_sweep_file(Path(folder), recipes))
        store, trials = LocalStore(root=Path(folder) / "store"), trials_of(loaded)
        started = time.perf_counter()
        write_artifacts(trials, store)
        figures["making_artifacts_s"] = time.perf_counter() - started
        figures.update(_recorded("sqlite", loaded, trials, store, None))
        if _server(Path(folder), "start"):
            try:
                figures.update(_recorded("postgresql", loaded, trials, store, f"http://127.0.0.1:{PORTS[0]}"))
            finally:
                _server(Path(folder), "stop")
    return figures


def _recorded(name: str, loaded: LoadedSweep, trials: list[Trial], store: Store, uri: str | None) -> dict[str, float]:
    """Record all trials, at once and then again, as a second run of the sweep does."""
    open_recorder(loaded, store, uri, models="none").connection()  # tables are made once, in 7 s
    before, cpu = _mebibytes(), time.process_time()
    first, ending = _timed(open_recorder(loaded, store, uri, models="none"), trials)
    cpu = time.process_time() - cpu
    again, _ = _timed(open_recorder(loaded, store, uri, models="none"), trials)
    return {
        f"{name}_s_per_trial": first / len(trials),
        f"{name}_end_of_sweep_s": ending,
        f"{name}_cpu_s_per_trial": cpu / len(trials),
        f"{name}_share_of_a_sweep": first / len(trials) / TRIAL_S,
        f"{name}_second_run_s": again,
        f"{name}_driver_grew_mib": _mebibytes() - before,
    }


def _timed(recorder: Recorder, trials: Sequence[Trial]) -> tuple[float, float]:
    started = time.perf_counter()
    for trial in trials:
        recorder.add(trial)
    recorder.finish()
    middle = time.perf_counter()
    recorder.close([], failed=0)
    if recorder.unwritten:
        first = next(iter(recorder.unwritten.items()))
        raise RuntimeError(f"recording: {len(recorder.unwritten)} trials not written, {first}")
    return middle - started, time.perf_counter() - middle


def _sweep_file(folder: Path, recipes: int) -> Path:
    settings = many_recipes([round(0.1 - 0.01 * i, 4) for i in range(recipes)], seeds=SEEDS) | {"name": "bench"}
    path = folder / "bench.yaml"
    path.write_text("# Recording.\n" + yaml.safe_dump(settings))
    return path


def _server(folder: Path, command: str) -> bool:
    options = ["--dir", str(folder / "server"), "--port", str(PORTS[0]), "--pg-port", str(PORTS[1])]
    script = [str(ROOT / "deploy" / "mlflow-postgres.sh"), command, *options, "--python", sys.executable]
    return subprocess.run(script, check=False, stdout=subprocess.DEVNULL).returncode == 0


def _mebibytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


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


def main() -> None:
    """Print the figures."""
    if shutil.which("pg_ctl") is None and not list(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl")):
        print("no PostgreSQL here: its script will try to install it")
    for name, value in measure().items():
        print(f"{name:32s} {value:10.4g}")


if __name__ == "__main__":
    main()
