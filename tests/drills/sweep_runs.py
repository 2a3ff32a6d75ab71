"""The sweep that is disturbed, the command that runs it, what it left in its store and how much was done again; and the
table of what the drills found, written where DRILLS_TABLE says, between two marks of that page."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from drills.emulated import PATIENCE_S, wait_until
from mlflow import MlflowClient
from mlflow.entities import ViewType

from smoothsweep.core.judges.columns import TIME_COLUMNS
from smoothsweep.tasks.unfinished import load_checkpoint
from tests.tiny import tiny_sweep, write_tiny

STAGES = (
    "data",
    "public",
    "prior",
    "pool",
    "target",
    "candidates",
    "attack",
    "loot",
    "embeddings",
    "judge_evaluator",
    "judge_embedder",
    "knowledge",
)
EPOCHS = 6
LOG = "driver.log"


def write_sweep(folder: Path, **changes: Any) -> Path:
    """The tiny sweep with stages long enough to be hit: a few seconds of training, a second for a class."""
    plain = tiny_sweep()
    folder.mkdir(parents=True, exist_ok=True)
    return write_tiny(
        folder,
        **{
            "recipe": {**plain["recipe"], "epochs": EPOCHS},
            "data": {**plain["data"], "train_per_class": 12},
            "attack": {**plain["attack"], "steps": 12},
            "resources": {"classes_per_task": 1},
            **changes,
        },
    )


class SweepRun:
    """`smoothsweep run` on a store, in a process of its own whose output goes to a file beside the store."""

    def __init__(
        self, sweep: Path, store: Path, address: str | None, *options: str, environment: dict[str, str] | None = None
    ) -> None:
        self.store = store
        self.log = store.parent / LOG
        command = [sys.executable, "-m", "smoothsweep", "run", str(sweep), "--store", str(store), "--yes", *options]
        command += ["--address", address] if address else []
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, env={**os.environ, **(environment or {})}, stdout=log, stderr=log, start_new_session=True
            )

    def wait(self, seconds: float = PATIENCE_S) -> int:
        try:
            return self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.terminate()  # else it goes on beside the drills that follow, and slows them too
            raise AssertionError(f"the run did not end within {seconds:g} s: {self.tail()}") from None

    def until(self, condition: Any) -> Any:
        """What the condition gives once it is true; an error with the log's end if the run has ended before."""

        def look() -> Any:
            if self.process.poll() is not None:
                raise AssertionError(f"the run ended with {self.process.returncode} before its drill: {self.tail()}")
            return condition()

        return wait_until(look)

    def tail(self) -> str:
        return self.log.read_text()[-3000:]


def finish(sweep: Path, store: Path, address: str | None, *options: str) -> None:
    """The same command again, to its end."""
    run = SweepRun(sweep, store, address, *options)
    assert run.wait() == 0, run.tail()


def table(store: Path) -> pd.DataFrame:
    """results.parquet without the times."""
    return pd.read_parquet(store / "sweeps" / "tiny" / "results.parquet").drop(columns=list(TIME_COLUMNS))


def partly_done(done: Path, store: Path, first_missing: str) -> None:
    """A copy of a finished store as it was before this stage: what comes earlier need not be made again."""
    shutil.copytree(done, store, ignore=shutil.ignore_patterns("mlflow.db*", "mlartifacts", "sweeps", "*.log"))
    for stage in STAGES[STAGES.index(first_missing) :]:
        shutil.rmtree(store / stage, ignore_errors=True)


def recorded(uri: str, experiment: str = "tiny") -> list[tuple[str, str, tuple[tuple[str, int], ...]]]:
    """Every MLflow run as (name, status, number of points per metric), in order; a point recorded twice is an error."""
    client = MlflowClient(uri)
    ids = [found.experiment_id for found in client.search_experiments() if found.name == experiment]
    rows = []
    for run in client.search_runs(ids, run_view_type=ViewType.ALL):
        points = []
        for key in run.data.metrics:
            history = client.get_metric_history(run.info.run_id, key)
            assert len(history) == len({point.step for point in history}), f"{run.info.run_name}: {key} twice"
            points.append((key, len(history)))
        rows.append((run.info.run_name or "", run.info.status, tuple(sorted(points))))
    return sorted(rows)


def local_tracking(store: Path) -> str:
    return f"sqlite:///{store}/mlflow.db"


