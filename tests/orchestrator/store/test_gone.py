"""A store that disappears under a run: every write is refused with one line, and nothing is made anew."""

import os
import pickle
import shutil
import signal
import subprocess
import sys
import time

import pytest
from tiny import write_tiny

from benchmarks.sleeping import Sleep
from smoothsweep.core.errors import StoreGone
from smoothsweep.orchestrator.store.base import Store

STAGE = Sleep(config={"classes": 1})


def moved(root):
    root.rename(root.with_name("elsewhere"))


def deleted(root):
    shutil.rmtree(root)


def unmounted(root):
    """What remains is the empty folder that it was mounted on."""
    moved(root)
    root.mkdir()


def another_in_its_place(root):
    moved(root)
    (root / "somebody").mkdir(parents=True)


def work_in(store):
    with store.working(STAGE) as work:
        (work / "checkpoint").write_text("x")


WRITES = {
    "draft": lambda store: store.draft(STAGE),
    "working": work_in,
    "note": lambda store: store.write_note("tiny", "state.json", b"{}"),
    "move": lambda store: store.rename("store.json", "other.json"),
    "commit": lambda store: store.commit(STAGE, store.root / "draft", {"metrics": {}}),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("happens", [moved, deleted, unmounted, another_in_its_place])
def test_a_write_into_a_store_that_has_gone_is_refused(happens, write, tmp_path):
    store = Store(root=tmp_path / "store")
    store.open_for_writing()
    store.check_there()
    worker = pickle.loads(pickle.dumps(store))  # as it travels
    happens(store.root)
    before = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*"))
    for one in (store, worker):
        with pytest.raises(StoreGone, match=f"^{store.root}: the store has disappeared") as told:
            WRITES[write](one)
        assert "\n" not in str(told.value)
    assert sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*")) == before


def test_a_store_that_was_not_opened_for_writing_is_no_concern(tmp_path):
    Store(root=tmp_path / "store").check_there()
    assert Store(root=tmp_path / "store").draft(STAGE).is_dir()


@pytest.mark.slow
@pytest.mark.parametrize("happens", [moved, unmounted])
def test_a_run_whose_store_goes_ends_with_one_line(happens, tmp_path, repository):
    sweep, root = write_tiny(tmp_path, seeds=[1, 2, 3, 4]), tmp_path / "store"
    command = [sys.executable, "-m", "smoothsweep", "run", str(sweep), "--store", str(root)]
    with subprocess.Popen(command, cwd=repository, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        late = time.monotonic() + 300
        while not list(root.glob("target/*")) and time.monotonic() < late and run.poll() is None:
            time.sleep(0.2)
        assert run.poll() is None
        happens(root)
        try:
            _, said = run.communicate(timeout=200)
        finally:
            if run.poll() is None:
                os.kill(run.pid, signal.SIGKILL)
    assert run.returncode == 1 and said.count("the store has disappeared") == 1 and "Traceback" not in said, said
    assert [path.name for path in root.rglob("*")] == [] and root.exists() == (happens is unmounted)
