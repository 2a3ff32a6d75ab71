"""The commands: exit codes, one line for mistakes, questions before much is spent, what a real bash is offered."""

import io
import re
import subprocess
import sys
import tomllib

import pytest

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.commands.plan import confirm
from smoothsweep.orchestrator.commands.requests import Spending
from smoothsweep.orchestrator.planning.plan import make_plan
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.stages.stage import code_version
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.load import load_sweep
from tests.made_stores import commit
from tests.tiny import write_tiny


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


COMMANDS = [
    *(
        ["run", "SWEEP"],
        ["plan", "SWEEP"],
        ["slurm", "SWEEP", "--time", "60"],
        ["status", "SWEEP"],
        ["report", "SWEEP"],
    ),
    *(["diff", "a", "b"], ["lineage", "a"], ["store", "verify"], ["ui"], ["doctor"]),
]
A_STORE = "a store, an empty folder or a new one, got"
PLACES = {  # what lies at --store, or is no sweep -> words of the line
    "nothing": "the store of an earlier run, got nothing",
    "a file": f"{A_STORE} a file",
    "a folder of other things": f"{A_STORE} a folder of other things (thesis.bib, ...)",
    "no sweep": "a sweep file, got no such file",
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_store_or_no_sweep_is_one_line_and_stays_as_it_is(command, place, tmp_path, capsys):
    reads = command[0] in ("status", "report", "diff", "lineage")
    if (place == "nothing" and not reads) or (place == "no sweep" and "SWEEP" not in command):
        return
    store, sweep = tmp_path / "place", write_tiny(tmp_path)
    if place == "a file":
        store.write_text("x")
    elif place == "a folder of other things":
        store.mkdir()
        for name in ("thesis.tex", "thesis.bib"):
            (store / name).write_text("x")
    elif place == "no sweep":
        sweep = tmp_path / "none.yaml"
    before = sorted(tmp_path.rglob("*"))
    assert main([*(str(sweep) if word == "SWEEP" else word for word in command), "--store", str(store)]) == 2
    said = capsys.readouterr().err
    assert f"expected {PLACES[place]}" in said and said.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_ui_without_a_run_says_what_is_missing(tmp_path, capsys):
    assert main(["ui", "--store", str(tmp_path)]) == 2
    assert "expected the MLflow database of an earlier run" in capsys.readouterr().err


def test_a_reader_that_leaves_early_is_no_error(repository):
    command = f"{sys.executable} -m orchestrator plan sweeps/quickstart.yaml --store /nonexistent | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=repository)
    assert re.match(r"\d+ trials \(0 complete\)", done.stdout) and done.stdout.count("\n") == 1 and done.stderr == ""


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


def dear(folder):
    """A sweep of two trials and a store which knows that training one target takes 30 hours; the rest is unknown."""
    sweep, store = write_tiny(folder), Store(root=folder / "store")
    target = trials_of(load_sweep(sweep))[0].stages[1]
    commit(store, target, seconds=108_000.0)
    return sweep, store


def fresh(folder):
    """A sweep that only the rates of another machine know, and its store."""
    return write_tiny(folder), Store(root=folder / "none")


def unknown(folder):
    """A sweep of a defense that neither the store nor the rates of another machine know, and its store."""
    grid = {"recipe.defense": [{"kind": "focal", "gamma": 2.0}, {"kind": "at_at"}]}
    return write_tiny(folder, grid=grid, baseline={}), Store(root=folder / "none")


UNKNOWN = "the cost of 2 stages is unknown"


@pytest.mark.parametrize(
    ("made", "wishes", "budget", "words"),
    [
        (dear, {}, None, "about 30 device-hours exceed --confirm-above 24"),
        (dear, {"yes": True}, None, None),
        (
            dear,
            {"confirm_above": 31.0, "price": 3.0, "confirm_above_dollars": 89.0},
            None,
            r"about \$90.00 exceed --confirm-above-dollars 89",
        ),
        (fresh, {}, None, None),
        (fresh, {"confirm_above": 0.0}, None, "exceed --confirm-above 0"),
        (fresh, {"confirm_above": 1e-4}, 1e-4, None),  # the budget bounds it
        (unknown, {}, None, UNKNOWN),
        (unknown, {"yes": True}, None, None),
        (unknown, {}, 24.0, None),
        (unknown, {}, 24.1, UNKNOWN),
        (unknown, {"confirm_above": 1.0}, 1.1, UNKNOWN),
        (unknown, {"price": 5.0}, 20.0, None),
        (unknown, {"price": 5.1}, 20.0, UNKNOWN),
        (unknown, {"price": 5.1, "confirm_above_dollars": 102.0}, 20.0, None),
    ],
)
def test_what_may_cost_much_needs_yes_where_nobody_can_be_asked(
    made, wishes, budget, words, tmp_path, capsys, monkeypatch
):
    sweep, store = made(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    plan, limits = make_plan(trials_of(load_sweep(sweep)), store), Spending(**wishes)
    if words is None:
        confirm(plan, limits, budget)
    else:
        with pytest.raises(InputError, match=f"{words}: expected --yes where there is no terminal to ask on; nothing"):
            confirm(plan, limits, budget)
    assert "expected device time: " in capsys.readouterr().err


@pytest.mark.parametrize("answer", ["", "\n", "n\n", "yesterday\n"])
@pytest.mark.parametrize(
    ("made", "question"),
    [(dear, "exceed --confirm-above 24. Go ahead?"), (unknown, f"{UNKNOWN}. Go ahead?")],
)
def test_only_yes_starts_a_run_of_much_or_unknown_cost(made, question, answer, tmp_path, monkeypatch):
    sweep, store = made(tmp_path)
    screen, before = Terminal(), sorted(tmp_path.rglob("*"))
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    monkeypatch.setattr("sys.stderr", screen)
    assert main(["run", str(sweep), "--store", str(store.root)]) == 2
    assert f"{question} [y/N]" in screen.getvalue() and sorted(tmp_path.rglob("*")) == before
    assert screen.getvalue().endswith("smoothsweep: not confirmed; nothing was started\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--price=-2"], "--price: expected a finite number of at least 0, got '-2'"),
        (["--price=inf"], "--price: expected a finite number of at least 0, got 'inf'"),
        (["--confirm-above=nan"], "--confirm-above: expected a finite number of at least 0, got 'nan'"),
        (["--confirm-above-dollars=5"], "--confirm-above-dollars 5: expected --price beside it, got none"),
        (["--price=1", "--confirm-above-dollars=x"], "--confirm-above-dollars: expected a finite number of at least 0"),
    ],
)
def test_thresholds_are_checked_before_anything_else(options, message, tmp_path, capsys):
    assert main(["run", str(tmp_path / "none.yaml"), *options]) == 2
    shown = capsys.readouterr().err
    assert message in shown and len(shown.splitlines()) == 1


