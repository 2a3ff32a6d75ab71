"""`smoothsweep run` and `smoothsweep report`, from the sweep file to the last line on the screen."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from orchestrator.confirming import Confirmation, confirm
from orchestrator.driver import closing_lines, earlier_failures, run_sweep
from orchestrator.execute import code_version
from orchestrator.plan import make_plan
from orchestrator.progress import Display
from orchestrator.recorder import Recorder
from orchestrator.staging import refuse_missing_weights
from orchestrator.store import Store, open_store
from orchestrator.trial import Trial, trials_of
from sweeps.load import LoadedSweep, load_sweep
from sweeps.schema import ToySweep


def run_and_report(
    sweep_file: Path,
    overrides: list[str],
    location: str,
    tracking_uri: str | None,
    address: str | None,
    out: Path | None,
    asked: Confirmation | None = None,
) -> int:
    """Run what is missing, record, report. Returns the exit code; InputError before anything is started.

    asked: when to have a person confirm the expected cost; None for the usual thresholds.
    """
    started = time.monotonic()
    loaded = load_sweep(sweep_file, overrides)
    trials = trials_of(loaded)
    store = open_store(location)
    trials[0].stages  # noqa: B018 - a missing file is found before the store is touched
    if not address and not isinstance(loaded.sweep, ToySweep):
        refuse_missing_weights(trial.settings for trial in trials)
    confirm(make_plan(trials, store), store, asked or Confirmation())
    recorder = _recorder(loaded, store, tracking_uri)
    store.open_for_writing()
    display = Display()
    run = run_sweep(
        name=loaded.sweep.name,
        trials=trials,
        store=store,
        resources=loaded.sweep.resources.model_dump(),
        address=address,
        recorder=recorder,
        display=display,
    )
    recorder.finish()
    folder = out or store.sweep_folder(loaded.sweep.name)
    page = _report(loaded, trials, store, run.failures, folder, recorder)
    for line in closing_lines(run, time.monotonic() - started, page):
        display.say(line)
    for line in _where_to_compare(recorder, tracking_uri, location):
        display.say(line)
    return 1 if run.failures or recorder.unwritten else 0


def report_only(sweep_file: Path, overrides: list[str], location: str, out: Path | None) -> int:
    """Write the report from what is in the store now."""
    loaded = load_sweep(sweep_file, overrides)
    store = open_store(location)
    folder = out or store.sweep_folder(loaded.sweep.name)
    page = _report(loaded, trials_of(loaded), store, earlier_failures(store, loaded.sweep.name), folder, None)
    print(f"report: {page}", file=sys.stderr)
    return 0


def _report(
    loaded: LoadedSweep,
    trials: list[Trial],
    store: Store,
    failures: dict[str, str],
    out: Path,
    recorder: Recorder | None,
) -> Path:
    """Print the table, write the page, add it to the sweep's MLflow run."""
    if isinstance(loaded.sweep, ToySweep):
        from orchestrator.toy_reporting import write_toy_report as write
    else:
        from orchestrator.reporting import write_sweep_report as write
    text, files = write(loaded, trials, store, failures, out)
    print(text, flush=True)
    if recorder is not None:
        recorder.close(files, failed=len(failures))
    return out / "report.html"


def _recorder(loaded: LoadedSweep, store: Store, tracking_uri: str | None) -> Recorder:
    """A recorder for this sweep; a tracking URI that the user gave must answer before work starts."""
    from orchestrator.tracking import Tracker, local_uri

    def open_tracker() -> Tracker:
        return Tracker(tracking_uri or local_uri(store), store=store, experiment=loaded.sweep.name)

    tags = {
        "mlflow.note.content": loaded.intro or loaded.sweep.name,
        "smoothsweep.sweep_file": loaded.source,
        "smoothsweep.code": code_version(),
        "smoothsweep.seeds": ", ".join(map(str, loaded.sweep.seeds)),
        **{f"smoothsweep.grid.{key}": str(values)[:4000] for key, values in loaded.sweep.grid.items()},
    }
    recorder = Recorder(open_tracker, loaded.sweep.name, tags)
    if tracking_uri:
        recorder.connection()
    return recorder


def _where_to_compare(recorder: Recorder, tracking_uri: str | None, location: str) -> list[str]:
    if recorder.unwritten:
        reason = next(iter(recorder.unwritten.values()))
        return [f"{len(recorder.unwritten)} trials are not in MLflow yet ({reason}); the same command records them"]
    if tracking_uri:
        return [f"MLflow: {tracking_uri}"]
    return [f"compare in MLflow: smoothsweep ui --store {location}"]
