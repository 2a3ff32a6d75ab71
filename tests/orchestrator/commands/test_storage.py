"""`smoothsweep store`: what is used, what may go, what is copied, what is linked; a disk that fails, a reader who may
not write."""

import errno
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from rich.filesize import decimal

from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.commands.storage import usage_of
from smoothsweep.orchestrator.planning.plan import make_plan
from smoothsweep.orchestrator.planning.state import STATE_FILE, SweepState, write_state, write_trial_notes
from smoothsweep.orchestrator.store import base
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.store.opening import open_store
from tests.made_stores import stages_of


@pytest.fixture
def two(made, tmp_path):
    """(trials, a store with two sweeps: `one` of the first trial, `other` of all but the first)."""
    trials, store = made
    root = tmp_path / "store"
    shutil.copytree(store.root, root)
    shutil.rmtree(root / "sweeps", ignore_errors=True)
    copy = Store(root=root)
    write_trial_notes(copy, "one", trials[:1], lambda trial: (trial.label, ""))
    write_trial_notes(copy, "other", trials[1:], lambda trial: (trial.label, ""))
    return trials, copy


def asked(store, *words):
    return main(["store", words[0], *words[1:], "--store", str(store.root)])


def keys(trials):
    return {(stage.name, stage.fingerprint) for stage in stages_of(trials)}


def names(store):
    return {(path.parent.parent.name, path.parent.name) for path in store.root.glob("*/*/manifest.json")}


def test_ls_says_what_each_sweep_needs_and_what_it_needs_alone(two, capsys):
    trials, store = two
    usage = usage_of(store)
    assert usage.sweeps == {"one": keys(trials[:1]), "other": keys(trials[1:])}
    alone = keys(trials[:1]) - keys(trials[1:])
    assert alone and set(usage.of_one_sweep("one")) == alone
    assert asked(store, "ls") == 0
    lines = capsys.readouterr().out.splitlines()
    row = next(line for line in lines if line.startswith("one"))
    assert row.split()[1] == str(len(keys(trials[:1])))
    size = sum(
        path.stat().st_size for kind, name in alone for path in (store.root / kind / name).rglob("*") if path.is_file()
    )
    assert row.endswith(decimal(size))
    assert "used by no sweep: 0 artifacts" in lines[-1]


def test_gc_lists_first_and_removes_only_what_no_sweep_needs(two, capsys):
    trials, store = two
    shutil.rmtree(store.root / "sweeps" / "one")
    gone = keys(trials[:1]) - keys(trials[1:])
    before = names(store)
    assert asked(store, "gc") == 0 and names(store) == before
    assert "--yes deletes them" in capsys.readouterr().out
    assert asked(store, "gc", "--yes") == 0
    assert names(store) == before - gone
    assert not make_plan(trials[1:], store).missing


def test_gc_takes_damaged_artifacts_and_leaves_unfinished_work(two, capsys):
    _, store = two
    aside, work = store.root / "damaged" / "target" / f"{'a' * 64}.12345678", store.root / "target" / f"{'b' * 64}.work"
    for folder in (aside, work):
        folder.mkdir(parents=True)
        (folder / "file").write_bytes(b"x" * 2048)
    assert asked(store, "du") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines if line.startswith(("damaged", "unfinished"))] == [
        ["damaged", "1", "2.0", "kB"],
        ["unfinished", "1", "2.0", "kB"],
    ]
    assert asked(store, "gc", "--yes") == 0
    assert not aside.exists() and work.exists()


@pytest.mark.parametrize("why", ["third: expected notes of what this sweep needs", "one: expected a store on which"])
def test_gc_refuses_where_it_cannot_know_and_while_a_run_is_at_work(two, capsys, why):
    _, store = two
    if why.startswith("third"):
        (store.root / "sweeps" / "third").mkdir()
    else:
        at_work = SweepState(name="one", total_stages=1, done_stages=0, total_trials=1)
        write_state(store, "one", at_work, {}, finished=False)
        state = {**json.loads(store.read_note("one", STATE_FILE)), "place": "another machine"}
        store.write_note("one", STATE_FILE, json.dumps(state).encode())
    before = names(store)
    assert asked(store, "gc", "--yes") == 2
    assert why in capsys.readouterr().err and names(store) == before


