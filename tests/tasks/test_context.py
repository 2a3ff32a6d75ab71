"""What a task leaves while it works, and what a worker of a group is given."""

import os
import socket
import time

import numpy as np

from smoothsweep.tasks.context import TaskContext, read_progress


def test_a_mark_says_how_far_who_and_when(tmp_path):
    before = time.time()
    TaskContext(work=tmp_path).progress(0.25, "epoch 1/4")
    mark = read_progress(tmp_path)
    assert before <= mark.pop("time") <= time.time()
    assert mark == {"fraction": 0.25, "text": "epoch 1/4", "host": socket.gethostname(), "pid": os.getpid()}


def test_no_mark_and_a_broken_one_are_none(tmp_path):
    assert read_progress(tmp_path) is None
    (tmp_path / "progress.json").write_text("{half")
    assert read_progress(tmp_path) is None


def test_a_folder_that_cannot_be_written_stops_no_work(tmp_path):
    TaskContext(work=tmp_path / "not there").progress(0.5)
    assert read_progress(tmp_path / "not there") is None


def test_a_manifest_says_with_which_libraries_and_where_it_was_made(paper):
    manifest = paper.store.manifest(paper.stage("target"))
    assert set(manifest["libraries"]) == {"python", "torch", "torchvision", "numpy", "ray", "scikit-learn", "pyarrow"}
    assert manifest["libraries"]["numpy"] == np.__version__ and manifest["device"] == "cpu"
