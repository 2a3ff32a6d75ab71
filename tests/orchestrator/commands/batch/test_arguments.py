"""The options of `smoothsweep slurm`: what each is called in the help, and what stands where nothing is typed."""

import argparse
from dataclasses import fields
from unittest.mock import patch

import pytest

from smoothsweep.orchestrator.commands.batch import submit
from smoothsweep.orchestrator.commands.batch.arguments import add_slurm_command

OPTIONS = {  # option -> (its value in the help, what stands without it)
    "--nodes": ("N", "1"),
    "--gpus-per-node": ("G", None),
    "--cpus-per-node": ("C", None),
    "--mem": ("MEM", None),
    "--time": ("T", None),
    "--partition": ("P", None),
    "--account": ("A", None),
    "--qos": ("Q", None),
    "--sbatch": ("OPTION", []),
    "--array": ("0-N", None),
    "--setup": ("LINE", []),
    "--python": ("WORDS", None),
    "--grace": ("SECONDS", "300"),
    "--folder": ("DIR", None),
    "--tracking-uri": ("URI", None),
    "--dry-run": (None, False),
}


@pytest.fixture
def parser():
    found, sweep = argparse.ArgumentParser(prog="p"), argparse.ArgumentParser(add_help=False)
    for name in ("sweep", "overrides", "store"):
        sweep.add_argument(f"--{name}")
    add_slurm_command(found.add_subparsers(), sweep)
    return found


def test_every_option_is_told_and_stands_in_the_request(parser, capsys):
    with pytest.raises(SystemExit):
        parser.parse_args(["slurm", "--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert "write a batch script for a Slurm cluster and submit it" in told
    for option, (value, _) in OPTIONS.items():
        begin = f"{option} {value} " if value else f"{option} "
        assert told.count(begin) >= 1, option
        assert f"{begin.strip()}]" in told or option == "--time", "the usage line has it too"
    assert "0-31%8" in told and "%%" not in told and "(default: 300)" in told
    names = {option[2:].replace("-", "_") for option in OPTIONS} | {"sweep", "overrides", "store"}
    assert names == {field.name for field in fields(submit.Request)}


def test_what_stands_where_nothing_is_typed_and_what_arrives(parser):
    typed = ["slurm", "--time", "60", "--sweep", "s", "--sbatch=--a", "--sbatch=--b", "--setup", "x", "--setup", "y z"]
    requests = []
    with patch.object(submit, "submit_sweep", lambda request: requests.append(request) or 7):
        for words in (typed[:5], [*typed, "--dry-run", "--folder", "f"]):
            options = parser.parse_args(words)
            assert options.command(options) == 7
    least, most = requests
    for option, (_, usual) in OPTIONS.items():
        if option != "--time":
            assert getattr(least, option[2:].replace("-", "_")) == usual, option
    assert (least.time, least.sweep) == ("60", "s")
    assert (most.sbatch, most.setup, most.dry_run, most.folder) == (
        ["--a", "--b"],
        ["x", "y z"],
        True,
        submit.Path("f"),
    )
    with pytest.raises(SystemExit):
        parser.parse_args(["slurm"])
