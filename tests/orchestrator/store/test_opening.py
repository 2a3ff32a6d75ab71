"""A store by its location."""

from pathlib import Path

import pytest

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.store.opening import MARKS, open_store
from smoothsweep.tasks.registry import TASKS


def test_a_path_and_a_file_url_are_one_local_store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for location in (str(tmp_path / "s"), f"file://{tmp_path / 's'}", "s", "./inner/../s", "~/s"):
        store = open_store(location)
        assert isinstance(store, Store) and store.root == Path(tmp_path / "s").resolve()
    assert not (tmp_path / "s").exists()  # looking leaves nothing


@pytest.mark.parametrize("location", ["gs://bucket/x", "http://a:b@host/x", "FILE:///x", "S3://bucket"])
def test_another_kind_of_url_is_one_line_without_its_secrets(location):
    with pytest.raises(InputError, match=r"^--store: expected a directory .* or s3://bucket/prefix, got ") as error:
        open_store(location)
    assert "a:b@" not in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("held", [(), (".DS_Store",), ("lost+found",), ("lost+found", ".nfs0001")])
def test_an_empty_folder_may_become_a_store(held, tmp_path):
    for name in held:
        (tmp_path / name).touch()
    assert open_store(str(tmp_path)).root == tmp_path


def test_a_store_of_today_and_one_from_before_the_version_file_go_on(tmp_path):
    (tmp_path / "today").mkdir()
    Store(root=tmp_path / "today").open_for_writing()
    assert [path.name for path in (tmp_path / "today").iterdir()] == ["store.json"] and "store.json" in MARKS
    for name in ("sweeps", "target", "loot", "damaged", "mlflow.db"):
        assert name in MARKS or name in TASKS
        (tmp_path / name / name).mkdir(parents=True)
        (tmp_path / name / "notes.txt").touch()
    for place in tmp_path.iterdir():
        assert open_store(str(place)).root == place


@pytest.mark.parametrize("held", [("a.txt",), ("a.txt", "b.txt"), ("targets",), (".git", "src")])
def test_a_folder_of_other_things_does_not_become_a_store(held, tmp_path):
    for name in held:
        (tmp_path / name).touch()
    first, *others = [name for name in held if not name.startswith(".")]
    got = f"a folder of other things ({first}{', ...' if others else ''})"
    with pytest.raises(InputError) as refused:
        open_store(str(tmp_path))
    expected = "expected a store, an empty folder or a new one"
    assert str(refused.value) == f"--store {tmp_path}: {expected}, got {got}"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(held)


def test_a_file_is_no_store(tmp_path):
    (tmp_path / "s").touch()
    with pytest.raises(InputError, match=r"expected a store, an empty folder or a new one, got a file$"):
        open_store(str(tmp_path / "s"))
