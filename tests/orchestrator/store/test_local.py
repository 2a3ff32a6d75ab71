"""The artifact store in a folder: by its location; whole artifacts or none, first writer wins, damage is seen."""

import json
import multiprocessing
import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothsweep.core.errors import InputError
from smoothsweep.core.files import replacing
from smoothsweep.orchestrator.stages.stage import Stage, canonical_json
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.store.manifests import Damage
from smoothsweep.orchestrator.store.opening import MARKS, open_store
from smoothsweep.tasks.registry import TASKS


def stage(name="toy", **config):
    return Stage(name=name, config=config)


def fill(store, a_stage, content=b"numbers"):
    draft = store.draft(a_stage)
    (draft / "rows.bin").write_bytes(content)
    return store.commit(a_stage, draft, {"metrics": {"x": 1.0}, "config": dict(a_stage.config)})


FOLDERS = (".", "toy", "sweeps/tiny", "sweeps/tiny/search", "sweeps/tiny/spent", f"toy/{'a' * 64}.work/checkpoints")


def _die_while_writing(root):
    (Store(root=root).draft(stage(classes=1)) / "rows.bin").write_bytes(b"half")
    for folder in FOLDERS:
        replacing(root / folder / "spent.jsonl").__enter__().write_bytes(b"half")
    os._exit(9)


def test_what_dead_writers_left_is_swept_away_and_what_is_of_others_kept(tmp_path):
    """A driver killed while it noted what was spent left .spent.jsonl.4422.9e1ac9c4 for good: a drill found it."""
    for folder in FOLDERS:
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    elsewhere = tmp_path / "sweeps" / "tiny" / ".state.json.another-host.999999.0123abcd"
    elsewhere.write_text("half")
    store = Store(root=tmp_path)
    mine = store.draft(stage(classes=2))
    dead = multiprocessing.get_context("spawn").Process(target=_die_while_writing, args=(tmp_path,))
    dead.start()
    dead.join()
    assert dead.exitcode == 9 and len(list(tmp_path.rglob(".spent.jsonl.*"))) == len(FOLDERS)
    with replacing(tmp_path / "sweeps" / "tiny" / "state.json") as note:
        assert store.sweep_away_drafts() == len(FOLDERS) + 1
        assert note.exists() and elsewhere.exists() and mine.exists() and socket.gethostname() in mine.name
    assert not list(tmp_path.rglob(".spent.jsonl.*")) and list((tmp_path / "toy").glob(".*")) == [mine]


def test_an_unwritable_store_is_one_line(tmp_path):
    (blocked := tmp_path / "file").write_text("not a directory")
    with pytest.raises(InputError, match="expected a folder that can be written"):
        Store(root=blocked / "store").open_for_writing()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), json_values, max_size=4))
def test_fingerprints_survive_a_trip_through_json_and_ignore_key_order(config):
    shuffled = dict(reversed(list(json.loads(canonical_json(config)).items())))
    assert stage(**{"c": config}).fingerprint == stage(**{"c": shuffled}).fingerprint


def test_fingerprints_depend_on_name_config_and_inputs_but_not_on_hints():
    data, other = stage("data", seed=1), stage("data", seed=2)
    target = Stage(name="target", config={"lr": 0.1}, inputs={"data": data})
    assert target.fingerprint != Stage(name="target", config={"lr": 0.1}, inputs={"data": other}).fingerprint
    assert target.fingerprint != Stage(name="target", config={"lr": 0.2}, inputs={"data": data}).fingerprint
    hinted = Stage(name="target", config={"lr": 0.1}, inputs={"data": data}, hints={"checkpoint_every": 3})
    assert target.fingerprint == hinted.fingerprint
    with pytest.raises(ValueError):
        canonical_json({"x": float("nan")})


def test_the_newest_manifests_are_those_that_can_be_read(tmp_path):
    store, whole, torn = Store(root=tmp_path), stage(classes=1), stage(classes=2)
    for one in (whole, torn):
        fill(store, one)
    path = store.manifest_file("toy", torn.fingerprint)
    path.write_text(path.read_text().replace('"x"', '"y"'))
    assert list(store.newest("toy", 5)) == [store.manifest(whole)] == [store.manifest_of("toy", whole.fingerprint)]
    with pytest.raises(Damage):
        store.manifest_of("toy", torn.fingerprint)


def test_a_path_and_a_file_url_are_one_local_store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for location in (str(tmp_path / "s"), f"file://{tmp_path / 's'}", "s", "./inner/../s", "~/s"):
        store = open_store(location)
        assert isinstance(store, Store) and store.root == Path(tmp_path / "s").resolve()
    assert not (tmp_path / "s").exists()  # looking leaves nothing


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


OTHER = "expected a store, an empty folder or a new one, got "


@pytest.mark.parametrize(
    ("location", "held", "line"),
    [
        ("gs://bucket/x", (), "expected a directory on a file system"),
        ("http://a:b@host/x", (), "or s3://bucket/prefix, got http://***@host/x"),
        ("FILE:///x", (), "expected a directory on a file system"),
        ("S3://bucket", (), "or s3://bucket/prefix, got S3://bucket"),
        (".", ("a.txt",), f"{OTHER}a folder of other things (a.txt)"),
        (".", ("a.txt", "b.txt"), f"{OTHER}a folder of other things (a.txt, ...)"),
        (".", (".git", "src"), f"{OTHER}a folder of other things (src)"),
        ("a.txt", ("a.txt",), f"{OTHER}a file"),
    ],
)
def test_what_is_no_store_is_one_line_without_secrets_and_stays(location, held, line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in held:
        (tmp_path / name).touch()
    with pytest.raises(InputError) as refused:
        open_store(location)
    said = str(refused.value)
    assert said.startswith("--store") and line in said and "a:b" not in said and "\n" not in said
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(held)
