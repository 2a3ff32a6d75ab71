"""The doors: exit codes, one line for mistakes, nothing heavy before it is needed."""

import subprocess
import sys

import pytest

from orchestrator.cli import main


def test_help_names_every_door(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert all(door in shown for door in ("run", "plan", "status", "report", "ui", "doctor"))


@pytest.mark.parametrize("arguments", [[], ["dance"], ["run"], ["plan", "x.yaml", "--frobnicate"]])
def test_wrong_commands_exit_with_2(arguments):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2


@pytest.mark.parametrize("door", ["run", "plan", "status", "report"])
def test_a_missing_sweep_is_one_line_and_leaves_no_store(door, tmp_path, capsys):
    store = tmp_path / "store"
    assert main([door, str(tmp_path / "none.yaml"), "--store", str(store)]) == 2
    assert "expected a sweep file, got no such file" in capsys.readouterr().err
    assert not store.exists()


def test_ui_without_a_run_says_what_is_missing(tmp_path, capsys):
    assert main(["ui", "--store", str(tmp_path)]) == 2
    assert "expected the MLflow database of an earlier run" in capsys.readouterr().err


def test_the_doctor_examines_and_finds_what_is_shipped(tmp_path, capsys):
    main(["doctor", "--store", str(tmp_path / "new")])
    shown = capsys.readouterr().out
    for thing in ("Python 3", "torch 2", "CPU cores", "synthetic_embedder.safetensors", "can be written"):
        assert thing in shown
    assert "MISS" not in shown and not (tmp_path / "new").exists()


def test_a_reader_that_leaves_early_is_no_error(repository):
    command = f"{sys.executable} -m orchestrator plan sweeps/quickstart.yaml --store /nonexistent | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=repository)
    assert "16 trials" in done.stdout and done.stderr == ""
