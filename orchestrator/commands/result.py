"""A sweep's result from Python, and as JSON: what the store holds of it, and a run that ends with it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from smoothsweep.core import screen
from smoothsweep.core.errors import InputError
from smoothsweep.core.files import write_file
from smoothsweep.core.text import quoted
from smoothsweep.orchestrator.commands.reporting.report import gather_sweep, sweep_to_share
from smoothsweep.orchestrator.commands.requests import OfStore, ReportRequest, RunRequest
from smoothsweep.orchestrator.result.sweep_result import SweepResult
from smoothsweep.orchestrator.store.notes import read_with_repair
from smoothsweep.sweeps.load import as_yaml


def load_result(store: str | Path, sweep: str | Path, *, overrides: Sequence[str] = ()) -> SweepResult:
    """Read what a store holds of a sweep. Nothing is run or written.

    Args:
        store: A folder or an S3 URI, as `--store` takes it.
        sweep: A sweep file, or the name of a sweep that comes with smoothsweep (`quickstart`).
        overrides: As `--set` takes them: `recipe.epochs=20`.

    Raises InputError where the sweep has no finished trial there.
    """
    loaded, trials, opened = sweep_to_share(Path(sweep), list(overrides), str(store))
    contents, _ = read_with_repair(lambda: gather_sweep(loaded, trials, opened))
    return contents.result


def sweep(
    described: str | Path | Mapping[str, Any],
    *,
    store: str | Path = "store",
    overrides: Sequence[str] = (),
    tracking_uri: str | None = None,
    address: str | None = None,
    yes: bool = False,
) -> SweepResult:
    """Run a sweep as `smoothsweep run` does, and read its result; finished stages are reused.

    Args:
        described: A sweep file, the name of a sweep that comes with smoothsweep, or a sweep file's keys as a dict.
        store: Where artifacts and the report go, as `--store` takes it.
        overrides: As `--set` takes them.
        tracking_uri: Of MLflow; None for the store's own.
        address: Of a Ray cluster; None for this machine.
        yes: Spend what it costs without asking.

    Raises InputError for a mistake in the sweep, before anything is run, and where no trial could be finished.
    """
    from smoothsweep.orchestrator.commands.run import run_and_report

    with tempfile.TemporaryDirectory(prefix="smoothsweep-sweep-") as folder:
        file = Path(folder) / "sweep.yaml"
        if isinstance(described, Mapping):
            write_file(file, as_yaml(dict(described)), flush=False)
        else:
            file = Path(described)
        request = RunRequest(
            sweep=file,
            store=str(store),
            overrides=list(overrides),
            tracking_uri=tracking_uri,
            address=address,
            yes=yes,
        )
        run_and_report(request, tells=False)
        return load_result(store, file, overrides=overrides)


def report(request: ReportRequest) -> int:
    """Write the report of a sweep, of several, or of a bundle, or print the result. Returns the exit code."""
    from smoothsweep.orchestrator.commands.reporting.bundle import report_bundle
    from smoothsweep.orchestrator.commands.reporting.several import report_several
    from smoothsweep.orchestrator.commands.run import report_only

    sweep, is_bundle = request.sweep, request.sweep.suffix == ".zip"
    if request.json:
        if others := [*request.more, *([] if request.out is None else ["--out"])]:
            raise InputError(f"--json: expected one sweep and no --out, got {others[0]}")
        if is_bundle:
            raise InputError(f"--json: expected a sweep file beside it, got the bundle {quoted(str(sweep))}")
        screen.out_text(load_result(request.store, sweep, overrides=request.overrides).to_json())
        return 0
    if request.more:
        return report_several([sweep, *request.more], request.overrides, request.store, request.out)
    if not is_bundle:
        return report_only(sweep, request.overrides, request.store, request.out)
    for flag, is_given in (("--set", request.overrides), ("--store", request.store != OfStore.store)):
        if is_given:
            raise InputError(f"{flag}: expected a sweep file beside it, got the bundle {sweep}")
    return report_bundle(sweep, request.out)