def stray_files(store: Path) -> list[str]:
    """What a finished store must not hold: work folders, drafts, half-written files."""
    work = [*store.glob("*/*.work"), *store.glob("*/.*"), *store.glob(".*"), *store.glob("sweeps/*/.*")]
    return [str(path.relative_to(store)) for path in work]


def temporary_folder(prefix: str) -> Path:
    return Path(tempfile.mkdtemp(prefix=prefix))


@dataclass(kw_only=True)
class Kept:
    """What a store holds at one moment. `check` after the end: nothing of it was done twice.

    artifacts: manifest -> inode. epochs: target fingerprint -> seconds of each checkpointed epoch, by which an epoch is
    known: doing it again takes another time. lost_s: stage label -> seconds since it last left something finished.
    """

    store: Path
    artifacts: dict[Path, int] = field(default_factory=dict)
    epochs: dict[str, list[float]] = field(default_factory=dict)
    lost_s: dict[str, float] = field(default_factory=dict)

    @classmethod
    def now(cls, store: Path, *, since: float = 0.0) -> Kept:
        """since: when the run went on, before which nothing of it was in work (s since 1970)."""
        kept = cls(store=store)
        for manifest in store.glob("*/[!.]*/manifest.json"):  # a draft has a dot before its name, and may go at once
            kept.artifacts[manifest] = manifest.stat().st_ino
        for work in store.glob("*/*.work"):
            kept._look_at(work, since)
        return kept

    def _look_at(self, work: Path, since: float) -> None:
        """A stage in the middle: its last checkpoint, its finished classes, or when it began."""
        marks = [*work.glob("checkpoint.pt"), *work.glob("classes/*"), *work.glob("ray_train/checkpoint_*/*.pt")]
        try:
            last = max([since, *([path.stat().st_mtime for path in marks] or [work.stat().st_ctime])])
            self.lost_s[f"{work.parent.name} {work.name[:8]}"] = max(0.0, time.time() - last)
            state = load_checkpoint(work / "checkpoint.pt")
        except OSError:
            return  # finished, or lost its place to the finished artifact, while we looked
        records = (state or {}).get("records")  # of a target; parts of attacks keep another state
        if isinstance(records, list):
            self.epochs[work.name.removesuffix(".work")] = [record["seconds"] for record in records]

    @property
    def lost(self) -> float:
        """Seconds of work that this disturbance can have cost, over all stages in work."""
        return sum(self.lost_s.values())

    def check(self) -> int:
        """Assert that no finished artifact and no checkpointed epoch was made again; how many epochs were kept."""
        for manifest, inode in self.artifacts.items():
            assert manifest.stat().st_ino == inode, f"{manifest} was made again"
        for fingerprint, seconds in self.epochs.items():
            history = self.store / "target" / fingerprint / "history.parquet"
            if history.is_file():
                again = pd.read_parquet(history)["seconds"].tolist()[: len(seconds)]
                assert again == seconds, f"target {fingerprint[:8]}: epochs before the checkpoint were trained again"
        return sum(map(len, self.epochs.values()))


BEGIN, END = "<!-- drills: begin -->", "<!-- drills: end -->"
PASSED: list[str] = []


def passed(drill: str, seconds: float, lost: list[float], note: str = "") -> None:
    """A drill that passed: how long it took, and the seconds of work that its disturbances can have cost."""
    cost = "-" if not lost else f"{sum(lost):.1f} s" if len(lost) == 1 else f"{sum(lost):.1f} s in {len(lost)}"
    PASSED.append(f"| {drill} | same table | {seconds:.0f} s | {cost} | {note} |")


def table_of_drills(earlier: str = "") -> str:
    """The table. earlier: one whose drills stay where they were not run again."""
    head = "| drill | outcome | took | work lost | |\n| --- | --- | --- | --- | --- |\n"
    new = {_drill(row): row for row in PASSED}
    old = [row for row in earlier.splitlines()[2:] if row.startswith("|")]
    kept = [new.pop(_drill(row), row) for row in old]
    return head + "\n".join([*kept, *new.values()]) + "\n"


def _drill(row: str) -> str:
    return row.split("|")[1].strip()


def write_drills() -> None:
    page = os.environ.get("DRILLS_TABLE")
    if not PASSED or not page:
        return
    before, _, rest = Path(page).read_text().partition(BEGIN)
    earlier, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"{page}: expected the marks {BEGIN} and {END}")
    Path(page).write_text(f"{before}{BEGIN}\n{table_of_drills(earlier.strip())}{END}{after}")
