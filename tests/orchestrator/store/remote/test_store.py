"""The store on S3: whole artifacts or none, whoever dies; what other machines see; mistakes in one line."""

import json
import multiprocessing
import os
import pickle
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from benchmarks.sleeping import Sleep
from core.errors import ArtifactDamaged, InputError
from orchestrator.cli import main
from orchestrator.planning.trials import trials_of
from orchestrator.scheduling.execute import execute, execute_shard
from orchestrator.store import sealing
from orchestrator.store.machine import CACHE_VARIABLE
from orchestrator.store.opening import open_store
from orchestrator.store.remote import manifests, synchroniser
from orchestrator.store.remote.objects import Objects, ObjectStoreError, explained
from orchestrator.store.remote.store import remote_store
from sweeps.load import load_sweep
from tasks.classes import class_name
from tests.s3 import BUCKET, keys, s3_client
from tests.tiny import write_tiny


def other_machine(url, monkeypatch, tmp_path):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "other"))
    return open_store(url)


def stage(**config):
    return Sleep(config=config)


def fill(store, a_stage, content=b"numbers"):
    draft = store.draft(a_stage)
    (draft / "rows.bin").write_bytes(content)
    return store.commit(a_stage, draft, {"metrics": {"x": 1.0}, "config": dict(a_stage.config), "seconds": 2.0})


def below(url, *parts):
    return keys({"AWS_ENDPOINT_URL": os.environ["AWS_ENDPOINT_URL"]}, "/".join([url.split("/", 3)[3], *parts]))


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


def test_the_first_of_two_writers_wins_and_the_other_leaves_nothing(s3):
    store, late, a = open_store(s3), open_store(s3), stage(classes=1)
    draft = late.draft(a)
    (draft / "rows.bin").write_bytes(b"second")
    fill(store, a, b"first")
    late.commit(a, draft, {"metrics": {}})
    assert len(below(s3, "files")) == 1 and not below(s3, "drafts")
    assert (remote_store(s3).path(a) / "rows.bin").read_bytes() == b"first" and not draft.exists()


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
    Objects.write = lambda self, key, content: os._exit(9) if key.endswith("manifest.json") else _write(
        self, key, content
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


def test_downloads_at_once_by_many_end_in_one_whole_file(s3, monkeypatch, tmp_path):
    a, content = stage(classes=1), os.urandom(3_000_000)
    fill(open_store(s3), a, content)
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "other"))
    with ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(lambda _: remote_store(s3).path(a), range(4)))
    assert len(set(paths)) == 1 and (paths[0] / "rows.bin").read_bytes() == content
    assert sorted(path.name for path in paths[0].iterdir()) == ["manifest.json", "rows.bin"]


@pytest.mark.parametrize("harm", ["other content", "no object", "manifest edited", "manifest cut"])
def test_a_damaged_object_is_set_aside_and_made_again(s3, monkeypatch, tmp_path, harm):
    a = stage(classes=1)
    fill(open_store(s3), a)
    prefix = s3.split("/", 3)[3]
    manifest, files = f"{prefix}/sleep/{a.fingerprint}/manifest.json", below(s3, "files")
    client = s3_client({"AWS_ENDPOINT_URL": os.environ["AWS_ENDPOINT_URL"]})
    content = client.get_object(Bucket=BUCKET, Key=manifest)["Body"].read()
    if harm == "no object":
        client.delete_object(Bucket=BUCKET, Key=files[0])
    elif harm == "other content":
        client.put_object(Bucket=BUCKET, Key=files[0], Body=b"numberz")
    else:
        client.put_object(Bucket=BUCKET, Key=manifest,
                          Body=content.replace(b"1.0", b"0.9") if "edited" in harm else content[:100])  # fmt: skip
    other = other_machine(s3, monkeypatch, tmp_path)
    why = {
        "other content": "rows.bin differs from its checksum",
        "no object": "rows.bin is missing",
        "manifest edited": "its manifest was changed",
        "manifest cut": "its manifest is unreadable",
    }[harm]
    with pytest.raises(ArtifactDamaged, match=f"sleep {a.fingerprint[:8]}: {why}.*; it is set aside in {s3}/damaged/"):
        other.path(a)
    assert not other.has(a) and below(s3, "damaged") and not below(s3, "sleep") and not below(s3, "files")
    fill(other, a)
    assert (open_store(s3).path(a) / "rows.bin").read_bytes() == b"numbers"


