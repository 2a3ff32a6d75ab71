"""Which files an isolated process may use beside its program."""

from pathlib import Path

import pytest

from smoothsweep.core.isolation.limits import device_paths, readable_paths


@pytest.fixture
def gpus(monkeypatch):
    monkeypatch.setattr(Path, "glob", lambda self, name: [self / name.replace("*", end) for end in ("ctl", "0")])


def test_a_gpus_files_are_for_a_process_that_computes_on_one(gpus):
    assert device_paths("cuda:1") == [Path("/dev/nvidia0"), Path("/dev/nvidiactl")]
    assert device_paths("cpu") == []


def test_what_is_not_installed_or_not_there_is_left_out():
    paths = readable_paths(("no_such_package_anywhere",))
    assert paths and all(path.exists() for path in paths)
