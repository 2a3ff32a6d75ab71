"""A store that reads through others: nothing is made twice, nothing written there, and what does not fit is refused."""

import json
import os
import shutil

import pytest

from smoothsweep.core.errors import ArtifactDamaged, InputError
from smoothsweep.orchestrator.planning.plan import make_plan
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store import linked
from smoothsweep.orchestrator.store.common.artifacts import MANIFEST
from smoothsweep.orchestrator.store.linked import LINKS_FILE, write_links
from smoothsweep.orchestrator.store.local import LocalStore
from smoothsweep.orchestrator.store.opening import open_existing_store, open_store
from tests.orchestrator.store.linked_stores import changed, stages


@pytest.fixture
def both(made, tmp_path, monkeypatch):
    """(trials, a copy of the lab's store, one's own empty store that reads through it)."""
    trials, store = made
    monkeypatch.setattr(linked, "_refused", set())
    lab = LocalStore(root=tmp_path / "lab")
    shutil.copytree(store.root, lab.root)
    own = LocalStore(root=tmp_path / "own")
    own.open_for_writing()
    write_links(own, [str(lab.root)])
    return trials, lab, open_store(str(own.root))


def contents(root):
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_second_user_of_a_lab_makes_no_stage_of_a_shared_sweep(both):
    trials, lab, own = both
    before = contents(lab.root)
    assert not make_plan(trials, own).missing
    for stage in stages(trials):
        assert own.path(stage) == lab.place(stage)
        assert own.manifest(stage) == lab.manifest(stage)
        assert own.metrics(stage) == lab.metrics(stage)
        name = next(iter(own.manifest(stage)["files"]), None)
        assert name is None or own.file(stage, name) == lab.place(stage) / name
        assert own.file(stage, "no such file") is None
    assert contents(lab.root) == before
    assert {path.name for path in own.root.iterdir()} == {"store.json", LINKS_FILE}


def test_what_is_made_goes_into_the_own_store_and_counts_first(both):
    trials, lab, own = both
    stage = stages(trials)[0]
    draft = own.draft(stage)
    (draft / "mine.txt").write_text("mine")
    before = contents(lab.root)
    own.commit(stage, draft, {"metrics": {}})
    assert own.path(stage) == LocalStore(root=own.root).place(stage)
    assert own.file(stage, "mine.txt").read_text() == "mine"
    assert contents(lab.root) == before


def test_what_a_run_has_made_is_used_its_inputs_too(tmp_path, capsys):
    """Its manifests say more of their inputs than the stage does: the result of each."""
    images = {"kind": "synthetic", "identities": 12, "per_identity": 1, "size": 16, "spread": 0.6, "seed": 0}
    public = Stage(name="public", config=images)
    prior = Stage(name="prior", config={"kind": "eigenfaces", "components": 4, "seed": 0}, inputs={"public": public})
    lab, own = LocalStore(root=tmp_path / "lab"), LocalStore(root=tmp_path / "own")
    for store in (lab, own):
        store.open_for_writing()
    execute_with_inputs(lab, prior)
    assert set(lab.manifest(prior)["inputs"]["public"]) == {"stage", "fingerprint", "result"}
    write_links(own, [str(lab.root)])
    reader = open_store(str(own.root))
    assert [reader.has(stage) for stage in (public, prior)] == [True, True]
    assert reader.path(prior) == lab.place(prior) and capsys.readouterr().err == ""


@pytest.mark.parametrize(("key", "words"), [("config", "another configuration"), ("inputs", "other inputs")])
def test_an_artifact_of_another_stage_under_this_name_is_refused_and_told(both, capsys, key, words):
    trials, lab, own = both
    stage = next(stage for stage in stages(trials) if stage.inputs)
    changed(lab, stage, lambda manifest: manifest[key].update(other=1 if key == "config" else {**_an_input(manifest)}))
    assert not own.has(stage) and not own.has(stage)
    said = capsys.readouterr().err
    assert f"its manifest states {words}" in said and said.count("\n") == 1
    assert [one.fingerprint for one in make_plan(trials, own).missing] == [stage.fingerprint]


def _an_input(manifest):
    return next(iter(manifest["inputs"].values()))


def test_a_manifest_changed_without_its_seal_is_refused(both, capsys):
    trials, lab, own = both
    stage = stages(trials)[-1]
    path = lab.manifest_file(stage.name, stage.fingerprint)
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({**manifest, "metrics": {"embedder_acc1": 0.0}}))
    assert not own.has(stage)
    assert "is not used" in capsys.readouterr().err


def test_a_file_that_is_not_what_its_manifest_says_is_refused_when_it_is_read(both, capsys):
    trials, lab, own = both
    stage, name = next(
        (stage, name) for stage in stages(trials) for name in lab.manifest(stage)["files"] if stage.inputs
    )
    file = lab.place(stage) / name
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert own.has(stage)
    with pytest.raises(ArtifactDamaged, match="made anew"):
        own.path(stage)
    assert not own.has(stage) and file.exists(), "a store that is only read is not mended"


@pytest.mark.parametrize("bits", [0o002, 0o020, 0o1020], ids=oct)
@pytest.mark.parametrize("which", ["store", "kind", "folder", "file"])
def test_what_others_or_a_group_may_change_is_refused(both, capsys, which, bits):
    """A sticky folder lets others add files alone; a file has no such bit."""
    trials, lab, own = both
    stage = stages(trials)[0]
    place = lab.place(stage)
    path = {"store": lab.root, "kind": place.parent, "folder": place, "file": place / MANIFEST}[which]
    path.chmod(path.stat().st_mode | bits)
    assert own.has(stage) == (which != "file" and bits == 0o1020)
    assert own.has(stage) or f"{path.stat().st_mode & 0o7777:o}" in capsys.readouterr().err


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_what_belongs_to_a_third_user_is_refused(both, capsys):
    trials, lab, own = both
    stage = stages(trials)[0]
    os.chown(lab.place(stage) / MANIFEST, 12345, -1)
    assert not own.has(stage)
    assert "12345" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["[]", "{", '{"stores": [1]}', '{"stores": "a"}'])
def test_a_damaged_list_is_one_line(both, content):
    _, _, own = both
    (own.root / LINKS_FILE).write_text(content)
    with pytest.raises(InputError, match="expected the list of linked stores"):
        open_existing_store(str(own.root))


def test_a_linked_store_that_is_gone_or_newer_is_one_line(both):
    _, lab, own = both
    (lab.root / "store.json").write_text('{"format": 999}')
    with pytest.raises(InputError, match=f"{lab.root}.*got 999"):
        open_store(str(own.root))
    shutil.rmtree(lab.root)
    with pytest.raises(InputError, match="store unlink"):
        open_store(str(own.root))


def test_a_link_to_what_is_no_store_of_others_says_what_is_there(tmp_path, monkeypatch):
    own, file = LocalStore(root=tmp_path / "own"), tmp_path / "file"
    file.touch()
    for place, words in ((file, "got a file"), (tmp_path / "gone", "got nothing there"), (own.root, "got the same")):
        own.root.mkdir(exist_ok=True)
        with pytest.raises(InputError, match=f"linked store {place}: .*{words}"):
            linked.other_store(str(place), own)
    (tmp_path / "lab").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    assert linked.other_store("~/lab", own) == LocalStore(root=tmp_path / "lab")
