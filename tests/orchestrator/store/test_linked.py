"""A store that reads through others: nothing is made twice, nothing written there, and what does not fit is refused."""

import json
import os
import pickle
import shutil

import pytest

from smoothsweep.core.errors import ArtifactDamaged, InputError
from smoothsweep.orchestrator.planning.plan import make_plan
from smoothsweep.orchestrator.stages.stage import with_ancestors
from smoothsweep.orchestrator.store import linked
from smoothsweep.orchestrator.store.common.artifacts import MANIFEST
from smoothsweep.orchestrator.store.common.sealing import sealed
from smoothsweep.orchestrator.store.linked import LINKS_FILE, LinkedStore, write_links
from smoothsweep.orchestrator.store.local import LocalStore
from smoothsweep.orchestrator.store.opening import open_existing_store, open_store
from tests.recorded import recorded


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return recorded(tmp_path_factory.mktemp("lab"))


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


def stages(trials):
    return with_ancestors([stage for trial in trials for stage in trial.stages])


def contents(root):
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def changed(lab, stage, change):
    """Change the manifest of an artifact and seal it again, as somebody would who wants it to be taken."""
    path = lab.manifest_file(stage.name, stage.fingerprint)
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(sealed(manifest)))


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


def test_without_the_link_everything_is_missing(both):
    trials, _, own = both
    assert len(make_plan(trials, LocalStore(root=own.root)).missing) == len(stages(trials))


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


@pytest.mark.parametrize("key", ["config", "inputs"])
def test_an_artifact_of_another_stage_under_this_name_is_refused_and_told(both, capsys, key):
    trials, lab, own = both
    stage = next(stage for stage in stages(trials) if stage.inputs)
    changed(lab, stage, lambda manifest: manifest[key].update(other=1 if key == "config" else {**_an_input(manifest)}))
    assert not own.has(stage) and not own.has(stage)
    said = capsys.readouterr().err
    assert f"states another {key}" in said and said.count("\n") == 1
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


def test_a_manifest_without_a_seal_is_refused_though_the_labs_store_is_old(both):
    trials, lab, own = both
    stage = stages(trials)[0]
    path = lab.manifest_file(stage.name, stage.fingerprint)
    manifest = {key: value for key, value in json.loads(path.read_text()).items() if key not in ("seal", "result")}
    path.write_text(json.dumps(manifest))
    (lab.root / "store.json").write_text('{"format": 1}')
    assert open_store(str(lab.root)).has(stage) and not open_store(str(own.root)).has(stage)


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


@pytest.mark.parametrize("which", ["folder", "file", "kind"])
def test_what_every_user_may_change_is_refused(both, capsys, which):
    trials, lab, own = both
    stage = stages(trials)[0]
    place = lab.place(stage)
    path = {"folder": place, "file": place / MANIFEST, "kind": place.parent}[which]
    path.chmod(path.stat().st_mode | 0o002)
    assert not own.has(stage)
    assert "every user may change" in capsys.readouterr().err


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


def test_it_travels_to_workers(both):
    """As Ray sends it, within one run: nothing from outside is unpickled."""
    _, _, own = both
    assert isinstance(own, LinkedStore) and pickle.loads(pickle.dumps(own)) == own


@pytest.fixture
def two(made, tmp_path, monkeypatch):
    """(stages, the lab's store with every second of them, a colleague's with all, one's own that reads through both).

    Every artifact of the colleague is older than the lab's, and none is of the same time.
    """
    trials, store = made
    for name, empty in (("_refused", set()), ("_fit", {})):
        monkeypatch.setattr(linked, name, empty)
    lab, colleague, own = (LocalStore(root=tmp_path / name) for name in ("lab", "colleague", "own"))
    for one in (lab, colleague):
        shutil.copytree(store.root, one.root)
    for number, stage in enumerate(stages(trials)):
        os.utime(lab.manifest_file(stage.name, stage.fingerprint), (9000 + number, 9000 + number))
        os.utime(colleague.manifest_file(stage.name, stage.fingerprint), (5000 + number, 5000 + number))
        if number % 2:
            shutil.rmtree(lab.place(stage))
    own.open_for_writing()
    write_links(own, [str(lab.root), str(colleague.root)])
    return stages(trials), lab, colleague, open_store(str(own.root))


def keep(own, stage):
    """An artifact of one's own, of now."""
    draft = own.draft(stage)
    (draft / "mine.txt").write_text("mine")
    own.commit(stage, draft, {"metrics": {"mine": 1.0}})


