"""The commands: smoothsweep run | plan | status | report | slurm | export | bundle | study | audit | diff | lineage |
rejudge | store | ui | doctor | plugins | import | data | init | weights.

Exit codes: 0 all done; 1 some stage failed (the rest finished); 2 the input is wrong; 130 interrupted (resumable).
Each command imports what it needs when it is opened, so that `--help` and mistakes answer at once.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import re
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from smoothsweep.core import screen
from smoothsweep.core.arguments import add_out, refusal, refuse_flag_before_command
from smoothsweep.core.errors import InputError, StoreGone
from smoothsweep.core.text import shortened, suggestion
from smoothsweep.orchestrator.cluster import interrupts
from smoothsweep.orchestrator.commands.audit.arguments import add_audit_command
from smoothsweep.orchestrator.commands.batch.slurm import add_slurm_command
from smoothsweep.orchestrator.commands.data import add_data_commands
from smoothsweep.orchestrator.commands.health.arguments import (
    add_doctor_command,
    add_plugins_command,
    add_store_commands,
)
from smoothsweep.orchestrator.commands.importing.weights import add_import_commands, add_weights_commands
from smoothsweep.orchestrator.commands.records.arguments import add_record_commands
from smoothsweep.orchestrator.commands.reporting.sharing.arguments import add_sharing_commands, add_study_commands

if TYPE_CHECKING:
    from smoothsweep.orchestrator.commands.plan import Confirmation

STORE_HELP = "the artifact store, a folder or s3://bucket/prefix (default: ./store)"
PRICE_HELP = "price of a device-hour, e.g. 4.1: shows what is to be spent"
_CHOICE = re.compile(r"invalid choice: '(?P<got>[^']*)' \(choose from (?P<known>.+)\)")
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

    def _print_message(self, message: str, file: Any = None) -> None:
        for line in message.rstrip("\n").split("\n"):
            (screen.out if file in (None, sys.stdout) else screen.err)(line)

    def error(self, message: str) -> NoReturn:
        """Print the error like argparse, with the closest known name for an unknown choice or flag.

        An unknown flag is named also where argparse misses another argument: it is often that one, mistyped.
        """
        known = [*self._option_string_actions]
        if wrong_choice := _CHOICE.search(message):
            message += suggestion(wrong_choice["got"], re.findall(r"[\w-]+", wrong_choice["known"]))
        elif strange := next((word for word in map(_flag, self._typed) if not _fits(word, known)), None):
            message += ("" if strange in message else f"; unknown flag {strange}") + suggestion(strange, known)
        super().error(message)


def _flag(word: str) -> str:
    return word.partition("=")[0]


def _fits(word: str, known: list[str]) -> bool:
    """Whether this is no flag, or one that argparse takes."""
    return not word.startswith("--") or any(flag.startswith(word) for flag in known)


class _Version(argparse.Action):
    """`--version`: ours, and of which code, which is looked up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any, **__: Any) -> None:
        from smoothsweep.orchestrator.stages.code_version import code_version, released_version

        screen.out(f"smoothsweep {released_version()}, code {code_version()}")
        parser.exit()


