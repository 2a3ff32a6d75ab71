"""The store on S3: what other machines see of it, in how few requests; mistakes in one line."""

import json
import time

import pytest

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.planning.trials import trials_of
from smoothsweep.orchestrator.scheduling.execute import execute
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.load import load_sweep
from tests.orchestrator.store.remote.made import below, other_machine, stage
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
