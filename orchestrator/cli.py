"""The doors: smoothsweep run | plan | status | report | ui | doctor.

Exit codes: 0 all done; 1 some stage failed (the rest finished); 2 the input is wrong; 130 interrupted (resumable).
Each door imports what it needs when it is opened, so that `--help` and mistakes answer at once.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from core.errors import InputError

EXIT_DONE, EXIT_FAILED, EXIT_INPUT, EXIT_INTERRUPTED = 0, 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one door. Mistakes of the user are one line on stderr and exit code 2."""
    options = _parser().parse_args(arguments)
    try:
        return options.door(options)
    except InputError as error:
        print(f"smoothsweep: {error}", file=sys.stderr)
        return EXIT_INPUT
    except KeyboardInterrupt:
        print("smoothsweep: interrupted; the same command goes on from here", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - so that the interpreter's last flush finds a home
        return EXIT_DONE
    except OSError as error:
        print(f"smoothsweep: {error.filename or 'the store'}: {error.strerror or error}", file=sys.stderr)
        return EXIT_FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="smoothsweep",
        description="Which training recipe gives the accuracy I need and leaks the least? "
        "Sweeps recipes, inverts every trained model, compares what leaks.",
        epilog="Start with: smoothsweep run sweeps/quickstart.yaml",
    )
    doors = parser.add_subparsers(required=True, metavar="COMMAND")

    run = _sweep_door(doors, "run", "do what the sweep file asks for; what is done already is not done again", _run)
    run.add_argument("--tracking-uri", metavar="URI", help="MLflow tracking URI (default: SQLite in the store)")
    run.add_argument("--address", metavar="ADDR", help="Ray cluster to join (default: RAY_ADDRESS, else this machine)")
    run.add_argument("--out", type=Path, metavar="DIR", help="where the report goes (default: STORE/sweeps/NAME)")

    plan = _sweep_door(doors, "plan", "what would run: trials, stages, cache hits, expected device-hours", _plan)
    plan.add_argument("--json", action="store_true", help="as JSON")

    status = _sweep_door(doors, "status", "what is done, running, failed, missing", _status)
    status.add_argument("--json", action="store_true", help="as JSON")

    report = _sweep_door(doors, "report", "write results.parquet, report.html and figures from the store", _report)
    report.add_argument("--out", type=Path, metavar="DIR", help="where to write (default: STORE/sweeps/NAME)")

    ui = doors.add_parser("ui", help="MLflow's pages on the local store")
    ui.add_argument("--store", default="store", metavar="DIR", help="the artifact store (default: ./store)")
    ui.add_argument("--port", type=int, default=5000, help="port on this machine (default: 5000)")
    ui.set_defaults(door=_ui)

    doctor = doors.add_parser("doctor", help="what this machine can run, and what is missing")
    doctor.add_argument("--store", default="store", metavar="DIR", help="the artifact store (default: ./store)")
    doctor.set_defaults(door=_doctor)
    return parser


def _sweep_door(doors: argparse._SubParsersAction, name: str, text: str, door: object) -> argparse.ArgumentParser:
    parser = doors.add_parser(name, help=text, description=text)
    parser.add_argument("sweep", type=Path, metavar="SWEEP.yaml")
    parser.add_argument(
        "--set", action="append", default=[], metavar="PATH=VALUE", dest="overrides",
        help="set a key of the sweep file, e.g. --set recipe.epochs=20 (repeatable)",
    )  # fmt: skip
    parser.add_argument("--store", default="store", metavar="DIR", help="the artifact store (default: ./store)")
    parser.set_defaults(door=door)
    return parser


def _run(options: argparse.Namespace) -> int:
    from orchestrator.sweeping import run_and_report

    return run_and_report(
        options.sweep, options.overrides, options.store, options.tracking_uri, options.address, options.out
    )


def _plan(options: argparse.Namespace) -> int:
    from orchestrator.plan import make_plan, plan_summary, plan_text
    from orchestrator.store import open_store
    from orchestrator.trial import trials_of
    from sweeps.load import load_sweep

    store = open_store(options.store)
    loaded = load_sweep(options.sweep, options.overrides)
    summary = plan_summary(make_plan(trials_of(loaded), store), store)
    print(json.dumps(summary, indent=1) if options.json else plan_text(summary))
    return EXIT_DONE


def _status(options: argparse.Namespace) -> int:
    from orchestrator.status import status_summary, status_text
    from orchestrator.store import open_store
    from orchestrator.trial import trials_of
    from sweeps.load import load_sweep

    loaded = load_sweep(options.sweep, options.overrides)
    summary = status_summary(loaded.sweep.name, trials_of(loaded), open_store(options.store))
    print(json.dumps(summary, indent=1) if options.json else status_text(summary))
    return EXIT_DONE


def _report(options: argparse.Namespace) -> int:
    from orchestrator.sweeping import report_only

    return report_only(options.sweep, options.overrides, options.store, options.out)


def _ui(options: argparse.Namespace) -> int:
    from orchestrator.store import open_store

    store = open_store(options.store)
    database = store.root / "mlflow.db"
    if not database.is_file():
        raise InputError(f"{database}: expected the MLflow database of an earlier run, got none")
    print(f"MLflow on http://127.0.0.1:{options.port} (Ctrl-C ends it)", flush=True)
    command = [sys.executable, "-m", "mlflow", "ui", "--backend-store-uri", f"sqlite:///{database}"]
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.execv(sys.executable, [*command, "--host", "127.0.0.1", "--port", str(options.port)])


def _doctor(options: argparse.Namespace) -> int:
    from orchestrator.doctor import examine

    findings = examine(Path(options.store))
    for finding in findings:
        print(f"{'ok  ' if finding.fine else 'MISS' if finding.needed else 'note'}  {finding.text}")
    return EXIT_DONE if all(f.fine or not f.needed for f in findings) else EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main())
