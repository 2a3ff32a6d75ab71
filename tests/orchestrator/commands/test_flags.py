"""No flag is ignored, and none changes anything but what it is for: of every command, generated from its parser."""

import argparse
import ast
import inspect
import json
from dataclasses import fields, is_dataclass
from importlib import import_module
from types import SimpleNamespace

import pytest

from smoothsweep.orchestrator.cli import _parser, main
from tests.orchestrator.commands.flags import ASKED, FLAGS

OF_THE_PROGRAM = {
    ("", "--version"): "test_the_version_is_that_of_the_package_and_of_the_code",
    ("", "--print-completion"): "test_the_command_prints_the_script",
}


def flags_of(parser, command=()):
    """(command, flag) of every option below a parser, by its last name; none that asks for help."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, sub in action.choices.items():
                yield from flags_of(sub, (*command, name))
        elif action.option_strings and action.dest != "help":
            yield " ".join(command), action.option_strings[-1]


def test_every_flag_is_in_the_table_and_none_that_is_not():
    assert set(flags_of(_parser())) == {*FLAGS, *OF_THE_PROGRAM}


def test_a_new_flag_is_missed():
    parser = _parser()
    parser.add_argument("--new-flag")
    assert set(flags_of(parser)) - {*FLAGS, *OF_THE_PROGRAM} == {("", "--new-flag")}


def parts_of(name, value):
    """The value, or those of a dataclass's fields and of its options under dotted names."""
    if name.endswith(".options"):
        return {f"{name}.{key}": one for key, one in value.items()}
    if not is_dataclass(value) or isinstance(value, type):
        return {name: value}
    found = {}
    for part in fields(value):
        found |= parts_of(f"{name}.{part.name}", getattr(value, part.name))
    return found


def asked(command, more, monkeypatch, capsys, instead=""):
    """What the functions that do a command's work are given, by the names of their arguments. instead: which of its
    arguments are left out."""
    arguments, functions = ASKED[command]
    assert instead in arguments
    arguments = arguments.replace(instead, "")
    seen = {}

    def watched(module, name):
        signature = inspect.signature(getattr(import_module(f"smoothsweep.{module}"), name))

        def record(*args, **kwargs):
            for key, value in signature.bind(*args, **kwargs).arguments.items():
                prefix = f"{name}." if len(functions) > 1 else ""
                if not isinstance(value, SimpleNamespace):  # what another of them has returned
                    seen.update(parts_of(f"{prefix}{key}", value))
            returned = {
                "examine": [],
                "examine_artifacts": [],
                "plan_summary": {},
                "status_summary": {},
                "plan_text": "words",
                "status_text": "words",
                "weights_summary": {},
                "before_data": {},
                "power_of_plan": {},
                "membership_of_plan": {},
            }
            if name in returned:
                return returned[name]
            stood_in = SimpleNamespace(hardware=None, stages=(), trials=list, sweep=SimpleNamespace(name="n"))
            return stood_in if len(functions) > 1 and "check" not in name else 0

        monkeypatch.setattr(import_module(f"smoothsweep.{module}"), name, record)

    with monkeypatch.context():
        for function in functions:
            watched(*function.split(":"))
        assert main([*command.split(), *arguments.split(), *more]) == 0, capsys.readouterr().err
    monkeypatch.undo()
    printed = capsys.readouterr().out
    if command in ("plan", "status"):
        seen["is_json"] = printed.strip() != "words" and json.loads(printed) is not None
        seen = {key: value for key, value in seen.items() if "text" not in key}
    return seen


@pytest.mark.parametrize(("command", "flag"), sorted(FLAGS))
def test_a_flag_reaches_the_work_and_changes_nothing_else(command, flag, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    row = FLAGS[command, flag]
    without = asked(command, [], monkeypatch, capsys)
    monkeypatch.chdir(tmp_path)
    given = asked(command, [flag, *row.typed.split()], monkeypatch, capsys, row.instead)
    changed = {name: value for name, value in given.items() if name not in without or without[name] != value}
    if flag == "--as" or "--as" in row.typed:  # asks another function
        changed = {name: changed[name] for name in row.arrives}
    assert changed == row.arrives


@pytest.mark.parametrize(("command", "flag"), sorted(FLAGS))
def test_what_a_flag_is_for_has_a_test(command, flag, repository):
    path, _, function = FLAGS[command, flag].test.partition("::")
    text = (repository / "tests" / path).read_text()
    functions = {node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    assert function in functions, f"{path} has no {function}"
    keyword = flag.removeprefix("--").replace("-", "_")
    assert flag in text or keyword in text, f"{path} never gives {flag}"
