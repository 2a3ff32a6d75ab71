"""Which files an isolated process may use beside its program."""

from pathlib import Path

import pytest

from smoothsweep.core.isolation.limits import code_paths, device_paths, readable_paths


@pytest.fixture
def gpus(monkeypatch):
    monkeypatch.setattr(Path, "glob", lambda self, name: [self / name.replace("*", end) for end in ("ctl", "0")])


def test_a_gpus_files_are_for_a_process_that_computes_on_one(gpus):
    assert device_paths("cuda:1") == [Path("/dev/nvidia0"), Path("/dev/nvidiactl")]
    assert device_paths("cpu") == []


def test_what_is_not_installed_or_not_there_is_left_out():
    paths = readable_paths(("no_such_package_anywhere",))
    assert paths and all(path.exists() for path in paths)


def test_of_a_package_from_elsewhere_its_own_folder_is_read_and_of_a_lone_module_its_file(tmp_path, monkeypatch):
    package = tmp_path / "brought_package"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").touch()
    (tmp_path / "brought_module.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert code_paths("brought_package.inner.reader:load") == [package]
    assert code_paths("brought_module:load") == [tmp_path / "brought_module.py"]
    assert code_paths("no_such_module_anywhere:load") == []
