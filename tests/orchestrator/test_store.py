"""The artifact store: whole artifacts or none, first writer wins, damage is seen."""

import json
import multiprocessing
import os
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from orchestrator.stage import Stage, canonical_json, with_ancestors
from orchestrator.store import Store, open_store, write_atomically


def stage(name="sleep", **config):
    return Stage(name=name, config=config)


def fill(store, a_stage, content=b"numbers"):
    draft = store.draft(a_stage)
    (draft / "rows.bin").write_bytes(content)
    return store.commit(a_stage, draft, {"metrics": {"x": 1.0}, "config": dict(a_stage.config)})


def test_a_stage_exists_once_its_manifest_does(tmp_path):
    store, a = Store(root=tmp_path), stage(classes=1)
    assert not store.has(a)
    draft = store.draft(a)
    (draft / "rows.bin").write_bytes(b"half")
    assert not store.has(a)
    store.path(a).mkdir()
    assert not store.has(a), "a directory without a manifest does not exist"
    store.commit(a, draft, {"metrics": {}})
    assert store.has(a) and store.damaged_files(a) == []


def test_the_first_writer_wins_and_nothing_is_left_over(tmp_path):
    store, a = Store(root=tmp_path), stage(classes=1)
    fill(store, a, b"first")
    fill(store, a, b"second")
    assert (store.path(a) / "rows.bin").read_bytes() == b"first"
    assert [p.name for p in (tmp_path / "sleep").iterdir()] == [a.fingerprint]


def test_damage_is_named(tmp_path):
    store, a = Store(root=tmp_path), stage(classes=1)
    fill(store, a)
    (store.path(a) / "rows.bin").write_bytes(b"other")
    assert store.damaged_files(a) == ["rows.bin"]


def _die_while_writing(root):
    store = Store(root=root)
    (store.draft(stage(classes=1)) / "rows.bin").write_bytes(b"half")
    os._exit(9)


def test_drafts_of_dead_writers_are_swept_away_and_those_of_living_ones_kept(tmp_path):
    store = Store(root=tmp_path)
    mine = store.draft(stage(classes=2))
    dead = multiprocessing.get_context("spawn").Process(target=_die_while_writing, args=(tmp_path,))
    dead.start()
    dead.join()
    assert dead.exitcode == 9 and len(list((tmp_path / "sleep").iterdir())) == 2
    assert store.sweep_away_drafts() == 1
    assert [p.name for p in (tmp_path / "sleep").iterdir()] == [mine.name]
    assert socket.gethostname() in mine.name


def test_an_unwritable_store_is_one_line(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    with pytest.raises(InputError, match="expected a writable directory"):
        Store(root=blocked / "store").open_for_writing()
    with pytest.raises(InputError, match="expected a directory on a file system"):
        open_store("gs://bucket/x")


def test_atomic_writing_leaves_no_temporary_file(tmp_path):
    write_atomically(tmp_path / "a" / "x.json", b"1")
    write_atomically(tmp_path / "a" / "x.json", b"2")
    assert [p.name for p in (tmp_path / "a").iterdir()] == ["x.json"]
    assert (tmp_path / "a" / "x.json").read_bytes() == b"2"


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


def test_ancestors_come_before_those_who_read_them_and_once():
    data = stage("data", seed=1)
    left = Stage(name="target", config={"a": 1}, inputs={"data": data})
    right = Stage(name="target", config={"a": 2}, inputs={"data": data})
    assert with_ancestors([left, right]) == [data, left, right]
