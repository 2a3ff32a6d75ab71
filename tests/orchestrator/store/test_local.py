"""Stores in a folder: whole artifacts or none, read through others, gone under a run, on a disk that is full."""

import json
import multiprocessing
import os
import pickle
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.sleeping import Sleep
from smoothsweep.core.errors import ArtifactDamaged, InputError, StoreGone
from smoothsweep.core.files import replacing
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.planning.plan import make_plan
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.stages.stage import Stage, canonical_json
from smoothsweep.orchestrator.store.base import MANIFEST, Store
from smoothsweep.orchestrator.store.manifests import sealed
from smoothsweep.orchestrator.store.opening import LINKS_FILE, open_store, write_links
from smoothsweep.sweeps.load import load_sweep
from tests.made_stores import stages_of
from tests.tiny import write_tiny


def stage(name="toy", **config):
    return Stage(name=name, config=config)


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


def test_a_path_and_a_file_url_are_one_local_store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for location in (str(tmp_path / "s"), f"file://{tmp_path / 's'}", "s", "./inner/../s", "~/s"):
        store = open_store(location)
        assert isinstance(store, Store) and store.root == Path(tmp_path / "s").resolve()
    assert not (tmp_path / "s").exists()  # looking leaves nothing


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


STAGE = Sleep(config={"classes": 1})


def moved(root):
    root.rename(root.with_name("elsewhere"))


def deleted(root):
    shutil.rmtree(root)


def unmounted(root):
    """What remains is the empty folder that it was mounted on."""
    moved(root)
    root.mkdir()


def another_in_its_place(root):
    moved(root)
    (root / "somebody").mkdir(parents=True)


def work_in(store):
    with store.working(STAGE) as work:
        (work / "checkpoint").write_text("x")