ASK = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 ))
_shtab_smoothsweep smoothsweep "${@: -1}" "${@: -2:1}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def printed(shell, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--print-completion", shell])
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.fixture
def script(tmp_path_factory, capsys):
    path = tmp_path_factory.mktemp("completion") / "smoothsweep.bash"
    path.write_text(printed("bash", capsys))
    return path


def offered(script, folder, *words):
    asked = subprocess.run(
        ["bash", "-c", ASK, "ask", str(script), "smoothsweep", *words],
        cwd=folder,
        text=True,
        capture_output=True,
        timeout=30,
    )
    assert asked.returncode == 0 and not asked.stderr, asked.stderr
    return set(asked.stdout.split())


EARLY = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.{number})
        return None

from smoothsweep.orchestrator import __main__ as start
sys.meta_path.insert(0, Interrupting())
sys.argv = ["smoothsweep", "status", "quickstart", "--store", "nowhere"]
sys.exit(start.main())
"""
MODULES = (
    "smoothsweep.orchestrator.cli",
    "smoothsweep.orchestrator.cluster.interrupts",
    "smoothsweep.orchestrator.commands.audit.request",
    "smoothsweep.orchestrator.store.opening",
)


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("module", MODULES)
def test_an_interrupt_while_this_is_imported(module, number, repository):
    code = EARLY.format(module=module, number=number)
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import site; site.main()\n{code}"],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=repository,
    )
    assert done.returncode == 130, done.stderr
    assert done.stderr == "smoothsweep: interrupted; the same command goes on from here\n"


def test_the_installed_command_and_the_module_start_here(repository):
    assert 'smoothsweep = "smoothsweep.orchestrator.__main__:main"' in (repository / "pyproject.toml").read_text()
    code = "import sys, smoothsweep.orchestrator.__main__; print(*sorted(name for name in sys.modules if '.' in name))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=repository)
    ours = [name for name in done.stdout.split() if name.startswith("smoothsweep.")]
    assert ours == ["smoothsweep.orchestrator", "smoothsweep.orchestrator.__main__"]
