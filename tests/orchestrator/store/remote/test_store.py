"""The store on S3: whole artifacts or none, whoever writes at the same moment, whoever dies."""

import multiprocessing
import os
import pickle
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from smoothsweep.orchestrator.scheduling.execute import execute, execute_shard
from smoothsweep.orchestrator.store.common.machine import CACHE_VARIABLE
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.orchestrator.store.remote import synchroniser
from smoothsweep.orchestrator.store.remote.objects import Objects
from smoothsweep.orchestrator.store.remote.store import remote_store
from smoothsweep.tasks.classes import class_name
from tests.orchestrator.store.remote.made import below, fill, other_machine, stage


def test_an_artifact_is_there_for_other_machines_once_committed(s3, monkeypatch, tmp_path):
    store, a = open_store(s3), stage(classes=1)
    assert not store.has(a) and store.finished("sleep") == set()
    fill(store, a)
    assert store.has(a) and store.path(a).is_dir()
    other = other_machine(s3, monkeypatch, tmp_path)
    assert other.root != store.root and other.has(a) and other.finished("sleep") == {a.fingerprint}
    assert other.metrics(a) == {"x": 1.0} and not (other.place(a) / "rows.bin").exists()
    assert other.file(a, "nothing") is None
    assert other.file(a, "rows.bin").read_bytes() == (other.path(a) / "rows.bin").read_bytes() == b"numbers"
    assert not below(s3, "drafts") and not below(s3, "work")


def test_a_store_travels_as_its_url(s3, monkeypatch, tmp_path):
    store = open_store(s3)
    parcel = pickle.dumps(store)  # as Ray sends it to workers
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "other"))
    assert pickle.loads(parcel).location == store.location and pickle.loads(parcel).root != store.root


def test_writers_at_the_same_moment_leave_one_whole_artifact(s3, monkeypatch, tmp_path):
    a = stage(classes=1)
    with ThreadPoolExecutor(4) as pool:
        contents = [bytes([n]) * 1000 for n in range(4)]
        list(pool.map(lambda content: fill(remote_store(s3), a, content), contents))
    other = other_machine(s3, monkeypatch, tmp_path)
    assert (other.path(a) / "rows.bin").read_bytes() in contents
    assert len(below(s3, "files")) == 1 and not below(s3, "drafts")


def _die_while_uploading(url):
    store, a = open_store(url), stage(classes=1)
    draft = store.draft(a)
    (draft / "rows.bin").write_bytes(b"half")
    Objects.write = lambda self, key, content: (
        os._exit(9) if key.endswith("manifest.json") else _write(self, key, content)
    )
    store.commit(a, draft, {"metrics": {}})


_write = Objects.write


def test_an_upload_that_was_killed_is_no_artifact_and_is_swept_away(s3):
    dead = multiprocessing.get_context("spawn").Process(target=_die_while_uploading, args=(s3,))
    dead.start()
    dead.join()
    store, a = open_store(s3), stage(classes=1)
    assert dead.exitcode == 9 and len(below(s3, "files")) == len(below(s3, "drafts")) == 1
    assert not store.has(a) and store.finished("sleep") == set()
    living = f"drafts/sleep.{stage(classes=2).fingerprint}.elsewhere.1.abc"
    store.objects.write(living, b"uploading")
    assert store.sweep_away_drafts() == 2  # the upload, and the draft in the mirror
    assert not below(s3, "files") and below(s3, "drafts") == [f"{s3.split('/', 3)[3]}/{living}"]
    assert not list((store.root / "sleep").iterdir())


def test_what_a_finished_stage_kept_for_another_attempt_is_swept_away_and_what_others_keep_stays(s3):
    store, done, begun = open_store(s3), stage(classes=1), stage(classes=2)
    fill(store, done)
    for one in (done, begun):
        store.objects.write(f"work/{one.name}/{one.fingerprint}/checkpoint.pt", b"half")
    assert store.sweep_away_drafts() == 1
    assert store.has(done) and [key.split("/")[-2] for key in below(s3, "work")] == [begun.fingerprint]


def test_downloads_at_once_by_many_end_in_one_whole_file(s3, monkeypatch, tmp_path):
    a, content = stage(classes=1), os.urandom(3_000_000)
    fill(open_store(s3), a, content)
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "other"))
    with ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(lambda _: remote_store(s3).path(a), range(4)))
    assert len(set(paths)) == 1 and (paths[0] / "rows.bin").read_bytes() == content
    assert sorted(path.name for path in paths[0].iterdir()) == ["manifest.json", "rows.bin"]


def test_an_artifact_made_anew_replaces_what_a_mirror_has(s3, monkeypatch, tmp_path):
    a = stage(classes=1)
    fill(open_store(s3), a, b"old")
    other = other_machine(s3, monkeypatch, tmp_path)
    assert (other.path(a) / "rows.bin").read_bytes() == b"old"
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    store = open_store(s3)
    store.discard(a)
    assert not store.has(a) and not below(s3, "sleep") and not below(s3, "files")
    fill(store, a, b"new")
    assert (other_machine(s3, monkeypatch, tmp_path).path(a) / "rows.bin").read_bytes() == b"new"


def test_an_interrupted_stage_goes_on_elsewhere(s3, monkeypatch, tmp_path):
    monkeypatch.setattr(synchroniser, "PUSH_EVERY_S", 0.05)
    store, a = open_store(s3), stage(classes=4, seconds=0.0)
    with pytest.raises(KeyboardInterrupt), store.working(a) as work:
        (work / "checkpoint.pt").write_bytes(b"epoch 1")
        (work / ".checkpoint.pt.7").write_bytes(b"half")
        while not below(s3, "work"):
            time.sleep(0.05)
        (work / "checkpoint.pt").write_bytes(b"epoch 2")
        raise KeyboardInterrupt
    other = other_machine(s3, monkeypatch, tmp_path)
    with other.working(a) as work:
        assert [path.name for path in work.iterdir()] == ["checkpoint.pt"]
        assert (work / "checkpoint.pt").read_bytes() == b"epoch 2"
    execute_shard(store, a, [0, 2])
    assert other.kept(a, "classes") == {"000000.safetensors", "000002.safetensors"}
    with other.working(a, only=[class_name(2)]) as work:
        assert [path.name for path in work.rglob("*") if path.is_file()] == ["000002.safetensors"]
    execute(other, a)
    assert other.metrics(a) == {"classes": 4.0} and not below(s3, "work")
    assert not list((other.root / "sleep").glob("*.work*"))
