"""The commands: exit codes, one line for mistakes, nothing heavy before it is needed."""

import io
import re
import subprocess
import sys
import tomllib

import pytest
from tiny import write_tiny

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.commands.plan import confirm
from smoothsweep.orchestrator.commands.requests import Spending
from smoothsweep.orchestrator.planning.plan import make_plan
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.stages.stage import code_version
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.load import load_sweep


def test_help_names_every_command(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert all(command in shown for command in ("run", "plan", "status", "report", "ui", "doctor"))


def test_alone_it_shows_the_doors_and_says_that_nothing_was_done(capsys):
    assert main([]) == 2
    shown = capsys.readouterr()
    assert "Start with: smoothsweep run quickstart" in shown.out and not shown.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["dance"], "invalid choice: 'dance'"),
        (["run"], "SWEEP.yaml"),
        (["plan", "x.yaml", "--frobnicate"], "unrecognized arguments: --frobnicate"),
        (["statsu"], "did you mean 'status'?"),
        (["data", "chek"], "did you mean 'check'?"),
        (["import", "piror"], "did you mean 'prior'?"),
        (["data", "check", "x", "--as", "celebra"], "did you mean 'celeba'?"),
        (["run", "quickstart", "--stroe", "x"], "did you mean '--store'?"),
        (["store", "ls", "--stroe=x"], "did you mean '--store'?"),
        (["audit", "m.pth", "--dta", "x", "--public", "y"], "did you mean '--data'?"),  # where --data is missing, too
    ],
)
def test_a_mistyped_command_or_flag_exits_with_2_and_is_told_which_one_was_meant(arguments, said, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2 and said in capsys.readouterr().err.splitlines()[-1]


def test_the_version_is_that_of_the_package_and_of_the_code(capsys, repository):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    stated = tomllib.loads((repository / "pyproject.toml").read_text())["project"]["version"]
    assert capsys.readouterr().out == f"smoothsweep {stated}, code {code_version()}\n"


@pytest.mark.parametrize("command", [["status", "SWEEP"], ["report", "SWEEP"], ["diff", "a", "b"], ["lineage", "a"]])
@pytest.mark.parametrize("there", [False, True])
def test_who_only_reads_a_store_makes_none(command, there, tmp_path, capsys):
    store = tmp_path / "stroe"
    if there:
        store.write_text("a file")
    sweep = str(write_tiny(tmp_path))
    assert main([*(sweep if word == "SWEEP" else word for word in command), "--store", str(store)]) == 2
    said = capsys.readouterr().err
    expected = (
        "a store, an empty folder or a new one, got a file" if there else "the store of an earlier run, got nothing"
    )
    assert f"expected {expected}" in said and said.count("\n") == 1
    assert store.is_file() if there else not store.exists()


@pytest.mark.parametrize(
    "command",
    [
        ["run", "SWEEP"],
        ["plan", "SWEEP"],
        ["slurm", "SWEEP", "--time", "60"],
        ["status", "SWEEP"],
        ["report", "SWEEP"],
        ["store", "verify"],
        ["diff", "a", "b"],
        ["ui"],
        ["doctor"],
    ],
)
def test_a_folder_of_other_things_is_no_store(command, tmp_path, capsys):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("x")
    (tmp_path / "other" / "thesis.bib").write_text("x")
    sweep = str(write_tiny(tmp_path))
    arguments = [*(sweep if word == "SWEEP" else word for word in command), "--store", str(tmp_path / "other")]
    assert main(arguments) == 2
    expected = "a store, an empty folder or a new one, got a folder of other things (thesis.bib, ...)"
    assert capsys.readouterr().err.endswith(f": expected {expected}\n")
    assert sorted(path.name for path in (tmp_path / "other").iterdir()) == ["thesis.bib", "thesis.tex"]


@pytest.mark.parametrize("command", ["run", "plan", "status", "report"])
def test_a_missing_sweep_is_one_line_and_leaves_no_store(command, tmp_path, capsys):
    store = tmp_path / "store"
    assert main([command, str(tmp_path / "none.yaml"), "--store", str(store)]) == 2
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
    assert re.match(r"\d+ trials \(0 complete\)", done.stdout) and done.stdout.count("\n") == 1 and done.stderr == ""


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


@pytest.fixture
def dear(tmp_path, monkeypatch):
    """A sweep of two trials and a store which knows that training one target takes 30 hours; the rest is unknown."""
    monkeypatch.setattr("smoothsweep.orchestrator.commands.run.begin_run", lambda _: pytest.fail("started"))
    sweep, store = write_tiny(tmp_path), Store(root=tmp_path / "store")
    target = trials_of(load_sweep(sweep))[0].stages[1]
    inputs = {name: {"stage": source.name, "fingerprint": source.fingerprint} for name, source in target.inputs.items()}
    manifest = {**target.identity(), "inputs": inputs, "metrics": {}, "seconds": 108_000.0}
    store.commit(target, store.draft(target), manifest)
    return sweep, store


def files_in(store):
    return sorted(path.relative_to(store.root) for path in store.root.rglob("*"))


def test_a_dear_run_without_a_terminal_is_refused_and_leaves_nothing(dear, capsys, monkeypatch):
    sweep, store = dear
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    before = files_in(store)
    assert main(["run", str(sweep), "--store", str(store.root)]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        "smoothsweep: about 30 device-hours exceed --confirm-above 24: "
        "expected --yes where there is no terminal to ask on; nothing was started"
    )
    assert files_in(store) == before


def asked(dear, **wishes):
    sweep, store = dear
    confirm(make_plan(trials_of(load_sweep(sweep)), store), Spending(**wishes))


def test_yes_is_the_answer_for_scripts_and_a_person_may_give_it(dear, capsys, monkeypatch):
    asked(dear, yes=True)
    assert "expected device time: 30.0 h + about " in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", Terminal("Y\n"))
    monkeypatch.setattr("sys.stderr", Terminal())
    asked(dear)


def test_dollars_have_a_threshold_of_their_own(dear):
    with pytest.raises(InputError, match=r"about \$90.00 exceed --confirm-above-dollars 89"):
        asked(dear, confirm_above=31.0, price=3.0, confirm_above_dollars=89.0)


def test_what_another_machine_would_take_asks_above_the_threshold_alone(tmp_path, capsys):
    fresh = write_tiny(tmp_path), Store(root=tmp_path / "none")
    asked(fresh)
    assert "expected device time: about " in capsys.readouterr().err
    with pytest.raises(InputError, match="exceed --confirm-above 0"):
        asked(fresh, confirm_above=0.0)
    plan = make_plan(trials_of(load_sweep(fresh[0])), fresh[1])
    confirm(plan, Spending(confirm_above=1e-4), budget_hours=1e-4)  # which bounds it


@pytest.fixture
def unknown(tmp_path, monkeypatch):
    """A sweep of a defense that neither the store nor the rates of another machine know, and its store."""
    monkeypatch.setattr("smoothsweep.orchestrator.commands.run.begin_run", lambda _: pytest.fail("started"))
    grid = {"recipe.defense": [{"kind": "focal", "gamma": 2.0}, {"kind": "at_at"}]}
    return write_tiny(tmp_path, grid=grid, baseline={}), Store(root=tmp_path / "none")


@pytest.mark.parametrize("answer", ["", "\n", "n\n", "yesterday\n"])
@pytest.mark.parametrize(
    ("case", "question"),
    [("dear", "exceed --confirm-above 24. Go ahead?"), ("unknown", "the cost of 2 stages is unknown. Go ahead?")],
)
def test_only_yes_starts_a_run_of_much_or_unknown_cost(case, question, answer, request, monkeypatch):
    sweep, store = request.getfixturevalue(case)
    screen, before = Terminal(), files_in(store)
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    monkeypatch.setattr("sys.stderr", screen)
    assert main(["run", str(sweep), "--store", str(store.root)]) == 2
    assert f"{question} [y/N]" in screen.getvalue() and files_in(store) == before
    assert screen.getvalue().endswith("smoothsweep: not confirmed; nothing was started\n")


def test_an_unknown_cost_without_a_terminal_needs_yes_or_a_budget(unknown, capsys, monkeypatch):
    sweep, store = unknown
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert main(["run", str(sweep), "--store", str(store.root)]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        "smoothsweep: the cost of 2 stages is unknown: "
        "expected --yes where there is no terminal to ask on; nothing was started"
    )
    plan = make_plan(trials_of(load_sweep(sweep)), store)
    for wishes, budget, may in (
        ({"yes": True}, None, True),
        ({}, 24.0, True),
        ({}, 24.1, False),
        ({"confirm_above": 1.0}, 1.1, False),
        ({"price": 5.0}, 20.0, True),
        ({"price": 5.1}, 20.0, False),
        ({"price": 5.1, "confirm_above_dollars": 102}, 20.0, True),
    ):
        if may:
            confirm(plan, Spending(**wishes), budget)
        else:
            with pytest.raises(InputError, match="the cost of 2 stages is unknown"):
                confirm(plan, Spending(**wishes), budget)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--price=-2"], "--price: expected a finite number of at least 0, got '-2'"),
        (["--confirm-above=nan"], "--confirm-above: expected a finite number of at least 0, got 'nan'"),
        (["--confirm-above-dollars=5"], "--confirm-above-dollars 5: expected --price beside it, got none"),
        (["--price=1", "--confirm-above-dollars=x"], "--confirm-above-dollars: expected a finite number of at least 0"),
    ],
)
def test_thresholds_are_checked_before_anything_else(options, message, tmp_path, capsys):
    assert main(["run", str(tmp_path / "none.yaml"), *options]) == 2
    shown = capsys.readouterr().err
    assert message in shown and len(shown.splitlines()) == 1
