"""Sweeps with looks whose trials are never run: the store is filled with made-up numbers instead."""

import random
from pathlib import Path

import yaml
from tiny import searchable

from smoothsweep.orchestrator.planning.trial import ProposalLog
from smoothsweep.orchestrator.search.agenda import LookAgenda
from smoothsweep.orchestrator.search.setup import Wait
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.load import load_sweep

ALPHA, LOSS = "recipe.defense.alpha", "attack.loss"
CHANGES = {0.0: 0.0, -0.3: 0.5, -0.2: 0.11, -0.1: 0.0, 0.1: 0.06}
"""Recipe -> how much less it leaks: told at the first look, the second, the last, at none."""
ROUGH = 0.03
LOSSES = ("poincare", "cross_entropy")


def looked_sweep(*, looks=(2, 3, 5), **changes):
    """A sweep with looks, changes to its keys on top."""
    given = searchable("looked", {}, seeds={"looks": list(looks), "first": 41})
    del given["search"]
    return given | {"grid": {ALPHA: list(CHANGES), LOSS: list(LOSSES)}, "baseline": {ALPHA: 0.0}} | changes


def load(folder: Path, **changes):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "looked.yaml"
    path.write_text(yaml.safe_dump(looked_sweep(**changes), sort_keys=False))
    return load_sweep(path)


def leak(alpha, loss, seed):
    """Made up: what a trial's judge says."""
    rough = random.Random(f"{alpha} {loss} {seed}").gauss(0, ROUGH)
    return 0.75 - CHANGES[alpha] - 0.1 * (loss == "cross_entropy") + rough


def finish(store: Store, trial) -> None:
    values = trial.cell.values
    for stage in trial.stages:
        store.discard(stage)
        metrics = {"test_acc": 0.9, "embedder_acc1": leak(values[ALPHA], values[LOSS], trial.seed)}
        store.commit(stage, store.draft(stage), {"metrics": metrics, "seconds": 1.0, "inputs": {}})


def work_off(loaded, store: Store, *, shuffle: int = 0, stop_after: int | None = None, fails=lambda trial: False):
    """Several trials at once that end in a random order. Returns the agenda and the trials that ended."""
    agenda, order, running, ended = LookAgenda(ProposalLog(loaded, store)), random.Random(shuffle), [], []
    agenda.begin()
    while True:
        while len(running) < 5 and not isinstance(trial := agenda.next(), Wait | None):
            running.append(trial)
        if not running:
            return agenda, ended
        trial = running.pop(order.randrange(len(running)))
        if not fails(trial):
            finish(store, trial)
        agenda.ended(trial, "it diverged" if fails(trial) else None)
        ended.append(trial)
        if len(ended) == stop_after:
            return agenda, ended
