"""`smoothsweep run` and `report`, from the sweep file to the last line on the screen."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

from smoothsweep.core import screen
from smoothsweep.core.errors import InputError
from smoothsweep.core.same_code import code_digest
from smoothsweep.core.text import few
from smoothsweep.core.uris import shown_uri
from smoothsweep.orchestrator.commands.plan import confirm
from smoothsweep.orchestrator.commands.requests import RunRequest
from smoothsweep.orchestrator.commands.status import names_of
from smoothsweep.orchestrator.planning.plan import Plan, make_plan, refuse_impossible
from smoothsweep.orchestrator.planning.state import read_failures, write_trial_notes
from smoothsweep.orchestrator.planning.trial import ProposalLog, Trial, trials_of
from smoothsweep.orchestrator.running.driver import ClusterSession, run_search, run_trials
from smoothsweep.orchestrator.running.recorder import REPORT, Recorder, open_recorder
from smoothsweep.orchestrator.running.sweep_run import Display, SweepRun, begin_run, closing_lines
from smoothsweep.orchestrator.search.agenda import (
    Agenda,
    Meter,
    forecast_of,
    hours_left,
    spent,
    write_end,
)
from smoothsweep.orchestrator.search.record import frontier_recipes
from smoothsweep.orchestrator.stages.graph import find_missing_weights, unmeasured_lines
from smoothsweep.orchestrator.stages.stage import with_ancestors
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.store.notes import quarantine_damaged, read_with_repair
from smoothsweep.orchestrator.store.opening import open_existing_store, open_store
from smoothsweep.sweeps.expand import LoadedSweep
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.schema import ToySweep


def run_and_report(request: RunRequest, *, tells: bool = True) -> int:
    """Run the missing stages of a sweep, record them in MLflow, write the report. Returns the exit code.

    tells: print the table of results and where the report is; False where the caller prints its own summary.

    Raises InputError before anything is started.
    """
    started, code = time.monotonic(), code_digest()
    if request.confirm_above_dollars is not None and request.price is None:
        raise InputError(
            f"--confirm-above-dollars {request.confirm_above_dollars:g}: expected --price beside it, got none"
        )
    overrides = _judged_again(request) if request.only_judges else request.overrides
    loaded, store = load_sweep(request.sweep, overrides), open_store(request.store)
    proposed = ProposalLog(loaded, store)
    trials = proposed.trials()
    agenda = Agenda(proposed) if loaded.sweep.search or loaded.sweep.looks else None
    first = agenda.preview() if agenda else trials
    first[0].stages  # noqa: B018 - a missing file is found before the store is touched
    lacks = find_missing_weights(loaded, [trial.cell for trial in (*first, *trials)], elsewhere=bool(request.address))
    for stop in lacks["stops"]:
        raise InputError(stop["message"])
    quarantine_damaged(store, with_ancestors([stage for trial in [*trials, *first] for stage in trial.stages]))
    plan = make_plan(trials, store, forecast_of(proposed))
    work = plan.with_trials(first, store) if agenda else plan
    refuse_impossible(work)
    if request.only_judges:
        _refuse_to_attack(plan)
    confirm(plan, request, hours_left(store, loaded.sweep.name, loaded.sweep.budget))
    with ClusterSession(request.address, loaded.sweep.resources, store, work.missing, code=code) as place:
        if work.missing and place.is_named_cluster:
            place.facts  # noqa: B018 - an unfit cluster is found before anything is written
        recorder = open_recorder(loaded, store, request.tracking_uri, models=loaded.sweep.tracking.models)
        store.open_for_writing()
        run = begin_run(
            SweepRun(
                name=loaded.sweep.name,
                plan=plan,
                store=store,
                recorder=recorder,
                display=Display(),
                meter=Meter(store, loaded.sweep.name, loaded.sweep.budget),
                reserved=loaded.sweep.reaudit.share if agenda and loaded.sweep.reaudit else 0.0,
                code=code,
            )
        )
        _run_phases(run, proposed, [trial for trial in trials if trial.phase != "reaudit"], agenda, place)
    recorder.finish()
    folder = request.out or store.sweep_folder(loaded.sweep.name)
    known = proposed.trials()  # none where the budget was spent before anything was proposed
    report = partial(_report, loaded, known, store, run.failures, folder, recorder, tells=tells)
    page, damaged = read_with_repair(report) if known else (None, False)
    closing = closing_lines(run, time.monotonic() - started, page if tells else None, may_end=agenda is not None)
    where = _where_to_compare(recorder, request.tracking_uri, request.store if tells else None)
    for line in (*closing, *unmeasured_lines(lacks), *where):
        run.display.say(line)
    return 1 if run.failures or damaged or recorder.unwritten or (run.left_open and agenda is None) else 0


def _run_phases(
    run: SweepRun, proposed: ProposalLog, trials: list[Trial], agenda: Agenda | None, place: ClusterSession
) -> None:
    """The sweep's trials, then those of its re-audit."""
    loaded = proposed.loaded
    try:
        if agenda is None:
            run_trials(run, trials, place)
        else:
            run_search(run, agenda, place)
            kept = f"budget: {agenda.closed}, the rest kept for the re-audit" if agenda.closed else None
            write_end(proposed, f"budget: {run.stopped}" if run.stopped else agenda.ended_by or kept)
        if loaded.sweep.reaudit and not run.stopped:
            proposed.write_reaudit(frontier_recipes(loaded, proposed.trials(), run.store))
            run_trials(run, proposed.reaudit_trials(), place)
    finally:
        run.save_state()
    run.save_state(finished=True)


