"""Artifacts that are not what they were: noticed by whoever reads them, set aside, made again; never printed."""

import json
import os
import shutil
import stat

import pytest

from benchmarks.sleeping import Sleep
from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.commands.storage import examine_store
from smoothsweep.orchestrator.scheduling.execute import execute, execute_with_inputs
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store import base, manifests
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.store.manifests import CACHE_VARIABLE
from smoothsweep.orchestrator.store.opening import open_store
from tests.harm import HARMS, harmed


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(base, "_told", set())
    forget_all(monkeypatch)


def forget_all(monkeypatch):
    """As another process of this machine, which has seen nothing yet."""
    monkeypatch.setattr(base, "_whole", {})


SOURCE = Stage(
    name="public",
    config={"kind": "synthetic", "identities": 5, "per_identity": 1, "size": 16, "seed": 1, "spread": 0.4},
)
READER = Stage(name="prior", config={"kind": "eigenfaces", "components": 3, "seed": 0}, inputs={"public": SOURCE})


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A store with two finished stages, one of which reads the other."""
    store = open_store(str(tmp_path_factory.mktemp("made") / "store"))
    store.open_for_writing()
    execute_with_inputs(store, READER)
    return store


@pytest.fixture
def store(made, tmp_path):
    return Store(root=shutil.copytree(made.root, tmp_path / "store"))


def lines(capsys):
    return [line for line in capsys.readouterr().err.splitlines() if line.startswith("smoothsweep: ")]


@pytest.mark.parametrize("how", [*HARMS, "bit 1", "bit 2", "missing", "a link"])
@pytest.mark.parametrize("file", ["images.safetensors", "manifest.json"])
def test_a_damaged_input_is_set_aside_and_made_again_with_one_line(store, made, tmp_path, capsys, file, how):
    shutil.rmtree(store.place(READER))
    path = store.place(SOURCE) / file
    content = path.read_bytes()
    path.unlink()
    if how == "a link":
        (tmp_path / "elsewhere").write_bytes(content)
        path.symlink_to(tmp_path / "elsewhere")
    elif how != "missing":
        path.write_bytes(harmed(content, how))
    execute_with_inputs(store, READER)
    assert path.read_bytes() == content or file == "manifest.json"
    for stage in (SOURCE, READER):
        assert store.manifest(stage)["result"] == made.manifest(stage)["result"]
    gone = file == "manifest.json" and how == "missing"  # without a manifest it does not exist: not worth a word
    said = lines(capsys)
    assert len(said) == 0 if gone else len(said) == 1 and f"{SOURCE.label}: " in said[0]
    assert len(list(store.root.glob("damaged/public/*"))) == 1
    assert examine_store(store).damaged == ()


@pytest.mark.parametrize("resealed", [False, True])
def test_a_manifest_edited_by_hand_is_noticed(store, resealed, capsys):
    path = store.place(SOURCE) / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["metrics"]["num_public"] = 99
    path.write_text(json.dumps(manifests.sealed(manifest) if resealed else manifest))
    told = examine_store(store).damaged
    if resealed:  # it looks whole, but what was made from it remembers another
        assert store.has(SOURCE) and len(told) == 1
        assert told[0].startswith(f"prior {READER.fingerprint[:8]}: was made from another public")
    else:
        assert not store.has(SOURCE) and told == (f"{SOURCE.label}: its manifest was changed after it was written",)
        assert "was changed after it was written" in lines(capsys)[0]


def test_links_that_lead_out_of_the_store_are_refused(store, tmp_path, capsys):
    place = store.place(SOURCE).rename(tmp_path / "elsewhere")
    store.place(SOURCE).symlink_to(place)
    assert not store.has(SOURCE) and "it is a link" in lines(capsys)[0]
    execute(store, SOURCE)
    assert store.has(SOURCE) and not store.place(SOURCE).is_symlink() and (place / "manifest.json").is_file()
    other = Sleep(config={"classes": 1, "seconds": 0})
    store.work(other).parent.mkdir(parents=True)
    store.work(other).symlink_to(tmp_path)
    with pytest.raises(InputError, match="expected a folder, got a link"):
        execute(store, other)


@pytest.mark.parametrize("mask", [0o000, 0o002, 0o022, 0o027, 0o077])
def test_every_file_of_a_store_is_for_whom_the_umask_says(tmp_path, mask):
    before = os.umask(mask)
    try:
        store = open_store(str(tmp_path / "store"))
        store.open_for_writing()
        execute_with_inputs(store, READER)
        store.write_note("tiny", "state.json", b"{}")
        with store.working(SOURCE) as work:
            store.mark(SOURCE, 0.5, "half")
            assert sorted(path.name for path in work.iterdir()) == ["progress.json"]
    finally:
        os.umask(before)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in store.root.rglob("*")}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o666 & ~mask}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o777 & ~mask}
    assert len(modes) > 10 and examine_store(store).damaged == ()
