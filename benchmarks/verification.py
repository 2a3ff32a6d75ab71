"""What it costs to verify artifacts: per GB, once per machine, again, and beside the work of a sweep.

python -m benchmarks.verification [STORE]      STORE: that of a finished sweep, e.g. the demo's
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.sleeping import Sleep
from smoothsweep.orchestrator.store.common import artifacts, verifying
from smoothsweep.orchestrator.store.common.base import Store
from smoothsweep.orchestrator.store.common.machine import CACHE_VARIABLE
from smoothsweep.orchestrator.store.local import LocalStore
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.tasks.registry import TASKS

GB = 10**9
SMALL = 1000  # artifacts


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ[CACHE_VARIABLE] = f"{folder}/cache"
        _large(Path(folder))
        _small(Path(folder))
        if len(sys.argv) > 1:
            _sweep(open_store(sys.argv[1]))


def _large(folder: Path) -> None:
    store, stage = LocalStore(root=folder / "large"), Sleep(config={"classes": 1})
    draft = store.draft(stage)
    with (draft / "tensors").open("wb") as file:
        for _ in range(16):
            file.write(os.urandom(GB // 16))
    print(f"checksums of 1 GB as it is finished: {_seconds(lambda: store.commit(stage, draft, {'metrics': {}})):.2f} s")
    print(f"reading it where it was made: {1000 * _seconds(lambda: store.path(stage)):.2f} ms")
    verifying.forget(store.place(stage))
    cpu = time.process_time()
    wall = _seconds(lambda: store.path(stage))
    print(f"on another machine, the first time: {wall:.2f} s per GB, {time.process_time() - cpu:.2f} s of CPU time")
    verifying._right.clear()
    print(f"the next process there: {1000 * _seconds(lambda: store.path(stage)):.2f} ms")


def _small(folder: Path) -> None:
    store = LocalStore(root=folder / "small")
    stages = [Sleep(config={"classes": n}) for n in range(SMALL)]
    for stage in stages:
        draft = store.draft(stage)
        (draft / "rows").write_bytes(b"x" * 1000)
        store.commit(stage, draft, {"metrics": {"a": 1.0}, "config": dict(stage.config)})
    for text in ("looking whether a stage is finished, the first time", "again"):
        print(f"{text}: {1e6 * _seconds(lambda: [store.has(s) for s in stages]) / SMALL:.0f} us")


def _sweep(store: Store) -> None:
    """All that a sweep's stages read of each other, verified as often as they did, against the time they took."""
    worked = verified = 0.0
    read = 0
    for kind in TASKS:
        for path in store.newest_manifests(kind, 10**6):
            manifest = artifacts.read_artifact(path.parent)
            worked += manifest["seconds"]
            for source in manifest["inputs"].values():
                folder = store.root / source["stage"] / source["fingerprint"]
                verifying._right.clear()  # every stage in a process of its own, which finds the machine's note
                files = artifacts.read_artifact(folder)["files"]
                verified += _seconds(lambda folder=folder, files=files: verifying.verify(folder, files))
                read += 1
    share = f"{verified:.2f} s ({verified / worked:.2%})"
    print(f"{read} inputs read by {worked:.0f} s of stages, nothing known before: {share}")


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
