"""The store on S3: what other machines see of it, in how few requests; mistakes in one line."""

import json
import time

import pytest

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.planning.trials import trials_of
from smoothsweep.orchestrator.scheduling.execute import execute
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.orchestrator.store.remote import mirror
from smoothsweep.orchestrator.store.remote.objects import Objects, explained
from smoothsweep.sweeps.load import load_sweep
from tests.orchestrator.store.remote.made import below, fill, other_machine, stage
from tests.s3 import BUCKET
from tests.tiny import write_tiny


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
    monkeypatch.setattr(mirror, "SETTLED_S", -1.0)
    other.prepare(stages)
    monkeypatch.setattr(Objects, "read", lambda *_: pytest.fail("a prepared manifest was asked for again"))
    assert all(other.metrics(each) == {"x": 1.0} for each in stages)


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
    assert time.monotonic() - started < 60


def test_a_store_of_a_newer_format_is_refused(s3):
    store = open_store(s3)
    store.open_for_writing()
    assert json.loads(store.objects.read("store.json")) == {"format": 2}
    store.objects.write("store.json", b'{"format": 3}')
    with pytest.raises(InputError, match=rf"--store {s3}: expected a store of format 2 or older in store.json, got 3"):
        open_store(s3)


@pytest.mark.parametrize("door", ["run", "plan", "status", "report"])
def test_every_door_refuses_a_bucket_that_is_not_there(s3, tmp_path, capsys, door):
    assert main([door, str(write_tiny(tmp_path)), "--store", "s3://nobody/x"]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("smoothsweep: --store s3://nobody/x: expected a bucket, got none of that name")
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            "AWS Error ACCESS_DENIED during ListObjectsV2 operation: Denied (Request ID: ab-12)",
            "expected permission to list, read and write (are the credentials set?), got a refusal",
        ),
        ("AWS Error SIGNATURE_DOES_NOT_MATCH during PutObject operation: No", "expected valid credentials, got others"),
        ("AWS Error INVALID_ACCESS_KEY_ID during HeadObject operation: No", "expected valid credentials, got others"),
        ("something\nelse", "something else"),
    ],
)
def test_what_the_service_says_is_one_line(said, words):
    assert explained(said).startswith(words) and "\n" not in explained(said) and "Request ID" not in explained(said)