def report_only(sweep_file: Path, overrides: list[str], location: str, out: Path | None) -> int:
    """Write the report from what is in the store now. Raises InputError where there is no store."""
    loaded = load_sweep(sweep_file, overrides)
    store = open_existing_store(location)
    folder = out or store.sweep_folder(loaded.sweep.name)
    trials = trials_of(loaded, store)
    if not trials:
        raise InputError(f"{loaded.source}: expected a search that has proposed something in {location}, got none")
    failures = read_failures(store, loaded.sweep.name)
    page, _ = read_with_repair(lambda: _report(loaded, trials, store, failures, folder, None))
    screen.err(f"report: {page}")
    return 0


def _report(
    loaded: LoadedSweep,
    trials: list[Trial],
    store: Store,
    failures: dict[str, str],
    out: Path,
    recorder: Recorder | None,
    *,
    tells: bool = True,
) -> Path:
    """Write the page, add it to the sweep's MLflow run, print the table where it tells."""
    if isinstance(loaded.sweep, ToySweep):
        from smoothsweep.orchestrator.commands.reporting.toy_report import write_toy_report as write
    else:
        from smoothsweep.orchestrator.commands.reporting.report import write_sweep_report as write
    text, files, result = write(loaded, trials, store, failures, out)
    if tells:
        screen.out_text(text)
    if recorder is not None or out == store.sweep_folder(loaded.sweep.name):
        write_trial_notes(store, loaded.sweep.name, trials, names_of(loaded, trials))
    if out == store.sweep_folder(loaded.sweep.name):
        store.publish(out, loaded.sweep.name)
    if recorder is not None:
        _, wall_s = spent(store, loaded.sweep.name)
        recorder.close(trials, files, failed=len(failures), result=result, wall_s=wall_s)
    return out / "report.html"


def _where_to_compare(recorder: Recorder, tracking_uri: str | None, location: str | None) -> list[str]:
    """Lines on what MLflow lacks, else on where to compare runs. location: of the store, None to leave it out."""
    if recorder.unwritten:
        reason = next(iter(recorder.unwritten.values()))
        trials = len(set(recorder.unwritten) - {REPORT})
        missing = f"{trials} trials are" if trials else "means over seeds and report are"
        return [f"{missing} not in MLflow yet ({reason}); the same command records them and runs nothing again"]
    if location is None:
        return recorder.remarks
    hint = f"compare in MLflow: smoothsweep ui --store {location}"
    page = recorder.tracker.page if recorder.tracker else ""
    return [*recorder.remarks, f"MLflow: {shown_uri(tracking_uri).rstrip('/')}{page}" if tracking_uri else hint]


ATTACKED = ("target", "imported", "attack")  # what of a trial must be there before it is judged again
SUFFIX = "-rejudged"
LONGEST_NAME = 64  # characters of a sweep's name


def _judged_again(request: RunRequest) -> list[str]:
    """Overrides of a run that judges anew what is in the store, under a name of its own.

    Raises InputError where no store is, and for a sweep whose trials were chosen by the judges it had.
    """
    overrides, loaded = list(request.overrides), load_sweep(request.sweep, request.overrides)
    open_existing_store(request.store)
    sweep = loaded.sweep
    if isinstance(sweep, ToySweep) or sweep.search or sweep.looks:
        got = "the two-dimensional example" if isinstance(sweep, ToySweep) else "a search" if sweep.search else "looks"
        expected = "expected with it a grid and a list of seeds, of which no judge has chosen"
        raise InputError(f"--only-judges: {loaded.source}: {expected}, got {got}")
    if not any(override.startswith("name=") for override in overrides):
        overrides.append(f"name={sweep.name[: LONGEST_NAME - len(SUFFIX)]}{SUFFIX}")
    if sweep.reaudit:
        overrides.append("reaudit=null")
        screen.err("smoothsweep: the second audit is left out: its recipes were chosen by the judges there were")
    return overrides


def _refuse_to_attack(plan: Plan) -> None:
    """Raise InputError for a plan in which a target would be trained or attacked, or what an attack needs be made."""
    missing, lacking = {stage.fingerprint for stage in plan.missing}, []
    for trial in plan.trials:
        made = with_ancestors([stage for stage in trial.stages if stage.name in ATTACKED])
        if gone := [stage for stage in made if stage.fingerprint in missing and stage.name != "data"]:
            lacking.append(f"{trial.label} ({gone[-1].label})")
    if lacking:
        expected = "expected reconstructions of every trial in the store (a run without it makes them)"
        raise InputError(f"--only-judges: {expected}, got none of {few(lacking, 1)}")