WRITES = {
    "draft": lambda store: store.draft(STAGE),
    "working": work_in,
    "note": lambda store: store.write_note("tiny", "state.json", b"{}"),
    "move": lambda store: store.rename("store.json", "other.json"),
    "commit": lambda store: store.commit(STAGE, store.root / "draft", {"metrics": {}}),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("happens", [moved, deleted, unmounted, another_in_its_place])
def test_a_write_into_a_store_that_has_gone_is_refused(happens, write, tmp_path):
    store = Store(root=tmp_path / "store")
    store.open_for_writing()
    store.check_there()
    worker = pickle.loads(pickle.dumps(store))  # as Ray hands it to a worker; our own bytes, made in this line
    happens(store.root)
    before = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*"))
    for one in (store, worker):
        with pytest.raises(StoreGone, match=f"^{store.root}: the store has disappeared") as told:
            WRITES[write](one)
        assert "\n" not in str(told.value)
    assert sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*")) == before


@pytest.fixture(params=["16k", "200k"])
def small_disk(request, tmp_path):
    """Too small for the data; large enough for the data alone."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={request.param}", "tmpfs", place], check=False)
    if mounted.returncode:
        pytest.skip("this machine lets nobody mount")
    yield place
    subprocess.run(["umount", place], check=True)


@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("mount"), reason="needs root")
def test_data_that_find_no_room(small_disk, tmp_path, capfd):
    sweep, location = write_tiny(tmp_path), small_disk / "store"
    assert main(["run", str(sweep), "--store", str(location)]) == 1
    told = capfd.readouterr().err.splitlines()
    assert [line for line in told if line.startswith("smoothsweep: ")] == told[-1:] and len(told) < 6
    assert "No space left on device; with room again, the same command goes on from here" in told[-1]
    store = open_store(str(location))
    plan = make_plan(trials_of(load_sweep(sweep, []), store), store)
    done = [stage for stage in plan.stages if store.has(stage)]
    assert {stage.name for stage in done} <= {"data"}
    assert not [path for path in location.rglob(".*")], "no draft"
    for stage in done:
        assert (store.path(stage) / "train.safetensors").stat().st_size > 0


def contents(root):
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def keep(own, stage):
    """An artifact of one's own, of now."""
    draft = own.draft(stage)
    (draft / "mine.txt").write_text("mine")
    own.commit(stage, draft, {"metrics": {"mine": 1.0}})


@pytest.fixture
def both(made, tmp_path):
    """(trials, a copy of the lab's store, one's own empty store that reads through it)."""
    trials, store = made
    lab, own = (Store(root=tmp_path / name) for name in ("lab", "own"))
    shutil.copytree(store.root, lab.root)
    own.open_for_writing()
    write_links(own, [str(lab.root)])
    return trials, lab, open_store(str(own.root))


@pytest.fixture
def two(made, tmp_path):
    """(stages, the lab's store with every second of them, a colleague's with all, one that reads through both)."""
    trials, store = made
    lab, colleague, own = (Store(root=tmp_path / name) for name in ("lab", "colleague", "own"))
    for one in (lab, colleague):
        shutil.copytree(store.root, one.root)
    for number, stage in enumerate(stages_of(trials)):
        if number % 2:
            shutil.rmtree(lab.place(stage))
    own.open_for_writing()
    write_links(own, [str(lab.root), str(colleague.root)])
    return stages_of(trials), lab, colleague, open_store(str(own.root))


def test_a_second_user_of_a_lab_makes_no_stage_of_a_shared_sweep(both):
    trials, lab, own = both
    before = contents(lab.root)
    assert not make_plan(trials, own).missing
    for stage in stages_of(trials):
        assert own.path(stage) == lab.place(stage)
        assert own.manifest(stage) == lab.manifest(stage)
        assert own.metrics(stage) == lab.metrics(stage)
        name = next(iter(own.manifest(stage)["files"]), None)
        assert name is None or own.file(stage, name) == lab.place(stage) / name
        assert own.file(stage, "no such file") is None
    assert {path.name for path in own.root.iterdir()} == {"store.json", LINKS_FILE}
    keep(own, stage)
    assert own.path(stage) == own.root / stage.name / stage.fingerprint
    assert own.file(stage, "mine.txt").read_text() == "mine" and contents(lab.root) == before


@pytest.mark.parametrize("key", ["config", "inputs", "metrics"])
def test_an_artifact_of_another_stage_or_without_its_seal_is_refused_and_told(both, capsys, key):
    trials, lab, own = both
    stage = next(stage for stage in stages_of(trials) if stage.inputs)
    path = lab.manifest_file(stage.name, stage.fingerprint)
    manifest = json.loads(path.read_text())
    manifest[key]["other"] = next(iter(manifest["inputs"].values())) if key == "inputs" else 1
    path.write_text(json.dumps(manifest if key == "metrics" else sealed(manifest)))
    assert not own.has(stage) and not own.has(stage)
    said = capsys.readouterr().err
    assert ("changed" if key == "metrics" else "configuration") in said
    assert said.count("\n") == 1
    assert [one.fingerprint for one in make_plan(trials, own).missing] == [stage.fingerprint]


def test_a_file_that_is_not_what_its_manifest_says_is_refused_when_it_is_read(two, capsys):
    found, lab, colleague, own = two
    files = [place.place(found[0]) / "what.txt" for place in (lab, colleague)]
    for file in files:
        content = file.read_bytes()
        file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert own.has(found[0])
    with pytest.raises(ArtifactDamaged, match=f"{lab.root}.*made anew"):
        own.file(found[0], "what.txt")
    said = capsys.readouterr().err
    assert str(lab.root) in said and "what.txt" in said and said.count("\n") == 1
    assert own.manifest_file(found[0].name, found[0].fingerprint).exists()
    with pytest.raises(ArtifactDamaged, match=f"{colleague.root}.*made anew"):
        own.path(found[0])
    assert not own.has(found[0]) and all(file.exists() for file in files), "what is only read is not mended"


@pytest.mark.parametrize("bits", [0o002, 0o020, 0o1020], ids=oct)
@pytest.mark.parametrize("which", ["store", "kind", "folder", "file"])
def test_what_others_or_a_group_may_change_is_refused(both, capsys, which, bits):
    """A sticky folder lets others add files alone; a file has no such bit."""
    trials, lab, own = both
    stage = stages_of(trials)[0]
    place = lab.place(stage)
    path = {"store": lab.root, "kind": place.parent, "folder": place, "file": place / MANIFEST}[which]
    path.chmod(path.stat().st_mode | bits)
    assert own.has(stage) == (which != "file" and bits == 0o1020)
    assert own.has(stage) or f"{path.stat().st_mode & 0o7777:o}" in capsys.readouterr().err


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_what_belongs_to_a_third_user_is_refused_and_what_is_the_owners_will_do(two, capsys):
    found, lab, colleague, own = two
    for path in (lab.root, lab.place(found[0]), colleague.place(found[1]) / MANIFEST):
        os.chown(path, 12345, -1)
    assert own.path(found[0]) == lab.place(found[0]) and own.path(found[2]) == lab.place(found[2])
    assert not own.has(found[1]) and "12345" in capsys.readouterr().err


def test_of_several_stores_the_first_that_has_a_stage_serves_it_and_the_own_comes_before_all(two):
    found, lab, colleague, own = two
    assert [one.root for one in own.others] == [lab.root, colleague.root]
    keep(own, found[2])
    here = Store(root=own.root)
    for number, stage in enumerate(found):
        holder = here if number == 2 else colleague if number % 2 else lab
        assert own.path(stage) == holder.place(stage) and own.manifest(stage) == holder.manifest(stage)
        assert own.manifest_file(stage.name, stage.fingerprint) == holder.place(stage) / MANIFEST
        assert own.examined(stage.name, stage.fingerprint) == holder.manifest(stage)
    assert own.manifest_file("target", "0" * 16) == here.manifest_file("target", "0" * 16)
    with pytest.raises(FileNotFoundError):
        own.examined("target", "0" * 16)
    for kind in {stage.name for stage in found}:
        assert own.finished(kind) == {stage.fingerprint for stage in found if stage.name == kind}
    shutil.rmtree(colleague.root)
    assert own.finished(found[0].name) == {p.name for p in (lab.root / found[0].name).iterdir()}
