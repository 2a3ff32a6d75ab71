"""Memory of the sweep's driver while trials come and go: a long sweep must not need more than a short one.

The trials share everything but the last stage, which takes a moment, so that what is measured is the driver: Tune, the
scheduler's news, the plan, the recorder.   python -m benchmarks.driver_memory [--trials 1000]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
import yaml

EVERY_S = 2.0
WARM_SHARE = 0.2  # of the trials: imports, connections and caches are made meanwhile
TRAINING = {"pretrained": False, "image_size": 32, "epochs": 1, "batch_size": 16, "augmentation": {"hue": 0.0}}


def sweep(trials: int) -> dict[str, object]:
    """A sweep of seconds whose trials differ in the attack's seed alone."""
    return {
        "name": "many",
        "seeds": [1],
        "data": {"kind": "synthetic", "identities": 2, "train_per_class": 8, "test_per_class": 4, "size": 32},
        "public": {"kind": "synthetic", "identities": 40, "per_identity": 1, "size": 32},
        "recipe": {"architecture": "resnet_small", **TRAINING},
        "prior": {"kind": "eigenfaces", "components": 8},
        "attack": {
            "pool": {"size": 8, "truncation_psi": 1.0, "truncation_cutoff": None},
            "candidates": 1,
            "steps": 1,
            "batch_size": 1,
            "selected": 1,
            "selection_repeats": 1,
        },
        "classes": [0],
        "judges": {},
        "grid": {"attack.seed": list(range(trials))},
    }


def measure(trials: int) -> dict[str, float]:
    """Resident MiB of the driver's process: after the warm-up, when the last trial ends, and the slope between; and
    the most of all, which is when the report is made of all trials.
    """
    with tempfile.TemporaryDirectory(prefix="smoothsweep-bench-") as folder:
        file, store = Path(folder) / "many.yaml", Path(folder) / "store"
        file.write_text(yaml.safe_dump(sweep(trials)))
        command = [sys.executable, "-m", "smoothsweep", "run", str(file), "--store", str(store), "--yes"]
        started = time.monotonic()
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as driver:
            samples = list(_watch(driver, store))
        seconds = time.monotonic() - started
    if driver.returncode:
        raise RuntimeError(f"the sweep ended with exit code {driver.returncode}")
    done, memory = np.array(samples, dtype=float).T
    late = (done >= WARM_SHARE * trials) & (np.arange(len(done)) <= np.argmax(done))
    slope = float(np.polyfit(done[late], memory[late], 1)[0])
    return {
        "trials": float(trials),
        "seconds": seconds,
        "after_warm_up_mib": float(memory[late][0]),
        "last_trial_mib": float(memory[late][-1]),
        "peak_mib": float(memory.max()),
        "growth_kib_per_trial": 1024 * slope,
    }


def _watch(driver: subprocess.Popen[bytes], store: Path) -> list[tuple[int, float]]:
    """(finished trials, resident MiB) every few seconds until the driver reports."""
    process, samples = psutil.Process(driver.pid), []
    while driver.poll() is None:
        time.sleep(EVERY_S)
        done = sum(1 for _ in (store / "loot").glob("?" * 64))
        try:
            memory = process.memory_info().rss / 2**20
        except psutil.NoSuchProcess:
            break
        if memory:  # nothing is left of one that has ended and was not waited for
            samples.append((done, memory))
    return samples


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=1000)
    for name, value in measure(parser.parse_args().trials).items():
        print(f"{name:<24} {value:10.1f}", flush=True)


if __name__ == "__main__":
    main()
