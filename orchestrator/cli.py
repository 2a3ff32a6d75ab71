"""The commands of `smoothsweep`.

Exit codes: 0 all done; 1 some stage failed (the rest finished); 2 the input is wrong; 130 interrupted (resumable).
Each command imports what it needs when it is opened, so that `--help` and mistakes answer at once.
"""

from __future__ import annotations

import argparse
import errno
import os
import re
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from smoothsweep.core import screen
from smoothsweep.core.arguments import refusal, refuse_flag_before_command
from smoothsweep.core.errors import InputError, StoreGone
from smoothsweep.core.text import shortened, suggestion
from smoothsweep.orchestrator.cluster import interrupts
from smoothsweep.orchestrator.commands import requests
from smoothsweep.orchestrator.commands.audit.request import AuditRequest
from smoothsweep.orchestrator.commands.requests import add_request, read_request

COMMANDS: dict[str, tuple[type[Any], str]] = {
    "run": (requests.RunRequest, "run:run_and_report"),
    "plan": (requests.PlanRequest, "plan:print_plan"),
    "status": (requests.StatusRequest, "status:print_status"),
    "report": (requests.ReportRequest, "result:report"),
    "slurm": (requests.SlurmRequest, "batch.slurm:submit_sweep"),
    "export": (requests.ExportRequest, "reporting.export:export"),
    "bundle": (requests.BundleRequest, "reporting.bundle:bundle"),
    "study build": (requests.StudyBuild, "study:build_study"),
    "study read": (requests.StudyRead, "study:read_study"),
    "ui": (requests.UiRequest, "ui:serve_pages"),
    "doctor": (requests.DoctorRequest, "doctor:print_findings"),
    "plugins": (requests.PluginsRequest, "doctor:list_plugins"),
    "store ls": (requests.OfStore, "storage:list_sweeps"),
    "store du": (requests.OfStore, "storage:list_sizes"),
    "store gc": (requests.GarbageRequest, "storage:collect_garbage"),
    "store verify": (requests.OfStore, "storage:verify"),
    "store export": (requests.StoreExport, "storage:export_sweep"),
    "store link": (requests.LinkRequest, "storage:link"),
    "store unlink": (requests.LinkRequest, "storage:unlink"),
    "audit": (AuditRequest, "audit.auditing:run_audit"),
    "diff": (requests.DiffRequest, "lineage:print_differences"),
    "lineage": (requests.LineageRequest, "lineage:print_lineage"),
    "import prior": (requests.PriorRequest, "importing.weights:import_prior_file"),
    "import target": (requests.TargetRequest, "importing.targets:import_target_file"),
    "import gan": (requests.GanRequest, "importing.weights:import_gan"),
    "import judge": (requests.JudgeRequest, "importing.weights:import_judge_file"),
    "data check": (requests.DataCheck, "data:check_data"),
    "init": (requests.InitRequest, "data:write_first_sweep"),
    "weights stage": (requests.WeightsRequest, "importing.weights:stage_weight_files"),
}
"""Name -> request, whose docstring begins with the help, and `module:function` of `commands`, which takes the request
and returns the exit code."""

HELP = {
    "store ls": "The sweeps of a store, with the size of what each needs, and the stores that it reads through",
    "store du": "Sizes by kind of artifact: used by a sweep, used by none, unfinished, damaged",
    "store verify": "Read every artifact and compare it with its checksums",
    "store link": "Read through another store: what it has finished is not made again, and it is never written",
    "store unlink": "No longer read through another store",
}
"""Of commands that share a request."""

GROUPS = {
    "study": "Ask people which reconstructions look least like the person",
    "store": "What a store holds, what of it may go, and other stores that it reads through",
    "import": "Bring official weights, or your own classifier, in safely",
    "data": "Look at your own data, or a published data set, on disk",
    "weights": "Published weight files",
}
"""Commands of several parts."""

