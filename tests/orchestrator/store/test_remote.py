"""Stores in a folder and on S3: an artifact is whole or absent, also after concurrent writes, crashes and edits."""

import json
import multiprocessing
import os
import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from benchmarks.sleeping import Sleep
from smoothsweep.core.errors import ArtifactDamaged, InputError
from smoothsweep.core.writers import machine_id, writer_name
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.scheduling.execute import execute, execute_shard
from smoothsweep.orchestrator.store import remote
from smoothsweep.orchestrator.store.manifests import CACHE_VARIABLE, Damage, read_manifest, sealed
from smoothsweep.orchestrator.store.objects import Objects
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.tasks.classes import class_name
from tests.s3 import BUCKET, keys, s3_client
from tests.tiny import write_tiny

STAGE, OTHER = Sleep(config={"classes": 1}), Sleep(config={"classes": 2})


@pytest.fixture(params=["folder", "s3"])
def location(request, tmp_path):
    return str(tmp_path / "store") if request.param == "folder" else request.getfixturevalue("s3")


@pytest.fixture
def store(location):
    store = open_store(location)
    store.open_for_writing()
    return store


@pytest.fixture
def elsewhere(location, monkeypatch, tmp_path):
    """The store as another machine opens it, which has seen nothing of it."""

    def opened():
        monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "other"))
        return open_store(location)

    return opened


def fill(store, content=b"numbers", stage=STAGE):
    draft = store.draft(stage)
    (draft / "rows.bin").write_bytes(content)
    return store.commit(stage, draft, {"metrics": {"x": 1.0}, "config": dict(stage.config), "seconds": 2.0})


def rewrite(location, key, content=b"x"):
    """Put something in the place of what lies there, as somebody does who is none of us."""
    if location.startswith("s3://"):
        client = s3_client({"AWS_ENDPOINT_URL": os.environ["AWS_ENDPOINT_URL"]})
        client.put_object(Bucket=BUCKET, Key=f"{location.split('/', 3)[3]}/{key}", Body=content)
    else:
        with open(f"{location}/{key}", "wb") as file:
            file.write(content)


def test_an_artifact_is_there_for_all_once_it_is_committed(store, elsewhere):
    assert not store.has(STAGE) and store.finished("sleep") == set() and list(store.newest("sleep", 5)) == []
    draft = store.draft(STAGE)
    (draft / "rows.bin").write_bytes(b"half")
    assert not store.has(STAGE)
    fill(store)
    assert store.has(STAGE) and store.path(STAGE).is_dir()
    other = elsewhere()
    assert other.has(STAGE) and other.finished("sleep") == {STAGE.fingerprint}
    assert other.metrics(STAGE) == {"x": 1.0} and list(other.newest("sleep", 5)) == [other.manifest(STAGE)]
    assert other.file(STAGE, "nothing") is None and other.file(OTHER, "rows.bin") is None
    assert other.file(STAGE, "rows.bin").read_bytes() == (other.path(STAGE) / "rows.bin").read_bytes() == b"numbers"
    store.discard(STAGE)
    assert not store.has(STAGE) and not elsewhere().has(STAGE)


def test_writers_at_the_same_moment_leave_one_whole_artifact(store, location, elsewhere):
    contents = [bytes([n]) * 1000 for n in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda content: fill(open_store(location), content), contents))
    other = elsewhere()
    first = (other.path(STAGE) / "rows.bin").read_bytes()
    assert first in contents and other.sweep_away_drafts() == 0
    fill(other, b"too late")
    assert (other.path(STAGE) / "rows.bin").read_bytes() == first
    assert sorted(path.name for path in other.path(STAGE).iterdir()) == ["manifest.json", "rows.bin"]


def test_what_a_finished_stage_kept_for_another_attempt_is_swept_away_and_what_others_keep_stays(store):
    """A worker killed between sealing its artifact and clearing up left its work folder for good: a drill found it."""
    fill(store)
    for stage in (STAGE, OTHER):
        with store.working(stage) as work:
            (work / "checkpoint.pt").write_text("half")
    assert store.sweep_away_drafts() == 1 and store.has(STAGE)
    for stage, left in ((STAGE, []), (OTHER, ["checkpoint.pt"])):
        with store.working(stage) as work:
            assert [path.name for path in work.iterdir()] == left


OUTSIDE = ["../../evil", "..", "/evil", "a/b", "a/../../evil", ".hidden", "a\0b", "", "a\nb", "x" * 256]


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_manifest_names_nothing_outside_its_folder(name):
    said = {"stage": STAGE.name, "metrics": {}, "files": {}, "config": {}, "inputs": {}, "code_version": ""}
    manifest = {**said, "seconds": 0.0, "finished_at": 0.0}
    assert read_manifest(json.dumps(sealed(manifest)).encode(), STAGE.name, STAGE.fingerprint)
    sources = ({"stage": name, "fingerprint": "0" * 64}, {"stage": "data", "fingerprint": name}, name, None)
    for wrong in ({"files": {name: "0" * 64}}, {"attempt": name}, *({"inputs": {"data": one}} for one in sources)):
        with pytest.raises(Damage, match=f"its manifest has no proper {next(iter(wrong))}"):
            read_manifest(json.dumps(sealed({**manifest, **wrong})).encode(), STAGE.name, STAGE.fingerprint)


