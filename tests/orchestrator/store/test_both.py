"""What a store promises, in a folder and on S3: whole artifacts or none, whoever writes, reads, dies or edits."""

import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from benchmarks.sleeping import Sleep
from smoothsweep.core.errors import ArtifactDamaged, InputError
from smoothsweep.orchestrator.store.manifests import CACHE_VARIABLE, Damage, read_manifest, sealed
from smoothsweep.orchestrator.store.opening import open_store
from tests.s3 import BUCKET, s3_client

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
