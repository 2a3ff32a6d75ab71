"""What a task leaves while it works, and what a worker of a group is given."""

import json
import os
import socket
import time
from contextlib import contextmanager

import numpy as np
import pytest

from smoothsweep.tasks import context
from smoothsweep.tasks.context import TaskContext, joined_context, read_progress


@pytest.fixture
def clock(monkeypatch):
    """A monotonic clock that the test sets."""
    now = {"s": 100.0}
    monkeypatch.setattr(context.time, "monotonic", lambda: now["s"])
    return now


def test_a_mark_says_how_far_who_and_when(tmp_path):
    before = time.time()
    TaskContext(work=tmp_path).progress(0.25, "epoch 1/4")
    mark = read_progress(tmp_path)
    assert before <= mark.pop("time") <= time.time()
    assert mark == {"fraction": 0.25, "text": "epoch 1/4", "host": socket.gethostname(), "pid": os.getpid()}


def test_marks_come_once_a_second_and_at_the_end(tmp_path, clock):
    made = TaskContext(work=tmp_path)
    for at, fraction, seen in ((100.0, 0.1, 0.1), (100.9, 0.2, 0.1), (101.0, 0.3, 0.3), (101.1, 1.0, 1.0)):
        clock["s"] = at
        made.progress(fraction)
        assert read_progress(tmp_path)["fraction"] == seen and read_progress(tmp_path)["text"] == ""
    clock["s"] = 101.2
    made.progress(1.0, "again")  # the end is always told
    assert read_progress(tmp_path)["text"] == "again"


def test_no_mark_and_a_broken_one_are_none(tmp_path):
    assert read_progress(tmp_path) is None
    (tmp_path / "progress.json").write_text("{half")
    assert read_progress(tmp_path) is None


def test_a_folder_that_cannot_be_written_stops_no_work(tmp_path):
    TaskContext(work=tmp_path / "not there").progress(0.5)
    assert read_progress(tmp_path / "not there") is None


def test_without_shared_folders_paths_mean_the_same_everywhere(tmp_path):
    with joined_context(tmp_path / "data", tmp_path, device="cuda:1", shared=None) as (data, made):
        assert (data, made.work, made.device, made.shared) == (tmp_path / "data", tmp_path, "cuda:1", None)


def test_with_shared_folders_a_worker_has_its_own_input_and_a_folder_that_is_joined(tmp_path):
    class Shared:
        def bring(self, artifact):
            return tmp_path / "brought" / artifact.name

        @contextmanager
        def joined(self, work):
            (tmp_path / "open").write_text(json.dumps(str(work)))
            yield tmp_path / "mine"
            (tmp_path / "open").unlink()

    shared = Shared()
    with joined_context(tmp_path / "data", tmp_path / "work", device="cpu", shared=shared) as (data, made):
        assert json.loads((tmp_path / "open").read_text()) == str(tmp_path / "work")
        assert data == tmp_path / "brought" / "data"
        assert (made.work, made.device, made.shared) == (tmp_path / "mine", "cpu", shared)
    assert not (tmp_path / "open").exists()


def test_a_manifest_says_with_which_libraries_and_where_it_was_made(paper):
    manifest = paper.store.manifest(paper.stage("target"))
    assert set(manifest["libraries"]) == {"python", "torch", "torchvision", "numpy", "ray", "scikit-learn", "pyarrow"}
    assert manifest["libraries"]["numpy"] == np.__version__ and manifest["device"] == "cpu"
