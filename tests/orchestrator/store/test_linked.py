"""A store that reads through others: nothing is made twice, nothing written there, and what does not fit is refused."""

import json
import os
import shutil

import pytest

from smoothsweep.core.errors import ArtifactDamaged, InputError
from smoothsweep.orchestrator.planning.plan import make_plan
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.orchestrator.stages.stage import Stage, with_ancestors
from smoothsweep.orchestrator.store.base import MANIFEST, Store
from smoothsweep.orchestrator.store.manifests import sealed
from smoothsweep.orchestrator.store.opening import LINKS_FILE, open_existing_store, open_store, other_store, write_links


def stages(trials):
    return with_ancestors([stage for trial in trials for stage in trial.stages])


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
    for number, stage in enumerate(stages(trials)):
        if number % 2:
            shutil.rmtree(lab.place(stage))
    own.open_for_writing()
    write_links(own, [str(lab.root), str(colleague.root)])
    return stages(trials), lab, colleague, open_store(str(own.root))


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
    assert {path.name for path in own.root.iterdir()} == {"store.json", LINKS_FILE}
    keep(own, stage)
    assert own.path(stage) == own.root / stage.name / stage.fingerprint
    assert own.file(stage, "mine.txt").read_text() == "mine" and contents(lab.root) == before


def test_what_a_run_has_made_is_used_its_inputs_too(tmp_path, capsys):
    """Its manifests say more of their inputs than the stage does: the result of each."""
    images = {"kind": "synthetic", "identities": 12, "per_identity": 1, "size": 16, "spread": 0.6, "seed": 0}
    public = Stage(name="public", config=images)
    prior = Stage(name="prior", config={"kind": "eigenfaces", "components": 4, "seed": 0}, inputs={"public": public})
    lab, own = Store(root=tmp_path / "lab"), Store(root=tmp_path / "own")
    for store in (lab, own):
        store.open_for_writing()
    execute_with_inputs(lab, prior)
    assert set(lab.manifest(prior)["inputs"]["public"]) == {"stage", "fingerprint", "result"}
    write_links(own, [str(lab.root)])
    reader = open_store(str(own.root))
    assert [reader.has(stage) for stage in (public, prior)] == [True, True]
    assert reader.path(prior) == lab.place(prior) and capsys.readouterr().err == ""


@pytest.mark.parametrize("key", ["config", "inputs", "metrics"])
def test_an_artifact_of_another_stage_or_without_its_seal_is_refused_and_told(both, capsys, key):
    trials, lab, own = both
    stage = next(stage for stage in stages(trials) if stage.inputs)
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
    stage = stages(trials)[0]
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
    own, file = Store(root=tmp_path / "own"), tmp_path / "file"
    file.touch()
    for place, words in ((file, "got a file"), (tmp_path / "gone", "got nothing there"), (own.root, "got the same")):
        own.root.mkdir(exist_ok=True)
        with pytest.raises(InputError, match=f"linked store {place}: .*{words}"):
            other_store(str(place), own)
    (tmp_path / "lab").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    assert other_store("~/lab", own) == Store(root=tmp_path / "lab")


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