def test_of_several_stores_the_first_that_has_a_stage_serves_it_and_the_own_comes_before_all(two):
    found, lab, colleague, own = two
    assert [one.root for one in own.others] == [lab.root, colleague.root]
    keep(own, found[2])
    here = LocalStore(root=own.root)
    for number, stage in enumerate(found):
        holder = here if number == 2 else colleague if number % 2 else lab
        assert own.path(stage) == holder.place(stage) and own.manifest(stage) == holder.manifest(stage)
        assert own.manifest_file(stage.name, stage.fingerprint) == holder.place(stage) / MANIFEST
        assert own.examined(stage.name, stage.fingerprint) == holder.manifest(stage)
        assert (own.other_with(stage) or here).root == (lab.root if number == 2 else holder.root)
    assert own.manifest_file("target", "0" * 16) == here.manifest_file("target", "0" * 16)
    with pytest.raises(FileNotFoundError):
        own.examined("target", "0" * 16)


def test_a_stage_that_one_store_holds_damaged_is_taken_from_the_next(two, capsys):
    found, lab, colleague, own = two
    changed(lab, found[0], lambda manifest: manifest["config"].update(other=1))
    for _ in range(2):
        assert own.path(found[0]) == colleague.place(found[0])
    assert capsys.readouterr().err.count("is not used") == 1


def test_what_is_finished_is_what_any_store_holds(two):
    found, lab, _, own = two
    for kind in {stage.name for stage in found}:
        everything = {stage.fingerprint for stage in found if stage.name == kind}
        assert own.finished(kind) == everything
    shutil.rmtree(own.others[1].root)
    assert own.finished(found[0].name) == {p.name for p in (lab.root / found[0].name).iterdir()}


def test_what_stages_cost_is_told_by_the_own_store_first_and_then_by_the_others_in_order(two):
    found, lab, colleague, own = two
    kind = max({stage.name for stage in found}, key=lambda name: sum(stage.name == name for stage in found))
    mine = [number for number, stage in enumerate(found) if stage.name == kind]
    assert len(mine) >= 3, "several of a kind, so that there is something to choose"
    for number in mine[:2]:
        keep(own, found[number])
        os.utime(own.manifest_file(kind, found[number].fingerprint), (number + 1, number + 1))  # older than all others
    by_age = [
        *(LocalStore(root=own.root).place(found[number]) for number in reversed(mine[:2])),
        *(lab.place(found[number]) for number in reversed(mine) if number % 2 == 0),
        *(colleague.place(found[number]) for number in reversed(mine)),
    ]
    for at_most in (1, 2, 3, len(by_age) - 1, 99):
        assert own.newest_manifests(kind, at_most) == [place / MANIFEST for place in by_age[:at_most]]


def test_an_artifact_is_looked_at_again_where_its_manifest_has_changed_since(two):
    found, lab, colleague, own = two
    looked = []
    held = LinkedStore._hold_to
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LinkedStore, "_hold_to", lambda self, *given: looked.append(given[2]) or held(self, *given))
        assert own.has(found[0]) and own.has(found[0]) and looked == [lab.place(found[0])], "once, while it stays"
        changed(lab, found[0], lambda manifest: manifest["config"].update(other=1))
        assert own.path(found[0]) == colleague.place(found[0])
    assert looked == [lab.place(found[0]), lab.place(found[0]), colleague.place(found[0])]


def test_one_file_that_is_not_what_its_manifest_says_is_refused_where_it_alone_is_read(two, capsys):
    found, lab, colleague, own = two
    (lab.place(found[0]) / "what.txt").write_text(found[0].name[::-1])  # of the same size
    with pytest.raises(ArtifactDamaged, match=f"{lab.root}.*made anew"):
        own.file(found[0], "what.txt")
    said = capsys.readouterr().err
    assert str(lab.root) in said and "what.txt" in said and said.count("\n") == 1
    assert own.file(found[0], "what.txt") == colleague.place(found[0]) / "what.txt"
    assert own.file(found[0], "nothing.txt") is None and own.file(found[1], "nothing.txt") is None


def test_a_folder_in_which_each_may_change_only_what_is_ones_own_will_do(two):
    found, lab, _, own = two
    (lab.root / found[0].name).chmod(0o1777)
    assert own.path(found[0]) == lab.place(found[0])


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_what_belongs_to_the_owner_of_the_store_or_to_root_will_do(two):
    found, lab, _, own = two
    for path in (lab.root, lab.place(found[0])):
        os.chown(path, 12345, -1)
    assert own.path(found[0]) == lab.place(found[0])
    assert own.path(found[2]) == lab.place(found[2])


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


def test_the_list_is_read_as_it_was_written_and_a_store_without_one_stays_as_it_is(tmp_path):
    own = LocalStore(root=tmp_path / "own")
    assert linked.links_of(own) == [] and linked.with_links(own) is own
    write_links(own, ["/b", "/a"])
    assert linked.links_of(own) == ["/b", "/a"]
    write_links(own, [])
    assert linked.links_of(own) == [] and linked.with_links(own) is own