@pytest.mark.parametrize("file", ["rows.bin", "manifest.json"])
def test_a_damaged_file_of_the_mirror_is_brought_again(s3, file):
    store, a = open_store(s3), stage(classes=1)
    fill(store, a)
    path = store.path(a) / file
    times = path.stat()
    path.write_bytes(b"\0" * times.st_size)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert (store.path(a) / "rows.bin").read_bytes() == b"numbers" and store.metrics(a) == {"x": 1.0}
    assert store.file(a, "rows.bin").read_bytes() == b"numbers" and not below(s3, "damaged")


@pytest.mark.parametrize("name", ["../../../evil", "..", "/evil", "a/../../evil", ".hidden", "a\0b", ""])
def test_names_that_lead_out_of_their_folder_are_refused(s3, monkeypatch, tmp_path, name):
    store, a = open_store(s3), stage(classes=1)
    fill(store, a)
    key = f"sleep/{a.fingerprint}/manifest.json"
    manifest = json.loads(store.objects.read(key))
    evil = sealing.sealed({**manifest, "files": {name: "0" * 64}})
    store.objects.write(key, json.dumps(evil).encode())
    other = other_machine(s3, monkeypatch, tmp_path)
    with pytest.raises(ArtifactDamaged, match="its manifest names an impossible file"):
        other.path(a)
    evil = sealing.sealed({**manifest, "attempt": name})
    store.objects.write(key, json.dumps(evil).encode())
    with pytest.raises(ArtifactDamaged, match="its manifest names an impossible attempt"):
        other.path(a)
    assert not list(tmp_path.rglob("*evil*"))


def test_work_of_impossible_names_is_refused(s3, tmp_path):
    store, a = open_store(s3), stage(classes=1)
    client = s3_client({"AWS_ENDPOINT_URL": os.environ["AWS_ENDPOINT_URL"]})
    prefix = s3.split("/", 3)[3]
    client.put_object(Bucket=BUCKET, Key=f"{prefix}/work/sleep/{a.fingerprint}/classes/../../../evil", Body=b"x")
    with pytest.raises(InputError, match="expected objects of plain names"), store.working(a):
        pass
    assert not list(tmp_path.rglob("*evil*"))


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


def test_what_a_killed_attempt_left_in_a_mirror_goes_with_the_next(s3):
    store, a = open_store(s3), stage(classes=1)
    gone = multiprocessing.get_context("spawn").Process(target=int)
    gone.start()
    gone.join()
    host = os.uname().nodename
    for name in (f"{a.fingerprint}.work.{host}.{gone.pid}.x", f".{a.fingerprint}.{host}.{gone.pid}.x"):
        (store.root / "sleep" / name).mkdir(parents=True)
    mine = store.draft(a)
    with store.working(a) as work:
        assert {path.name for path in (store.root / "sleep").iterdir()} == {work.name, mine.name}


def test_marks_notes_and_reports_are_seen_elsewhere(s3, monkeypatch, tmp_path):
    store, a = open_store(s3), stage(classes=4)
    store.mark(a, 0.5, "half")
    store.write_note("tiny", "state.json", b"{}")
    store.sweep_folder("tiny").joinpath("figures").mkdir(parents=True)
    store.sweep_folder("tiny").joinpath("tune").mkdir()
    for name in ("report.html", "figures/x.png", "tune/state", ".hidden"):
        (store.sweep_folder("tiny") / name).write_text(name)
    store.publish(store.sweep_folder("tiny"), "tiny")
    other = other_machine(s3, monkeypatch, tmp_path)
    assert other.marks([a, stage(classes=5)])[0]["text"] == "half" and other.marks([stage(classes=5)]) == [None]
    assert other.read_note("tiny", "state.json") == b"{}" and other.read_note("tiny", "nothing") is None
    prefix = s3.split("/", 3)[3]
    shown = [f"{prefix}/sweeps/tiny/{name}" for name in ("figures/x.png", "report.html", "state.json")]
    assert below(s3, "sweeps") == shown
    other.write_note("another", "state.json", b"{}")
    assert store.sweeps() == ["another", "tiny"]


def test_no_more_manifests_are_read_than_asked_for_and_prepared_ones_not_again(s3, monkeypatch, tmp_path):
    stages = [stage(classes=n) for n in range(1, 5)]
    for each in stages:
        fill(open_store(s3), each)
    other = other_machine(s3, monkeypatch, tmp_path)
    found = {json.loads(path.read_text())["config"]["classes"] for path in other.newest_manifests("sleep", 3)}
    assert len(found) == 3 and found < {1, 2, 3, 4}
    monkeypatch.setattr(manifests, "SETTLED_S", -1.0)
    other.prepare(stages)
    monkeypatch.setattr(Objects, "read", lambda *_: pytest.fail("a prepared manifest was asked for again"))
    assert all(other.metrics(each) == {"x": 1.0} for each in stages)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("s3://nobody/x", r"--store s3://nobody/x: expected a bucket, got none of that name"),
        ("s3://", "expected s3://bucket or s3://bucket/prefix"),
        (f"s3://{BUCKET}/../x", "expected s3://bucket or s3://bucket/prefix"),
        (f"s3://{BUCKET}//x", "expected s3://bucket or s3://bucket/prefix"),
    ],
)
def test_a_wrong_address_is_one_line(s3, url, words):
    with pytest.raises(InputError, match=words):
        open_store(url)


