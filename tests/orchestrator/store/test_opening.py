"""A store by its location."""

from pathlib import Path

import pytest

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.store.local import LocalStore
from smoothsweep.orchestrator.store.opening import open_store


def test_a_path_and_a_file_url_are_one_local_store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for location in (str(tmp_path / "s"), f"file://{tmp_path / 's'}", "s", "./inner/../s", "~/s"):
        store = open_store(location)
        assert isinstance(store, LocalStore) and store.root == Path(tmp_path / "s").resolve()
    assert not (tmp_path / "s").exists()  # looking leaves nothing


@pytest.mark.parametrize("location", ["gs://bucket/x", "http://a:b@host/x", "FILE:///x", "S3://bucket"])
def test_another_kind_of_url_is_one_line_without_its_secrets(location):
    with pytest.raises(InputError, match=r"^--store: expected a directory .* or s3://bucket/prefix, got ") as error:
        open_store(location)
    assert "a:b@" not in str(error.value) and "\n" not in str(error.value)
