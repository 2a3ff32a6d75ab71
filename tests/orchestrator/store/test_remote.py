"""The store on S3: whole artifacts or none, whoever writes at the same moment, whoever dies, whatever is damaged."""

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
from smoothsweep.orchestrator.store.manifests import CACHE_VARIABLE
from smoothsweep.orchestrator.store.objects import Objects
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.orchestrator.store.remote import remote_store
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.tasks.classes import class_name
from tests.orchestrator.store.test_both import STAGE, fill, rewrite
from tests.s3 import BUCKET, keys
from tests.tiny import write_tiny

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


def test_downloads_at_once_by_many_end_in_one_whole_file(s3, monkeypatch, tmp_path):
    content = os.urandom(3_000_000)
    fill(open_store(s3), content)
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "other"))
    with ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(lambda _: remote_store(s3).path(STAGE), range(4)))
    assert len(set(paths)) == 1 and (paths[0] / "rows.bin").read_bytes() == content
    assert sorted(path.name for path in paths[0].iterdir()) == ["manifest.json", "rows.bin"]


def test_an_artifact_made_anew_replaces_what_a_mirror_has(s3, monkeypatch, tmp_path):
    fill(open_store(s3), b"old")
    other = other_machine(s3, monkeypatch, tmp_path)
    assert (other.path(STAGE) / "rows.bin").read_bytes() == b"old"
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    store = open_store(s3)
    store.discard(STAGE)
    assert not store.has(STAGE) and not below(s3, "sleep") and not below(s3, "files")
    fill(store, b"new")
    assert (other_machine(s3, monkeypatch, tmp_path).path(STAGE) / "rows.bin").read_bytes() == b"new"


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


@pytest.mark.parametrize(
    "manifest", [None, b"{", b"[]", b"null", b"\xff"], ids=["none", "cut", "list", "null", "garbage"]
)
def test_attempts_that_nobody_uploads_go_and_beside_a_damaged_manifest_none(s3, dead, manifest):
    store, names = open_store(s3), {OTHERS, "here.1.aaaaaaaa", dead}
    for name in names:
        rewrite(s3, f"files/{KEY}/{name}/inner/rows.bin")
    for name in (OTHERS, dead):
        rewrite(s3, f"drafts/sleep.{STAGE.fingerprint}.{name}")
    rewrite(s3, f"drafts/sleep.{'b' * 64}.here.1.aaaaaaaa")  # of another stage
    if manifest is not None:
        rewrite(s3, f"{KEY}/manifest.json", manifest)
    assert store.sweep_away_drafts() == 1
    kept = {key.split("/")[-3] for key in below(s3, "files")}
    assert kept == ({OTHERS} if manifest is None else names)


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


@pytest.fixture
def machines(s3, monkeypatch, tmp_path):
    """The folders that two machines share: of the driver's, and of a worker's."""
    here = open_store(s3)
    there = other_machine(s3, monkeypatch, tmp_path)
    assert here.root != there.root and here.shared_folders and there.shared_folders
    return here, there


def test_what_a_worker_leaves_comes_to_the_work_of_the_driver_also_where_it_fails(machines, s3):
    here, there = machines
    work = here.work(STAGE)
    work.mkdir(parents=True)
    (work / "kept.txt").write_text("mine")
    with there.shared_folders.joined(work) as folder:
        assert folder.is_relative_to(there.root / "sleep") and not files_of(folder)
        (folder / "inner").mkdir()
        for name in ("final.pt", "inner/mark", "kept.txt", ".half"):
            (folder / name).write_text("theirs")
    with pytest.raises(ZeroDivisionError), there.shared_folders.joined(work) as folder:
        (folder / "checkpoint.pt").write_text("theirs")
        _ = 1 / 0
    assert not folder.exists()
    here.shared_folders.pull(work)
    assert files_of(work) == {
        "kept.txt": "mine",
        **dict.fromkeys(("final.pt", "inner/mark", "checkpoint.pt"), "theirs"),
    }
    assert len(below(s3, "work")) == 4


def test_ray_trains_checkpoints_lie_in_the_store_itself(machines, s3):
    here, there = machines
    filesystem, place = here.shared_folders.checkpoints(here.work(STAGE))
    assert (filesystem, place) == there.shared_folders.checkpoints(there.work(STAGE))
    with filesystem.open_output_stream(f"{place}/ray_train/checkpoint_0/state.pt") as stream:
        stream.write(b"state")
    assert below(s3, "work")[0].endswith(f"{KEY}/ray_train/checkpoint_0/state.pt")
    work = here.work(STAGE)
    here.shared_folders.pull(work)
    assert not work.exists()  # nobody needs them here


def test_of_a_sweeps_folder_its_report_is_shown_to_all(s3):
    store = open_store(s3)
    store.sweep_folder("tiny").joinpath("figures").mkdir(parents=True)
    for name in ("report.html", "figures/x.png", ".hidden"):
        (store.sweep_folder("tiny") / name).write_text(name)
    store.publish(store.sweep_folder("tiny"), "tiny")
    prefix = s3.split("/", 3)[3]
    assert below(s3, "sweeps") == [f"{prefix}/sweeps/tiny/{name}" for name in ("figures/x.png", "report.html")]


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


@pytest.mark.parametrize("file", ["rows.bin", "manifest.json"])
def test_a_damaged_file_of_the_mirror_is_brought_again(s3, file):
    store = open_store(s3)
    fill(store)
    path = store.path(STAGE) / file
    times = path.stat()
    path.write_bytes(b"\0" * times.st_size)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert (store.path(STAGE) / "rows.bin").read_bytes() == b"numbers" and store.metrics(STAGE) == {"x": 1.0}
    assert store.file(STAGE, "rows.bin").read_bytes() == b"numbers" and not below(s3, "damaged")


def test_keys_of_work_that_lead_out_of_their_folder_are_refused(s3, tmp_path):
    rewrite(s3, f"work/{KEY}/classes/../../../evil")
    with pytest.raises(InputError, match="expected objects of plain names"), open_store(s3).working(STAGE):
        pass
    assert not list(tmp_path.rglob("*evil*"))