def test_a_service_that_is_not_there_is_one_line_at_once(s3, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    started = time.monotonic()
    with pytest.raises(InputError, match=r"expected an answer from http://127.0.0.1:9, got none"):
        open_store(s3)
    assert time.monotonic() - started < 10


def test_a_store_of_a_newer_format_is_refused(s3):
    store = open_store(s3)
    store.open_for_writing()
    assert json.loads(store.objects.read("store.json")) == {"format": 2}
    store.objects.write("store.json", b'{"format": 3}')
    with pytest.raises(InputError, match=rf"--store {s3}: expected a store of format 2 or older in store.json, got 3"):
        open_store(s3)


def test_an_upload_of_a_file_that_fails_leaves_no_object(s3, monkeypatch, tmp_path):
    objects = Objects(url=s3)
    (tmp_path / "x").mkdir()
    with pytest.raises(IsADirectoryError):
        objects.upload("x", tmp_path / "x")
    assert below(s3) == []
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    monkeypatch.setattr("orchestrator.store.remote.objects.ATTEMPTS", 2)
    with pytest.raises(ObjectStoreError, match=f"{s3}/y: expected an answer"):
        objects.write("y", b"1")


def test_what_a_plan_has_just_listed_is_not_listed_again(s3, monkeypatch):
    """One answer holds a thousand names: of a store with many artifacts each listing is many requests."""
    store, stages, asked = open_store(s3), [stage(classes=1), stage(classes=2)], []
    for one in stages:
        fill(store, one)
    listed = Objects.listed
    monkeypatch.setattr(Objects, "listed", lambda self, prefix: asked.append(prefix) or listed(self, prefix))
    assert store.finished("sleep") == {one.fingerprint for one in stages} and asked == ["sleep"]
    assert len(store.newest_manifests("sleep", 1)) == 1 and len(store.newest_manifests("sleep", 5)) == 2
    assert asked == ["sleep"]
    assert len(open_store(s3).newest_manifests("sleep", 5)) == 2 and asked == ["sleep", "sleep"]


def test_a_note_of_a_sweep_is_moved_for_everybody(s3, monkeypatch, tmp_path):
    store = open_store(s3)
    store.write_note("mine", "search/a.json", b"first")
    store.move_note("mine", "search/a.json", "search/b.json")
    other = other_machine(s3, monkeypatch, tmp_path)
    assert other.read_note("mine", "search/a.json") is None and other.read_note("mine", "search/b.json") == b"first"


@pytest.mark.parametrize("door", ["run", "plan", "status", "report"])
def test_every_door_refuses_a_bucket_that_is_not_there(s3, tmp_path, capsys, door):
    assert main([door, str(write_tiny(tmp_path)), "--store", "s3://nobody/x"]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("smoothsweep: --store s3://nobody/x: expected a bucket, got none of that name")
    assert not (tmp_path / "cache").exists()


def test_plan_and_status_read_a_remote_store(s3, tmp_path, capsys):
    sweep = write_tiny(tmp_path)
    (data,) = {s for trial in trials_of(load_sweep(sweep, [])) for s in trial.stages if s.name == "data"}
    execute(open_store(s3), data)
    assert main(["plan", str(sweep), "--store", s3, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["stages_cached"] == 1
    assert main(["status", str(sweep), "--store", s3, "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert status["stages"]["data"]["done"] == 1 and not status["alive"]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("AWS Error ACCESS_DENIED during ListObjectsV2 operation: Denied (Request ID: ab-12)",
         "expected permission to list, read and write (are the credentials set?), got a refusal"),
        ("AWS Error SIGNATURE_DOES_NOT_MATCH during PutObject operation: No", "expected valid credentials, got others"),
        ("AWS Error INVALID_ACCESS_KEY_ID during HeadObject operation: No", "expected valid credentials, got others"),
        ("something\nelse", "something else"),
    ],
)  # fmt: skip
def test_what_the_service_says_is_one_line(said, words):
    assert explained(said).startswith(words) and "\n" not in explained(said) and "Request ID" not in explained(said)