def test_an_export_is_a_store_that_needs_nothing_more(two, capsys, tmp_path):
    trials, store = two
    assert asked(store, "export", "one", str(tmp_path / "copy")) == 0
    copy = Store(root=tmp_path / "copy")
    assert names(copy) == keys(trials[:1])
    assert not make_plan(trials[:1], copy).missing and copy.sweeps() == ["one"]
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nowhere", "nowhere: expected a sweep of"),
        ("on", "did you mean 'one'?"),
        ("one", "expected artifacts as they were written, got "),
    ],
)
def test_what_cannot_be_exported_is_one_line_and_leaves_nothing(two, capsys, tmp_path, name, words):
    """Also where an artifact that the sweep needs is damaged."""
    trials, store = two
    kind, fingerprint = sorted(keys(trials[:1]))[0]
    next(path for path in (store.root / kind / fingerprint).iterdir() if path.name != "manifest.json").write_bytes(b"x")
    assert asked(store, "export", name, str(tmp_path / "copy")) == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1
    assert not (tmp_path / "copy").exists() and not list(tmp_path.glob(".copy*"))


def test_verify_reads_everything(two, capsys):
    trials, store = two
    assert asked(store, "verify") == 0
    assert f"{len(keys(trials))} artifacts as they were written" in capsys.readouterr().out
    kind, name = sorted(keys(trials))[0]
    file = next(path for path in (store.root / kind / name).iterdir() if path.name != "manifest.json")
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    assert asked(store, "verify") == 1


def test_link_and_unlink(two, capsys, tmp_path):
    trials, store = two
    own = Store(root=tmp_path / "own")
    assert main(["store", "link", str(store.root), "--store", str(own.root)]) == 0
    assert not make_plan(trials, open_store(str(own.root))).missing
    assert main(["store", "ls", "--store", str(own.root)]) == 0
    assert f"reads through: {store.root}" in capsys.readouterr().out
    assert main(["store", "unlink", str(store.root), "--store", str(own.root)]) == 0
    assert len(make_plan(trials, open_store(str(own.root))).missing) == len(keys(trials))


def test_what_cannot_be_linked_is_one_line_and_changes_nothing(two, capsys, tmp_path):
    _, store = two
    own = tmp_path / "own"
    chained = tmp_path / "chained"
    chained.mkdir()
    (chained / "linked.json").write_text(json.dumps({"stores": [str(store.root)]}))
    for other, words in (
        (tmp_path / "nowhere", "nothing there"),
        (chained, "reads through no other"),
        (own, "nothing there"),
    ):
        assert main(["store", "link", str(other), "--store", str(own)]) == 2
        assert words in capsys.readouterr().err and not own.exists()
    assert main(["store", "unlink", str(store.root), "--store", str(store.root)]) == 2
    assert main(["store", "ls", "--store", "s3://bucket/there"]) == 2


def artifacts(store):
    return sorted(path.parent for path in store.root.glob("*/*/manifest.json"))


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to become somebody who may not write")
def test_the_reading_commands_serve_a_reader(made, capsys):
    trials, store = made
    commands = (["lineage", trials[0].id], ["diff", trials[0].id, trials[1].id], ["store", "verify"])
    with tempfile.TemporaryDirectory(dir="/tmp") as name:  # pytest's own folders are closed to others
        root = shutil.copytree(store.root, Path(name) / "store")
        subprocess.run(["chmod", "-R", "a+rX,go-w", name], check=True)
        told = []
        for user in (0, 65534):  # the first has everything imported, which may lie where only root may read
            os.seteuid(user)
            try:
                told.append([main([*command, "--store", str(root)]) for command in commands])
            finally:
                os.seteuid(0)
            told.append(capsys.readouterr())
    assert told[0] == told[2] == [0, 0, 0] and told[1] == told[3] and told[3].err == ""


@pytest.mark.parametrize("where", ["a file", "a manifest"])
def test_verify_names_what_the_disk_does_not_give_and_goes_on(where, made, capsys, monkeypatch):
    _, store = made
    bad, whole = artifacts(store)[1], len(artifacts(store))
    digest = hashlib.file_digest

    def failing(file, kind):
        if where == "a file" and Path(file.name).parent == bad:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return digest(file, kind)

    read = base.read_artifact

    def failing_manifest(folder, **how):
        if where == "a manifest" and folder == bad:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(folder / "manifest.json"))
        return read(folder, **how)

    monkeypatch.setattr(hashlib, "file_digest", failing)
    monkeypatch.setattr(base, "read_artifact", failing_manifest)
    assert main(["store", "verify", "--store", str(store.root)]) == 1
    said = capsys.readouterr().out
    name = "what.txt" if where == "a file" else "manifest.json"
    assert f"{bad.parent.name} {bad.name[:8]}: {bad / name}: Input/output error\n" in said
    assert f"{whole - 1} artifacts" in said