def test_a_manifest_that_leads_out_of_its_folder_is_set_aside(store, location, elsewhere, tmp_path):
    fill(store)
    manifest = {**store.manifest(STAGE), "files": {"../../evil": "0" * 64}}
    rewrite(location, f"sleep/{STAGE.fingerprint}/manifest.json", json.dumps(sealed(manifest)).encode())
    other = elsewhere()
    with pytest.raises(ArtifactDamaged, match="its manifest has no proper files"):
        other.path(STAGE)
    fill(other)
    assert other.path(STAGE) and not list(tmp_path.rglob("*evil*"))


def test_notes_and_marks_are_seen_elsewhere(store, elsewhere):
    assert store.read_note("tiny", "search/x") is None and store.sweeps() == []
    store.write_note("tiny", "search/x", b"1")
    with store.working(OTHER) as work:
        (work / "classes").mkdir()
        (work / "classes" / "1").touch()
    store.mark(OTHER, 0.5, "half")
    other = elsewhere()
    assert other.read_note("tiny", "search/x") == b"1" and other.note_names("tiny", "search") == ["x"]
    assert other.kept(OTHER, "classes") == {"1"} and other.kept(STAGE, "classes") == set()
    assert other.marks([STAGE]) == [None] and other.marks([STAGE, OTHER])[1]["fraction"] == 0.5
    aside = other.set_note_aside("tiny", "search/x").split("/")[1]
    assert store.note_names("tiny", "search") == [aside] and elsewhere().sweeps() == ["tiny"]


def test_a_store_notes_its_format_and_one_of_a_newer_is_refused(location, tmp_path):
    assert open_store(location).read("store.json") is None and not list(tmp_path.iterdir()), "looking writes nothing"
    open_store(location).open_for_writing()
    assert json.loads(open_store(location).read("store.json")) == {"format": 2}
    rewrite(location, "store.json", b'{"format": 3}')
    with pytest.raises(InputError, match=rf"--store {location}: expected a store of format 2 or older .* got 3;"):
        open_store(location)


KEY = f"sleep/{STAGE.fingerprint}"
OTHERS = "there.2.bbbbbbbb"


def other_machine(url, monkeypatch, tmp_path):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "other"))
    return open_store(url)


def below(url, *parts):
    return keys({"AWS_ENDPOINT_URL": os.environ["AWS_ENDPOINT_URL"]}, "/".join([url.split("/", 3)[3], *parts]))


def files_of(folder):
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def _die_while_uploading(url):
    write = Objects.write
    Objects.write = lambda self, key, content: (
        os._exit(9) if key.endswith("manifest.json") else write(self, key, content)
    )
    fill(open_store(url))


def test_an_upload_that_was_killed_is_no_artifact_and_is_swept_away(s3):
    dead = multiprocessing.get_context("spawn").Process(target=_die_while_uploading, args=(s3,))
    dead.start()
    dead.join()
    store = open_store(s3)
    assert dead.exitcode == 9 and len(below(s3, "files")) == len(below(s3, "drafts")) == 1
    assert not store.has(STAGE) and store.finished("sleep") == set()
    living = f"drafts/sleep.{'c' * 64}.elsewhere.1.abc"
    rewrite(s3, living)
    assert store.sweep_away_drafts() == 2  # the upload, and the draft in the mirror
    assert not below(s3, "files") and below(s3, "drafts") == [f"{s3.split('/', 3)[3]}/{living}"]
    assert not list((store.root / "sleep").iterdir())


def test_an_interrupted_stage_goes_on_elsewhere(s3, monkeypatch, tmp_path):
    monkeypatch.setattr(remote, "PUSH_EVERY_S", 0.05)
    store, a = open_store(s3), Sleep(config={"classes": 4, "seconds": 0.0})
    with pytest.raises(KeyboardInterrupt), store.working(a) as work:
        (work / "checkpoint.pt").write_bytes(b"epoch 1")
        (work / ".checkpoint.pt.7").write_bytes(b"half")
        while not below(s3, "work"):
            time.sleep(0.05)
        (work / "checkpoint.pt").write_bytes(b"epoch 2")
        raise KeyboardInterrupt
    rewrite(s3, f"work/sleep/{a.fingerprint}/ray_train/.validate_storage_marker")  # Ray Train fetches its own itself
    other = other_machine(s3, monkeypatch, tmp_path)
    with other.working(a) as work:
        assert files_of(work) == {"checkpoint.pt": "epoch 2"}
    execute_shard(store, a, [0, 2])
    assert other.kept(a, "classes") == {"000000.safetensors", "000002.safetensors"}
    with other.working(a, only=[class_name(2)]) as work:
        assert [path.name for path in work.rglob("*") if path.is_file()] == ["000002.safetensors"]
    execute(other, a)
    assert other.metrics(a) == {"classes": 4.0} and not below(s3, "work")
    assert not list((other.root / "sleep").glob("*.work*"))


