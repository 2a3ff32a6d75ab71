"""Searches whose trials are never run: the store is filled with made-up numbers instead."""

import random
from pathlib import Path

import pandas as pd
import yaml

from smoothsweep.orchestrator.planning.trial import ProposalLog
from smoothsweep.orchestrator.search.agenda import Agenda
from smoothsweep.orchestrator.search.setup import Wait
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.load import load_sweep
from tests.tiny import searchable

ALPHA, KIND, START = "recipe.defense.alpha", "recipe.defense.schedule.kind", "recipe.defense.schedule.start"
SPACE = {
    ALPHA: {"low": -0.5, "high": 0.3, "step": 0.05},
    KIND: {"choices": ["constant", "ramp"]},
    START: {"low": 0.0, "high": 0.7, "step": 0.1, "when": {KIND: ["ramp"]}},
}
CHANGES = {0.0: 0.0, -0.3: 0.5, -0.2: 0.11, -0.1: 0.0, 0.1: 0.06}
"""Recipe -> how much less it leaks: told at the first look, the second, the last, at none."""
ROUGH = 0.03
LOSS, LOSSES = "attack.loss", ("poincare", "cross_entropy")


def looked_sweep(*, looks=(2, 3, 5), **changes):
    """A sweep with looks, changes to its keys on top."""
    given = searchable("looked", {}, seeds={"looks": list(looks), "first": 41})
    del given["search"]
    return given | {"grid": {ALPHA: list(CHANGES), LOSS: list(LOSSES)}, "baseline": {ALPHA: 0.0}} | changes


def load_looks(folder: Path, **changes):
    return _written(folder, looked_sweep(**changes))


def load(folder: Path, proposing, **changes):
    objectives = {"test_acc": "max", "embedder_acc1": "min"}
    return _written(folder, searchable("made", {"space": SPACE, "objectives": objectives, **proposing}, **changes))


def _written(folder: Path, given):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "made.yaml"
    path.write_text(yaml.safe_dump(given, sort_keys=False))
    return load_sweep(path)


def leak(alpha, loss, seed):
    """Made up: what a trial's judge says."""
    rough = random.Random(f"{alpha} {loss} {seed}").gauss(0, ROUGH)
    return 0.75 - CHANGES[alpha] - 0.1 * (loss == "cross_entropy") + rough


def finish_look(store: Store, trial) -> None:
    values = trial.cell.values
    finish(store, trial, test_acc=0.9, embedder_acc1=leak(values[ALPHA], values[LOSS], trial.seed))


def finish(store: Store, trial, **metrics) -> None:
    """Write manifests for all of a trial's stages: the numbers follow from its recipe and seed."""
    for stage in trial.stages:
        store.discard(stage)
        draft, content = store.draft(stage), {"metrics": metrics or numbers(trial), "seconds": 1.0, "inputs": {}}
        if stage.name == "target":  # what a report asks of it
            epoch = {"epoch": [0], "alpha": [0.0], "loss": [1.0], "train_acc": [0.9], "test_acc": [0.9]}
            pd.DataFrame(epoch).to_parquet(draft / "history.parquet")
        store.commit(stage, draft, content)


def numbers(trial) -> dict[str, float]:
    """Accuracy falls with |alpha|; leak with alpha, less so under a constant schedule."""
    values = trial.cell.values
    alpha, ramp = values[ALPHA], values.get(KIND) == "ramp"
    rough = 0.02 * random.Random(f"{sorted(values.items())} {trial.seed}").random()
    late = 0.05 * values.get(START, 0.0)
    return {"test_acc": 0.95 - 0.4 * abs(alpha) * (0.5 if ramp else 1.0) + rough, "embedder_acc1": 0.6 + alpha + late}


def work_off(loaded, store: Store, *, shuffle: int = 0, stop_after: int | None = None, fails=lambda trial: False):
    """Run the search, or the looks, with several trials at once that end in a random order.

    Returns the agenda and the trials that ended.
    """
    agenda = Agenda(ProposalLog(loaded, store))
    order, running, ended = random.Random(shuffle), [], []
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
            (finish_look if loaded.sweep.looks else finish)(store, trial)
            agenda.ended(trial, None)
        ended.append(trial)
        if len(ended) == stop_after:
            return agenda, ended  # as a driver that is killed: nothing is told to anybody
