"""Searches whose trials are never run: the store is filled with made-up numbers instead."""

import random
from pathlib import Path

import yaml
from tiny import searchable

from smoothsweep.orchestrator.planning.trial import ProposalLog
from smoothsweep.orchestrator.search.agenda import Agenda
from smoothsweep.orchestrator.search.setup import Wait
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.load import load_sweep

ALPHA, KIND, START = "recipe.defense.alpha", "recipe.defense.schedule.kind", "recipe.defense.schedule.start"
SPACE = {
    ALPHA: {"low": -0.5, "high": 0.3, "step": 0.05},
    KIND: {"choices": ["constant", "ramp"]},
    START: {"low": 0.0, "high": 0.7, "step": 0.1, "when": {KIND: ["ramp"]}},
}


def load(folder: Path, proposing, **changes):
    folder.mkdir(parents=True, exist_ok=True)
    objectives = {"test_acc": "max", "embedder_acc1": "min"}
    given = searchable("made", {"space": SPACE, "objectives": objectives, **proposing}, **changes)
    path = folder / "made.yaml"
    path.write_text(yaml.safe_dump(given, sort_keys=False))
    return load_sweep(path)


def finish(store: Store, trial, **metrics) -> None:
    """Write manifests for all of a trial's stages: the numbers follow from its recipe and seed."""
    for stage in trial.stages:
        store.discard(stage)
        content = {"metrics": metrics or numbers(trial), "seconds": 1.0, "inputs": {}}
        store.commit(stage, store.draft(stage), content)


def numbers(trial) -> dict[str, float]:
    """Accuracy falls with |alpha|; leak with alpha, less so under a constant schedule."""
    values = trial.cell.values
    alpha, ramp = values[ALPHA], values.get(KIND) == "ramp"
    rough = 0.02 * random.Random(f"{sorted(values.items())} {trial.seed}").random()
    late = 0.05 * values.get(START, 0.0)
    return {"test_acc": 0.95 - 0.4 * abs(alpha) * (0.5 if ramp else 1.0) + rough, "embedder_acc1": 0.6 + alpha + late}


def work_off(loaded, store: Store, *, shuffle: int = 0, stop_after: int | None = None, fails=lambda trial: False):
    """Run the search with several trials at once that end in a random order. Returns the agenda and trials ended."""
    agenda, order, running, ended = Agenda(ProposalLog(loaded, store)), random.Random(shuffle), [], []
    agenda.begin()
    while True:
        while len(running) < 6 and not isinstance(trial := agenda.next(), Wait | None):
            running.append(trial)
        if not running:
            return agenda, ended
        trial = running.pop(order.randrange(len(running)))
        if fails(trial):
            agenda.ended(trial, "it diverged")
        else:
            finish(store, trial)
            agenda.ended(trial, None)
        ended.append(trial)
        if len(ended) == stop_after:
            return agenda, ended  # as a driver that is killed: nothing is told to anybody
