"""One cluster and one undisturbed run for all drills; and the table of what they found."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest
from drills.emulated import EmulatedCluster
from drills.sweep_runs import (
    PASSED,
    STAGES,
    Kept,
    SweepRun,
    finish,
    local_tracking,
    passed,
    recorded,
    stray_files,
    table,
    table_of_drills,
    write_drills,
    write_sweep,
)


@dataclass(frozen=True, kw_only=True)
class Undisturbed:
    """What an undisturbed run leaves."""

    store: Path
    table: pd.DataFrame
    recorded: list


@pytest.fixture(scope="session")
def cluster():
    os.environ.setdefault("RAY_worker_niceness", "0")  # else workers starve behind whatever else this machine does
    os.environ["PYTHONPATH"] = os.pathsep.join(["."] + [p for p in [os.environ.get("PYTHONPATH")] if p])
    emulated = EmulatedCluster()
    yield emulated
    emulated.close()


@pytest.fixture(scope="session")
def undisturbed(cluster, tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    finish(write_sweep(folder), folder / "store", cluster.address)
    assert not stray_files(folder / "store")
    return Undisturbed(
        store=folder / "store", table=table(folder / "store"), recorded=recorded(local_tracking(folder / "store"))
    )


@pytest.fixture(autouse=True)
def _mended(request):
    """Every drill begins with all nodes and nobody's work on them."""
    if "cluster" in request.fixturenames:
        emulated = request.getfixturevalue("cluster")
        emulated.mend()
        emulated.wait_until_clear()


@pytest.fixture
def drill(cluster, undisturbed, tmp_path):
    """A sweep file and a store of its own, and the checks at the end of every drill."""
    return Drill(cluster, undisturbed, tmp_path)


class Drill:
    """One disturbance of one sweep: `run`, do harm, `finish` by the same command, which also checks everything."""

    def __init__(self, cluster: EmulatedCluster, undisturbed: Undisturbed, folder: Path) -> None:
        self.cluster, self.undisturbed, self.folder = cluster, undisturbed, folder
        self.sweep, self.store = write_sweep(folder), folder / "store"
        self.started = time.monotonic()
        self.harm: list[Kept] = []

    def run(self, *options: str, environment: dict[str, str] | None = None) -> SweepRun:
        return SweepRun(self.sweep, self.store, self.cluster.address, *options, environment=environment)

    def about_to_harm(self) -> Kept:
        """Note what lies finished now."""
        self.harm.append(Kept.now(self.store))
        return self.harm[-1]

    def take_away(self, first: str) -> None:
        """Have `first` and later stages made again; what was kept of them so far is checked before."""
        again = STAGES[STAGES.index(first) :]
        for kept in self.harm:
            kept.check()
            kept.artifacts = {path: inode for path, inode in kept.artifacts.items() if path.parts[-3] not in again}
            if "target" in again:
                kept.epochs.clear()
        for stage in again:
            shutil.rmtree(self.store / stage, ignore_errors=True)

    def nothing_left_on_the_cluster(self) -> None:
        self.cluster.wait_until_clear()

    def finish(self, name: str, *options: str, tracking: str | None = None, note: str = "") -> None:
        """The same command to its end; then everything that must hold after any disturbance, and a row of the table."""
        finish(self.sweep, self.store, self.cluster.address, *options)
        self.check(name, tracking=tracking, note=note)

    def check(self, name: str, *, tracking: str | None = None, note: str = "") -> None:
        pd.testing.assert_frame_equal(table(self.store), self.undisturbed.table)
        assert recorded(tracking or local_tracking(self.store)) == self.undisturbed.recorded
        assert not stray_files(self.store)
        for kept in self.harm:
            kept.check()
        self.nothing_left_on_the_cluster()
        passed(name, time.monotonic() - self.started, [kept.lost for kept in self.harm], note)


def pytest_terminal_summary(terminalreporter) -> None:
    write_drills()
    if PASSED:
        terminalreporter.section("drills")
        terminalreporter.write(table_of_drills())
