"""What `smoothsweep ui` takes beside `mlflow ui`: processes and memory; and stores of 4, 40 and 400 trials to look at.

    python -m benchmarks.mlflow_pages FOLDER           makes FOLDER/4, FOLDER/40, FOLDER/400 and measures on FOLDER/40
    smoothsweep ui --store FOLDER/400/store            the pages, to look at

The trials are made up (`benchmarks.tracking`), their records in MLflow are real. Memory is the proportional set size of
the server's process and all of its children: pages that processes share count once.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import yaml

from benchmarks.many_recipes import many_recipes
from benchmarks.tracking import write_artifacts
from smoothsweep.orchestrator.planning.trials import trials_of
from smoothsweep.orchestrator.running.recorder import open_recorder
from smoothsweep.orchestrator.store.local import LocalStore
from smoothsweep.sweeps.load import load_sweep

SIZES = {4: (1, 2), 40: (10, 2), 400: (40, 5)}
"""Trials -> recipes and seeds; two attacks each."""
MEASURED = 40
PATIENCE_S, SETTLED_S = 900.0, 20.0


def make(folder: Path, trials: int) -> Path:
    """A store with so many recorded trials; its root."""
    recipes, seeds = SIZES[trials]
    root = folder / str(trials) / "store"
    if (root / "mlflow.db").is_file():
        return root
    root.parent.mkdir(parents=True, exist_ok=True)
    file = root.parent / "pages.yaml"
    settings = many_recipes([round(0.1 - 0.01 * i, 4) for i in range(recipes)], seeds=seeds) | {"name": "pages"}
    file.write_text("# Pages.\n" + yaml.safe_dump(settings))
    loaded, store = load_sweep(file), LocalStore(root=root)
    planned = trials_of(loaded)
    store.open_for_writing()
    write_artifacts(planned, store)
    recorder = open_recorder(loaded, store, None, models="none")
    for trial in planned:
        recorder.add(trial)
    recorder.finish()
    recorder.close([], failed=0)
    if recorder.unwritten:
        raise RuntimeError(f"recording: {next(iter(recorder.unwritten.items()))}")
    return root


def commands(root: Path, port: int) -> dict[str, list[str]]:
    """Name -> the command that serves the store."""
    database = f"sqlite:///{root / 'mlflow.db'}"
    return {
        "mlflow ui": [sys.executable, "-m", "mlflow", "ui", "--backend-store-uri", database, "--port", str(port)],
        "smoothsweep ui": [
            *(sys.executable, "-m", "smoothsweep", "ui", "--no-browser"),
            *("--store", str(root), "--port", str(port)),
        ],
    }


def measure(command: Sequence[str], port: int) -> tuple[int, float]:
    """Processes, and MiB of all of them, when the server has answered and settled."""
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        late = time.monotonic() + PATIENCE_S
        while not _answers(port):
            if time.monotonic() > late or server.poll() is not None:
                raise RuntimeError(f"{' '.join(command)}: expected an answer in {PATIENCE_S:.0f} s, got none")
            time.sleep(0.5)
        time.sleep(SETTLED_S)
        family = _family(server.pid)
        return len(family), sum(map(_mebibytes, family))
    finally:
        for process in _family(server.pid):  # the first starts no others anew then
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        server.wait()


def _answers(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
            return True
    except URLError as error:
        return hasattr(error, "code")  # refused without the token: it answers
    except OSError:
        return False


def _family(process: int) -> list[int]:
    """The process and all below it."""
    children = Path(f"/proc/{process}/task/{process}/children")
    below = [int(child) for child in children.read_text().split()] if children.is_file() else []
    return [process, *(one for child in below for one in _family(child))] if Path(f"/proc/{process}").is_dir() else []


def _mebibytes(process: int) -> float:
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def main(folder: Path, sizes: Sequence[int] = tuple(SIZES)) -> None:
    """Make the stores, then print a line for each server."""
    for trials in sizes:
        started = time.process_time()
        print(f"{make(folder, trials)}: {trials} trials, {time.process_time() - started:.0f} CPU-seconds", flush=True)
    for name in ("mlflow ui", "smoothsweep ui"):
        port = _free_port()
        processes, mebibytes = measure(commands(folder / str(MEASURED) / "store", port)[name], port)
        print(f"{name}: {processes} processes, {mebibytes:.0f} MiB", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), tuple(map(int, sys.argv[2:])) or tuple(SIZES))
