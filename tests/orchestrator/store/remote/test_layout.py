"""What lies where in a remote store, and what is left of writers that died."""

import json
import multiprocessing
import os
import re

import pytest

from smoothsweep.core.writers import is_gone, machine_id
from smoothsweep.orchestrator.store.remote import layout
from smoothsweep.orchestrator.store.remote.layout import (
    attempt_name,
    draft_key,
    files_key,
    manifest_key,
    set_artifact_aside,
    sweep_attempts,
    sweep_drafts,
    work_key,
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


def test_the_documented_places():
    assert manifest_key("k", "f") == "k/f/manifest.json"
    assert (files_key("k", "f"), work_key("k", "f")) == ("files/k/f", "work/k/f")
    assert draft_key("k", "f", "h.1.r") == "drafts/k.f.h.1.r"


def test_the_attempt_that_the_manifest_names_is_kept_and_the_others_go(objects):
    for name in (MINE, OTHERS, THIRD):
        attempt(objects, name)
    objects.write(manifest_key(KIND, PRINT), json.dumps({"attempt": OTHERS}).encode())
    sweep_attempts(objects, KIND, PRINT)
    assert attempts(objects) == {OTHERS}
    assert names(objects, f"{files_key(KIND, PRINT)}/{OTHERS}") == {"rows.bin", "inner/more.bin"}


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


def test_a_name_says_who_writes_and_whether_they_live():
    mine = attempt_name()
    host, pid, rest = mine.rsplit(".", 2)
    assert (host, int(pid)) == (machine_id(), os.getpid()) and re.fullmatch("[0-9a-f]{8}", rest)
    assert attempt_name() != mine and not is_gone(mine)
    gone = multiprocessing.get_context("fork").Process(target=int)
    gone.start()
    gone.join()
    assert is_gone(f"{host}.{gone.pid}.{rest}") and not is_gone(f"elsewhere.{gone.pid}.{rest}")
    assert not is_gone(f"{host}.word.{rest}")


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


def test_a_damaged_artifact_is_moved_with_its_manifest(objects):
    for name in (MINE, OTHERS):
        attempt(objects, name)
    content = json.dumps({"attempt": MINE}).encode()
    objects.write(manifest_key(KIND, PRINT), content)
    place = set_artifact_aside(objects, KIND, PRINT)
    assert place.startswith(f"damaged/{KIND}/{PRINT}.") and objects.read(f"{place}/manifest.json") == content
    assert names(objects, f"{place}/files") == {"rows.bin", "inner/more.bin"}
    assert attempts(objects) == {OTHERS} and objects.info(manifest_key(KIND, PRINT)) is None


def test_with_a_manifest_that_names_none_all_attempts_are_moved(objects):
    for name in (MINE, OTHERS):
        attempt(objects, name)
    objects.write(manifest_key(KIND, PRINT), json.dumps({"attempt": "../elsewhere"}).encode())
    place = set_artifact_aside(objects, KIND, PRINT)
    assert attempts(objects) == set() and len(names(objects, f"{place}/files")) == 4
