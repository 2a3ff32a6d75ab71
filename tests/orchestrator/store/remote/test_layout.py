"""What lies where in a remote store, and what is left of writers that died."""

import multiprocessing

import pytest

from smoothsweep.core.writers import machine_id
from smoothsweep.orchestrator.store.remote import layout
from smoothsweep.orchestrator.store.remote.layout import (
    attempt_name,
    draft_key,
    files_key,
    manifest_key,
    sweep_attempts,
    sweep_drafts,
)
from smoothsweep.orchestrator.store.remote.objects import Objects

KIND, PRINT = "toy", "a" * 64
MINE, OTHERS, THIRD = "here.1.aaaaaaaa", "there.2.bbbbbbbb", "there.3.cccccccc"


@pytest.fixture
def objects(s3):
    return Objects(url=s3)


def attempt(objects, name):
    objects.write(f"{files_key(KIND, PRINT)}/{name}/rows.bin", b"rows")
    objects.write(f"{files_key(KIND, PRINT)}/{name}/inner/more.bin", b"more")


def attempts(objects):
    return {listed.key.split("/")[0] for listed in objects.listed(files_key(KIND, PRINT))}


def names(objects, below):
    return {listed.key for listed in objects.listed(below)}


def test_an_attempt_that_is_being_uploaded_is_kept(objects):
    for name in (MINE, OTHERS):
        attempt(objects, name)
    objects.write(draft_key(KIND, PRINT, MINE), b"")
    objects.write(draft_key(KIND, "b" * 64, OTHERS), b"")  # of another stage
    sweep_attempts(objects, KIND, PRINT)
    assert attempts(objects) == {MINE}


@pytest.mark.parametrize("manifest", [b"", b"{", b"[]", b"{}", b"null", b"\xff"])
def test_beside_a_damaged_manifest_nothing_is_removed(objects, manifest):
    attempt(objects, MINE)
    objects.write(manifest_key(KIND, PRINT), manifest)
    sweep_attempts(objects, KIND, PRINT)
    assert attempts(objects) == {MINE}


def test_uploads_of_the_dead_and_of_long_ago_go_and_those_of_the_living_stay(objects, monkeypatch):
    gone = multiprocessing.get_context("fork").Process(target=int)
    gone.start()
    gone.join()
    dead, living, elsewhere = f"{machine_id()}.{gone.pid}.x", attempt_name(), OTHERS
    for name in (dead, living, elsewhere):
        attempt(objects, name)
        objects.write(draft_key(KIND, PRINT, name), b"")
    assert sweep_drafts(objects) == 1 and attempts(objects) == {living, elsewhere}
    assert names(objects, "drafts") == {f"{KIND}.{PRINT}.{name}" for name in (living, elsewhere)}
    assert sweep_drafts(objects) == 0
    monkeypatch.setattr(layout, "FOREIGN_DRAFT_S", -3600.0)
    assert sweep_drafts(objects) == 2 and attempts(objects) == names(objects, "drafts") == set()
