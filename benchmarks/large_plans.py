"""What `smoothsweep plan` takes for 90,000 trials of which nothing is in the store: `python -m benchmarks.large_plans`.

Two sweeps: 90 recipes under a thousand seeds each, and 90,000 recipes that all differ. Each is planned in a process of
its own; CPU seconds (user and system, imports included) and peak resident memory are what the kernel counts for it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from benchmarks.many_recipes import many_recipes

RECIPES, EPOCHS, RATES = 90, 10, 30
CASES = ("seeds", "recipes")


def sweep(case: str, trials: int) -> dict[str, Any]:
    """The file's mapping, of one attack: `seeds` has 90 recipes, `recipes` one seed of each of as many as trials."""
    recipes = RECIPES if case == "seeds" else trials // (EPOCHS * RATES)
    grid: dict[str, Any] = {"recipe.defense.alpha": [round(-0.0001 * i, 4) for i in range(recipes)]}
    if case == "recipes":
        grid["recipe.lr"] = [round(0.0001 * (1 + i), 4) for i in range(RATES)]
        grid["recipe.epochs"] = list(range(40, 40 + EPOCHS))
    return many_recipes([], seeds=trials // RECIPES if case == "seeds" else 1) | {"grid": grid}


def measure(case: str, trials: int) -> tuple[int, int, float, float]:
    """(trials, stages, CPU seconds, MiB at most) of the plan of a case."""
    with tempfile.TemporaryDirectory(prefix="smoothsweep-bench-") as folder:
        path = Path(folder) / f"{case}.yaml"
        path.write_text(yaml.safe_dump(sweep(case, trials)))
        command = [sys.executable, "-m", "smoothsweep", "plan", str(path), "--store", f"{folder}/none", "--json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            planned = json.loads(process.stdout.read())
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode or planned["trials"] != trials:
        raise RuntimeError(f"plan: expected {trials} trials, got {planned['trials']} (exit code {process.returncode})")
    return trials, planned["stages"], used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> None:
    """Print a line for each case and round."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=90_000, help="a multiple of 900")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    for case in CASES * options.rounds:
        trials, stages, seconds, mebibytes = measure(case, options.trials)
        print(f"{case:<8} n = {trials} trials, {stages} stages: {seconds:6.1f} CPU s, {mebibytes:6.0f} MiB", flush=True)


if __name__ == "__main__":
    main()