class _Completion(argparse.Action):
    """`--print-completion`: a script for the user's shell."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option_string: Any = None) -> None:
        from smoothsweep.orchestrator.commands.health.completion import completion_script

        screen.out_text(completion_script(parser, values))
        parser.exit()


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
        choices=("bash", "zsh"),
        metavar="SHELL",
        help='completion for bash or zsh: eval "$(smoothsweep --print-completion bash)"',
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    run = _sweep_command(commands, "run", "run the sweep file; finished stages are reused", _run)
    run.add_argument("--tracking-uri", metavar="URI", help="MLflow tracking URI (default: SQLite in the store)")
    run.add_argument("--address", metavar="ADDR", help="Ray cluster to join (default: RAY_ADDRESS, else this machine)")
    add_out(run, "where the report goes (default: STORE/sweeps/NAME)")
    _confirmation_options(run)

    plan = _sweep_command(commands, "plan", "what would run, what is reused, expected device-hours and dollars", _plan)
    _plan_options(plan)

    status = _sweep_command(commands, "status", "what is done, running, failed, missing", _status)
    status.add_argument("--json", action="store_true", help="as JSON")

    report = _sweep_command(commands, "report", "write results, report.html and figures from the store", _report)
    _several_sweeps(report)

    for add_of_a_sweep in (add_slurm_command, add_sharing_commands, add_study_commands):
        add_of_a_sweep(commands, _sweep_options())
    ui = commands.add_parser("ui", help="MLflow's pages on the local store, opened where the newest sweep is compared")
    ui.add_argument("--store", default="store", metavar="STORE", help=STORE_HELP)
    ui.add_argument("--port", type=int, default=5000, help="port on this machine (default: 5000)")
    ui.add_argument("--no-browser", action="store_false", dest="browser", help="print the links, open nothing")
    ui.set_defaults(command=_ui)

    add_doctor_command(commands)
    add_plugins_command(commands)
    add_store_commands(commands, STORE_HELP)
    add_record_commands(commands, STORE_HELP, _sweep_options())
    for add_them in (add_audit_command, add_import_commands, add_data_commands, add_weights_commands):
        add_them(commands)
    return parser


def _several_sweeps(report: argparse.ArgumentParser) -> None:
    report.add_argument(
        "more", nargs="*", type=Path, metavar="MORE", help="further sweep files or bundles (OUT.zip), in one table"
    )
    add_out(report, "where to write (default: STORE/sweeps/NAME; needed with several sweeps)")
    report.add_argument("--json", action="store_true", help="print the whole result as JSON, write nothing")


def _confirmation_options(run: argparse.ArgumentParser) -> None:
    asking = run.add_argument_group(
        "confirmation",
        "A run that is expected to cost more than a threshold asks on the terminal; without a terminal it ends with "
        "exit code 2. The estimate uses the times of this store, or else those of another machine. A run without an "
        "estimate asks too, unless the sweep's budget bounds it.",
    )
    asking.add_argument("--price", metavar="DOLLARS", help=PRICE_HELP)
    asking.add_argument("--confirm-above", metavar="HOURS", help="ask above so many device-hours (default: 24)")
    asking.add_argument(
        "--confirm-above-dollars", metavar="DOLLARS", help="with --price: ask above so many dollars (default: 100)"
    )
    asking.add_argument("--yes", action="store_true", help="the answer, for scripts")


def _sweep_command(commands: argparse._SubParsersAction, name: str, text: str, command: object) -> ArgumentParser:
    parser = commands.add_parser(name, help=text, description=text, parents=[_sweep_options()])
    parser.set_defaults(command=command)
    return parser


def _sweep_options() -> argparse.ArgumentParser:
    """Options shared by all commands that take a sweep file."""
    options = argparse.ArgumentParser(add_help=False)
    options.add_argument(
        "sweep",
        type=Path,
        metavar="SWEEP.yaml",
        help="a sweep file, or the name of one that comes with smoothsweep: quickstart",
    )
    options.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="PATH=VALUE",
        dest="overrides",
        help="set a key of the sweep file, e.g. --set recipe.epochs=20 (repeatable)",
    )
    options.add_argument("--store", default="store", metavar="STORE", help=STORE_HELP)
    return options


def _plan_options(plan: argparse.ArgumentParser) -> None:
    plan.add_argument("--price", metavar="DOLLARS", help=PRICE_HELP)
    plan.add_argument("--tell", metavar="POINTS", help="what a difference of so many percentage points needs")
    plan.add_argument("--json", action="store_true", help="as JSON")


def _run(options: argparse.Namespace) -> int:
    interrupts.listen()
    limits = _confirmation(options)
    from smoothsweep.orchestrator.commands.run import run_and_report

    return run_and_report(
        options.sweep, options.overrides, options.store, options.tracking_uri, options.address, options.out, limits
    )


def _confirmation(options: argparse.Namespace) -> Confirmation:
    from smoothsweep.orchestrator.commands.plan import ASK_ABOVE_DOLLARS, ASK_ABOVE_HOURS, Confirmation, amount

    hours, dollars = options.confirm_above, options.confirm_above_dollars
    if dollars is not None and options.price is None:
        raise InputError(f"--confirm-above-dollars {dollars}: expected --price beside it, got none")
    return Confirmation(
        price=None if options.price is None else amount("--price", options.price),
        above_hours=ASK_ABOVE_HOURS if hours is None else amount("--confirm-above", hours),
        above_dollars=ASK_ABOVE_DOLLARS if dollars is None else amount("--confirm-above-dollars", dollars),
        yes=options.yes,
    )


def _plan(options: argparse.Namespace) -> int:
    from smoothsweep.orchestrator.commands.plan import print_plan

    asked = (options.price, options.tell)
    return print_plan(options.sweep, options.overrides, options.store, *asked, as_json=options.json)


def _status(options: argparse.Namespace) -> int:
    from smoothsweep.orchestrator.commands.records.status import status_summary, status_text
    from smoothsweep.orchestrator.planning.trial import trials_of
    from smoothsweep.orchestrator.result.axes import sweep_axes
    from smoothsweep.orchestrator.store.opening import open_existing_store
    from smoothsweep.sweeps.load import load_sweep

    loaded, store = load_sweep(options.sweep, options.overrides), open_existing_store(options.store)
    trials = trials_of(loaded, store)
    summary = status_summary(loaded.sweep.name, trials, store, sweep_axes(loaded, trials))
    screen.out_text(json.dumps(summary, indent=1) if options.json else status_text(summary))
    return EXIT_DONE


def _report(options: argparse.Namespace) -> int:
    if options.json:
        from smoothsweep.orchestrator.commands.result import print_result

        if others := [*options.more, *([] if options.out is None else ["--out"])]:
            raise InputError(f"--json: expected one sweep and no --out, got {others[0]}")
        return print_result(options.sweep, options.overrides, options.store)
    if options.more:
        from smoothsweep.orchestrator.commands.reporting.several import report_several

        return report_several([options.sweep, *options.more], options.overrides, options.store, options.out)
    from smoothsweep.orchestrator.commands.reporting.sharing.bundle import report_or_open

    return report_or_open(options.sweep, options.overrides, options.store, options.out)


def _ui(options: argparse.Namespace) -> int:
    from smoothsweep.orchestrator.commands.records.ui import serve_pages

    return serve_pages(options.store, options.port, browser=options.browser)


if __name__ == "__main__":
    sys.exit(main())
