"""`make gpu` without a GPU: every section runs at tiny sizes, and what fails or hangs costs no other its result."""

import json
import subprocess
import sys

import pytest
import torch

from benchmarks import gpu
from tools.marked import with_tables

DEAR = [pytest.param(name, marks=pytest.mark.slow) for name in ("attack", "training")]


@pytest.mark.parametrize("name", [*DEAR, "precision", "determinism", "memory", "distributed"])
def test_every_section_runs_at_tiny_sizes(name):
    rows = list(gpu.SECTIONS[name][0](smoke=True))
    assert rows and all(row.met is not False for row in rows)


ROW = gpu.MARK + json.dumps({"what": "a", "value": "1", "met": True}) + "\n"


@pytest.mark.parametrize("hangs", [False, True])
def test_a_section_that_fails_or_hangs_says_so_and_keeps_its_rows(hangs, monkeypatch):
    def run(command, **_):
        if hangs:
            raise subprocess.TimeoutExpired(command, 1.0, output=ROW.encode())
        return subprocess.CompletedProcess(command, 1, f"noise\n{ROW}".encode(), b"first\nRuntimeError: CUDA error\n")

    monkeypatch.setattr(gpu.subprocess, "run", run)
    rows = gpu.run_section("memory", smoke=True)
    assert [row.met for row in rows] == [True, False] and ("20 s" if hangs else "CUDA error") in rows[1].value


def test_the_table_has_a_place_on_its_page(repository):
    text = (repository / "docs/gpu.md").read_text()
    assert "| a | 1 | yes |" in with_tables(
        text, {"gpu": gpu.table([gpu.Row(what="a", value="1", met=True)])}, "gpu.md"
    )


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["gpu"])
    with pytest.raises(SystemExit, match="expected a CUDA device"):
        gpu.main()
