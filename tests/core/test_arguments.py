"""What all commands ask of their arguments: a command first, and a place to write that is one."""

import argparse
import errno
from pathlib import Path

import pytest
from tiny import write_tiny

from smoothsweep.core.arguments import FolderToWrite, refusal
from smoothsweep.orchestrator.cli import _parser, main


def commands(parser, name=""):
    """Every parser below one, by the words that lead to it."""
    yield name, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, below in action.choices.items():
                yield from commands(below, f"{name} {word}".strip())


def test_every_folder_to_write_is_looked_at_before_the_work():
    found = {
        name: action
        for name, parser in commands(_parser())
        for action in parser._actions
        if action.dest == "out" and action.metavar == "DIR" and action.option_strings
    }
    assert {"run", "report", "export", "rejudge", "audit", "study build"} <= set(found)
    assert [name for name, action in found.items() if not isinstance(action, FolderToWrite)] == []


@pytest.mark.parametrize("command", ["run", "report", "export", "rejudge", "study build"])
@pytest.mark.parametrize(("place", "got"), [("there", "got a file"), ("there/below", "there on the way")])
def test_a_file_in_the_place_of_the_folder_is_one_line_before_any_work(command, place, got, tmp_path, capsys):
    sweep, out = write_tiny(tmp_path), tmp_path / place
    (tmp_path / "there").write_text("mine")
    more = ["--judges", "features={}"] if command == "rejudge" else []
    assert main([*command.split(), str(sweep), "--store", str(tmp_path / "store"), "--out", str(out), *more]) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith(f"smoothsweep: --out {out}: expected a folder, ") and shown.err.count("\n") == 1
    assert got in shown.err and not shown.out
    assert (tmp_path / "there").read_text() == "mine" and not (tmp_path / "store").exists()


def test_a_place_that_the_system_refuses_is_an_input(tmp_path, capsys):
    """/proc is a folder that looks writable to root, and takes no file."""
    if not Path("/proc/self").exists():
        pytest.skip("no /proc here")
    sweep = write_tiny(tmp_path)
    (tmp_path / "store").mkdir()
    assert main(["report", str(sweep), "--store", str(tmp_path / "store"), "--out", "/proc/out"]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("smoothsweep: --out /proc/out: expected a ") and shown.count("\n") == 1


@pytest.mark.parametrize(
    ("refused", "is_ours"),
    [
        ("/a/out", True),
        ("/a/out/figures/x.png", True),
        ("/a/.out.here.12.34", True),
        ("/a/..out.12.ready.here.12.34", True),
        ("/a", True),
        ("/a/store/x", False),
        ("/a/output", False),
        ("/b", False),
        (None, False),
    ],
)
def test_only_what_lies_at_the_place_to_write_is_about_it(refused, is_ours):
    line = refusal(Path("/a/out"), OSError(errno.EROFS, "Read-only file system", refused))
    assert line == (
        "--out /a/out: expected a place that can be written, got: Read-only file system" if is_ours else None
    )
    assert refusal(None, OSError(errno.EROFS, "x", "/a/out")) is None


@pytest.mark.parametrize("flag", ["--store", "--store=x", "--set", "--out"])
def test_a_flag_before_the_command_is_told_where_it_belongs(flag, capsys):
    assert main([flag, "x", "status", "tiny.yaml"]) == 2
    name = flag.partition("=")[0]
    expected = (
        f"smoothsweep: {name}: expected a command before its flags (smoothsweep COMMAND ... {name} ...), got none\n"
    )
    assert capsys.readouterr().err == expected
