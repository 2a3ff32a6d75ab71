"""A store that reads through several others: which of them serves a stage, tells its cost, and is told of."""

import os
import shutil

import pytest

from smoothsweep.core.errors import ArtifactDamaged
from smoothsweep.orchestrator.store import linked
from smoothsweep.orchestrator.store.common.artifacts import MANIFEST
from smoothsweep.orchestrator.store.linked import write_links
from smoothsweep.orchestrator.store.local import LocalStore
from smoothsweep.orchestrator.store.opening import open_store
from tests.orchestrator.store.linked_stores import stages


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
        assert (own.find_other(stage) or here).root == (lab.root if number == 2 else holder.root)
    assert own.manifest_file("target", "0" * 16) == here.manifest_file("target", "0" * 16)
    with pytest.raises(FileNotFoundError):
        own.examined("target", "0" * 16)


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


def test_one_file_that_is_not_what_its_manifest_says_is_refused_where_it_alone_is_read(two, capsys):
    found, lab, colleague, own = two
    (lab.place(found[0]) / "what.txt").write_text(found[0].name[::-1])  # of the same size
    with pytest.raises(ArtifactDamaged, match=f"{lab.root}.*made anew"):
        own.file(found[0], "what.txt")
    said = capsys.readouterr().err
    assert str(lab.root) in said and "what.txt" in said and said.count("\n") == 1
    assert own.file(found[0], "what.txt") == colleague.place(found[0]) / "what.txt"
    assert own.file(found[0], "nothing.txt") is None and own.file(found[1], "nothing.txt") is None


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_what_belongs_to_the_owner_of_the_store_or_to_root_will_do(two):
    found, lab, _, own = two
    for path in (lab.root, lab.place(found[0])):
        os.chown(path, 12345, -1)
    assert own.path(found[0]) == lab.place(found[0])
    assert own.path(found[2]) == lab.place(found[2])
