"""What of a sweep is done, running (and how far), failed, missing; open is what a spent budget has left."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from smoothsweep.core import screen
from smoothsweep.core.text import counted, printable, typable
from smoothsweep.orchestrator.commands.requests import StatusRequest
from smoothsweep.orchestrator.planning.plan import make_plan
from smoothsweep.orchestrator.planning.state import Named, StageProgress, read_stage_progress, read_state, trial_name
from smoothsweep.orchestrator.planning.trial import Trial, trials_of
from smoothsweep.orchestrator.result.cells import complete_cases
from smoothsweep.orchestrator.result.display import incomplete_sentences
from smoothsweep.orchestrator.result.rows import sweep_axes
from smoothsweep.orchestrator.result.summary import attack_label, recipe_label
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.store.opening import open_existing_store
from smoothsweep.sweeps.expand import LoadedSweep
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.schema import InversionSweep, ToySweep
from smoothsweep.tasks.registry import stage_title


def print_status(request: StatusRequest) -> int:
    """Print it. Returns the exit code."""
    loaded, store = load_sweep(request.sweep, request.overrides), open_existing_store(request.store)
    trials = trials_of(loaded, store)
    summary = status_summary(loaded.sweep.name, trials, store, names_of(loaded, trials))
    screen.out_text(json.dumps(summary, indent=1) if request.json else status_text(summary))
    return 0


def status_summary(name: str, trials: list[Trial], store: Store, named: Named) -> dict[str, Any]:
    """Trials by state, stages by kind, what runs at this moment and what was begun and runs no longer, as JSON values.

    named: what the report calls each trial's recipe and attack.
    Epochs and classes are told from the store: from what stages leave there while they are at work.
    """
    plan = make_plan(trials, store)
    state = read_state(store, name) or {"alive": False, "running": [], "failures": {}}
    stopped = state.get("stopped", {})
    far = read_stage_progress(plan.missing, store)
    running = []
    for entry in state["running"] if state["alive"] else ():  # as the driver says, and as the stage has left since
        said = StageProgress(fraction=entry["fraction"], words=entry["text"])
        running.append({**entry, **far.pop(entry["fingerprint"], said)._asdict()})
    rows = []
    for trial in trials:
        done = [stage for stage in trial.stages if stage.fingerprint in plan.cached]
        row = {
            "trial": trial.id,
            "label": trial.label,
            "name": typable(trial_name(*named(trial), trial.seed, trial.phase)),
            "stages_done": len(done),
            "stages": len(trial.stages),
            "state": "pending" if state["alive"] else "missing",
        }
        if len(done) == len(trial.stages):
            row["state"] = "done"
        elif trial.id in state["failures"]:
            row["state"], row["cause"] = "failed", state["failures"][trial.id]
        elif row["state"] == "missing" and trial.id in stopped:
            row["state"], row["cause"] = "open", stopped[trial.id]
        rows.append(row)
    kinds = Counter(stage.name for stage in plan.stages)
    done_kinds = Counter(stage.name for stage in plan.stages if stage.fingerprint in plan.cached)
    return {
        "sweep": name,
        "alive": state["alive"],
        "trials": rows,
        "counts": dict(Counter(row["state"] for row in rows)),
        "stages": {kind: {"done": done_kinds[kind], "total": total} for kind, total in kinds.items()},
        "incomplete": list(_incomplete(trials, rows, named)),
        "running": running,
        "begun": [
            {"stage": stage.name, "fingerprint": stage.fingerprint, **far[stage.fingerprint]._asdict()}
            for stage in plan.missing
            if stage.fingerprint in far
        ],
    }


def status_text(summary: dict[str, Any]) -> str:
    """The status as lines for a terminal."""
    counts = ", ".join(f"{count} {state}" for state, count in sorted(summary["counts"].items()))
    driver = "its driver is running" if summary["alive"] else "no driver is running"
    lines = [f"{summary['sweep']}: {counted(len(summary['trials']), 'trial')}: {counts}; {driver}", ""]
    for row in summary["trials"]:
        cause = f"  {row['cause']}" if "cause" in row else ""
        done = f"{row['state']:<8} {row['stages_done']}/{row['stages']}"
        lines.append(f"  {row['trial']}  {done}  {row['name']}{cause}")
    lines.append("")
    stages = ", ".join(f"{stage_title(kind)} {row['done']}/{row['total']}" for kind, row in summary["stages"].items())
    lines.append(f"stages: {stages}")
    lines += summary["incomplete"]
    width = max((len(stage_title(stage["stage"])) for stage in (*summary["running"], *summary["begun"])), default=0)
    for title, entries in (("running:", summary["running"]), ("begun, not running:", summary["begun"])):
        lines += [title, *(_line(entry, width) for entry in entries)] if entries else []
    return "\n".join(map(printable, lines))


def names_of(loaded: LoadedSweep, trials: list[Trial]) -> Named:
    """What the report calls each trial's recipe and attack; of the two-dimensional example its axes."""
    if isinstance(loaded.sweep, ToySweep):
        return lambda trial: (" · ".join(f"{name} {value}" for name, value in trial.cell.axes.items()), "")
    axes = sweep_axes(loaded, trials)
    return lambda trial: (recipe_label(axes, trial.cell.axes), attack_label(axes, trial.cell.axes))


def _incomplete(trials: list[Trial], rows: Sequence[dict[str, Any]], named: Named) -> tuple[str, ...]:
    """Which recipes lack trials that others have, and so cannot be compared with them."""
    met: dict[str, dict[str, set[int]]] = {}
    for trial, row in zip(trials, rows, strict=True):
        if trial.phase == "sweep" and not trial.is_control and isinstance(trial.settings, InversionSweep):
            recipe, attack = named(trial)
            seeds = met.setdefault(recipe, {}).setdefault(attack, set())
            seeds.update({trial.seed} if row["state"] == "done" else ())
    attacks = dict.fromkeys(attack for under in met.values() for attack in under)
    return incomplete_sentences(complete_cases(met), planned=tuple(attacks))


def _line(entry: dict[str, Any], width: int) -> str:
    percent = "waits" if entry.get("waits") else f"{100 * entry['fraction']:3.0f} %"
    words = f"for {entry['waits']}" if entry.get("waits") else entry["words"]
    return f"  {stage_title(entry['stage']):<{width}} {entry['fingerprint'][:8]}  {percent}  {words}".rstrip()