@pytest.fixture
def dead():
    """The name of a writer of this machine that has ended."""
    gone = multiprocessing.get_context("fork").Process(target=int)
    gone.start()
    gone.join()
    return f"{machine_id()}.{gone.pid}.cccccccc"


def test_uploads_of_the_dead_and_of_long_ago_go_and_those_of_the_living_stay(s3, dead, monkeypatch):
    store, stay = open_store(s3), {writer_name(), OTHERS}
    for name in {dead, *stay}:
        rewrite(s3, f"files/{KEY}/{name}/rows.bin")
        rewrite(s3, f"drafts/sleep.{STAGE.fingerprint}.{name}")
    assert store.sweep_away_drafts() == 1 and {key.split("/")[-2] for key in below(s3, "files")} == stay
    assert {key.split(f"{STAGE.fingerprint}.")[1] for key in below(s3, "drafts")} == stay
    assert store.sweep_away_drafts() == 0
    monkeypatch.setattr(remote, "FOREIGN_DRAFT_S", -3600.0)
    assert store.sweep_away_drafts() == 2 and not below(s3, "drafts") and not below(s3, "files")


def test_plan_and_status_read_a_remote_store(s3, tmp_path, capsys):
    sweep = write_tiny(tmp_path)
    (data,) = {s for trial in trials_of(load_sweep(sweep, [])) for s in trial.stages if s.name == "data"}
    execute(open_store(s3), data)
    assert main(["plan", str(sweep), "--store", s3, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["stages_cached"] == 1
    assert main(["status", str(sweep), "--store", s3, "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert status["stages"]["data"]["done"] == 1 and not status["alive"]


def test_a_service_that_is_not_there_is_one_line_at_once(s3, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    started = time.monotonic()
    with pytest.raises(InputError, match=r"http://127.0.0.1:9"):
        open_store(s3)
    assert time.monotonic() - started < 60


@pytest.mark.parametrize("url", ["s3://", f"s3://{BUCKET}/../x", f"s3://{BUCKET}//x", "s3://nobody/x"])
@pytest.mark.parametrize("command", ["run", "plan", "status", "report"])
def test_every_command_refuses_a_wrong_address(s3, tmp_path, capsys, command, url):
    assert main([command, str(write_tiny(tmp_path)), "--store", url]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    expected = "a bucket, got none" if "nobody" in url else "s3://bucket or s3://bucket/prefix"
    assert f"--store {url.rstrip('/')}" in line and f"expected {expected}" in line
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("harm", ["other content", "no object", "manifest edited", "manifest cut"])
def test_a_damaged_object_is_set_aside_and_made_again(s3, monkeypatch, tmp_path, harm):
    store = open_store(s3)
    fill(store)
    key = below(s3, "files")[0].removeprefix(f"{s3.split('/', 3)[3]}/")
    content = store.objects.read(f"{KEY}/manifest.json")
    if harm == "no object":
        store.objects.delete(key)
    elif harm == "other content":
        rewrite(s3, key, b"numberz")
    else:
        edited = re.sub(rb'(": ?)1\.0\b', rb"\g<1>0.9", content)  # a number, and not the name of an attempt
        assert edited != content
        rewrite(s3, f"{KEY}/manifest.json", edited if "edited" in harm else content[:100])
    other = other_machine(s3, monkeypatch, tmp_path)
    why = {
        "other content": "rows.bin differs from its checksum",
        "no object": "rows.bin is missing",
        "manifest edited": "its manifest was changed",
        "manifest cut": "its manifest is unreadable",
    }[harm]
    with pytest.raises(ArtifactDamaged, match=f"sleep {STAGE.fingerprint[:8]}: {why}.*{s3}/damaged/"):
        other.path(STAGE)
    assert not other.has(STAGE) and below(s3, "damaged") and not below(s3, "sleep") and not below(s3, "files")
    fill(other)
    assert (open_store(s3).path(STAGE) / "rows.bin").read_bytes() == b"numbers"


def test_keys_of_work_that_lead_out_of_their_folder_are_refused(s3, tmp_path):
    rewrite(s3, f"work/{KEY}/classes/../../../evil")
    with pytest.raises(InputError, match="expected objects of plain names"), open_store(s3).working(STAGE):
        pass
    assert not list(tmp_path.rglob("*evil*"))
