"""A store on a disk that fails, and one that its reader may not write."""

import errno
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.store import base


def artifacts(store):
    return sorted(path.parent for path in store.root.glob("*/*/manifest.json"))


@pytest.mark.parametrize("where", ["a file", "a manifest"])
def test_doctor_names_what_the_disk_does_not_give_and_goes_on(where, made, capsys, monkeypatch):
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
    assert main(["doctor", "--store", str(store.root)]) == 1
    said = capsys.readouterr().out
    name = "what.txt" if where == "a file" else "manifest.json"
    assert f"MISS  store: {bad.parent.name} {bad.name[:8]}: {bad / name}: Input/output error\n" in said
    assert f"{whole - 1} artifacts" in said


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