_CHOICE = re.compile(r"invalid choice: '(?P<got>[^']*)' \(choose from (?P<known>.+)\)")
SHELLS = ("bash", "zsh")
EXIT_DONE, EXIT_FAILED, EXIT_INPUT, EXIT_INTERRUPTED = 0, 1, 2, interrupts.EXIT_INTERRUPTED


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Mistakes of the user are one line on stderr and exit code 2.

    arguments: None for the command line of this process; on SIGTERM the process then exits here.
    """
    if arguments is not None:
        return _open(arguments)
    interrupts.listen()
    try:
        return _open(sys.argv[1:])
    finally:
        interrupts.leave_if_requested()
        interrupts.stop_listening()


def _open(arguments: Sequence[str]) -> int:
    options = argparse.Namespace()
    try:
        if not arguments:  # the user looks for the commands; the exit code says that nothing was done
            _parser().print_help()
            return EXIT_INPUT
        refuse_flag_before_command(arguments[0])
        options = _parser().parse_args(arguments)
        return options.command(options)
    except InputError as error:
        screen.err(f"smoothsweep: {error}")
        return EXIT_FAILED if isinstance(error, StoreGone) else EXIT_INPUT
    except KeyboardInterrupt:
        if not interrupts.end_requested():  # else the last line comes with the end itself
            screen.err(f"smoothsweep: interrupted; {interrupts.RESUME_HINT}")
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - so that the interpreter's last flush finds a home
        return EXIT_DONE
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT) and (line := refusal(vars(options).get("out"), error)):
            screen.err(f"smoothsweep: {line}")
            return EXIT_INPUT
        then = f"; with room again, {interrupts.RESUME_HINT}" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        screen.err(f"smoothsweep: {shortened(str(error.filename or 'the store'))}: {error.strerror or error}{then}")
        return EXIT_FAILED


class _Parser(argparse.ArgumentParser):
    """An argparse parser whose messages repeat the typed input on one line and suggest the closest known name."""

    _typed: Sequence[str] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """As argparse, but a command refuses its unknown arguments itself, so that the line is about its own flags."""
        self._typed = args or ()
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return options, unknown

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """As argparse, but an option whose own reader refuses a value says in its words what was expected."""
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError as error:
            if isinstance(refused := error.__context__, InputError):
                raise InputError(f"{action.option_strings[0]}: {refused}") from None
            raise

    def _print_message(self, message: str, file: Any = None) -> None:
        for line in message.rstrip("\n").split("\n"):
            (screen.out if file in (None, sys.stdout) else screen.err)(line)

    def error(self, message: str) -> NoReturn:
        """Print the error like argparse, with the closest known name for an unknown choice or flag.

        An unknown flag is named also where argparse misses another argument: it is often that one, mistyped.
        """
        known = [*self._option_string_actions]
        typed = [word.partition("=")[0] for word in self._typed if word.startswith("--")]
        if wrong_choice := _CHOICE.search(message):
            message += suggestion(wrong_choice["got"], re.findall(r"[\w-]+", wrong_choice["known"]))
        elif strange := next((flag for flag in typed if not any(one.startswith(flag) for one in known)), None):
            message += ("" if strange in message else f"; unknown flag {strange}") + suggestion(strange, known)
        super().error(message)


class _Version(argparse.Action):
    """`--version`: ours, and of which code, which is looked up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any, **__: Any) -> None:
        from smoothsweep.orchestrator.stages.stage import code_version, released_version

        screen.out(f"smoothsweep {released_version()}, code {code_version()}")
        parser.exit()


class _Completion(argparse.Action):
    """`--print-completion`: a script for the user's shell."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option_string: Any = None) -> None:
        screen.out_text(completion_script(parser, values))
        parser.exit()


def completion_script(parser: argparse.ArgumentParser, shell: str) -> str:
    """The text that `eval` or a file of completions takes, made from the parser itself.

    Shipped sweeps are offered by name, and files that may be some.
    """
    import shtab

    from smoothsweep.sweeps.load import shipped_sweeps

    def say_what_is_a_path(command: argparse.ArgumentParser) -> None:
        actions: list[Any] = list(command._actions)  # to which shtab adds `complete`
        for action in actions:
            if isinstance(action, argparse._SubParsersAction):
                for part in action.choices.values():
                    say_what_is_a_path(part)
            elif action.dest in ("sweep", "sweeps"):
                action.complete = dict.fromkeys(SHELLS, offers)
            elif action.type is Path or action.metavar in ("DIR", "FILE", "MODEL", "PATH", "STORE"):
                action.complete = shtab.FILE

    names, offers = " ".join(shipped_sweeps()), "_smoothsweep_sweeps"
    files = '_files -g "*.yaml"'
    preamble: Any = {
        "bash": f'{offers}() {{ compgen -W "{names}" -- "$1"; compgen -f -X "!*.yaml" -- "$1"; compgen -d -- "$1"; }}',
        "zsh": f"{offers}() {{ _alternative 'shipped:shipped sweep:({names})' 'files:sweep file:{files}' }}",
    }
    say_what_is_a_path(parser)
    return shtab.complete(parser, shell=shell, preamble=preamble)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="smoothsweep",
        description="Which training recipe gives the accuracy I need and leaks the least? "
        "Sweeps recipes, inverts every trained model, compares what leaks.",
        epilog="Start with: smoothsweep run quickstart",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="which smoothsweep this is, and of which code")
    parser.add_argument(
        "--print-completion",
        action=_Completion,
        choices=SHELLS,
        metavar="SHELL",
        help='completion for bash or zsh: eval "$(smoothsweep --print-completion bash)"',
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    parts: dict[str, argparse._SubParsersAction] = {}
    for name, (request, _) in COMMANDS.items():
        text = HELP.get(name) or " ".join((request.__doc__ or "").split("\n\n")[0].split()).rstrip(".")
        group, _, part = name.rpartition(" ")
        if group and group not in parts:  # where its first command stands
            known = "|".join(each.split()[1] for each in COMMANDS if each.startswith(f"{group} "))
            first = commands.add_parser(group, help=GROUPS[group], description=GROUPS[group])
            parts[group] = first.add_subparsers(required=True, metavar=known)
        command = (parts[group] if group else commands).add_parser(part, help=text, description=text)
        add_request(command, request)
        command.set_defaults(command=partial(_call, name))
    return parser


def _call(name: str, options: argparse.Namespace) -> int:
    request, place = COMMANDS[name]
    module, _, function = place.partition(":")
    command = getattr(import_module(f"smoothsweep.orchestrator.commands.{module}"), function)
    return command(read_request(request, options))


if __name__ == "__main__":
    sys.exit(main())
