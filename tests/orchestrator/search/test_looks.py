"""Seeds where they are needed: who gets more, in whichever order trials end and whatever was killed."""

import random

import numpy as np
import pytest
import yaml
from tiny import searchable

from core.metrics.looks import Looks
from core.metrics.reduction import reductions
from orchestrator.planning.proposals import ProposalFile
from orchestrator.planning.trials import trials_of
from orchestrator.search.looks import LookAgenda
from orchestrator.search.setup import Wait
from orchestrator.store.local import LocalStore
from sweeps.load import load_sweep

ALPHA, LOSS = "recipe.defense.alpha", "attack.loss"
CHANGES = {0.0: 0.0, -0.3: 0.5, -0.2: 0.11, -0.1: 0.0, 0.1: 0.06}
"""Recipe -> how much less it leaks: told at the first look, at the second, at none."""
ROUGH = 0.03
LOSSES = ("poincare", "cross_entropy")


def load(folder, *, looks=(2, 3, 5), recipes=tuple(CHANGES), **changes):
    folder.mkdir(parents=True, exist_ok=True)
    given = searchable(
        "looked", None, seeds={"looks": list(looks), "first": 41},
        grid={ALPHA: list(recipes), LOSS: list(LOSSES)}, baseline={ALPHA: 0.0}, **changes,
    )  # fmt: skip
    del given["search"]
    path = folder / "looked.yaml"
    path.write_text(yaml.safe_dump(given, sort_keys=False))
    return load_sweep(path)


def leak(alpha, loss, seed):
    """Made up: what a trial's judge says."""
    rough = random.Random(f"{alpha} {loss} {seed}").gauss(0, ROUGH)
    return 0.75 - CHANGES[alpha] - 0.1 * (loss == "cross_entropy") + rough


def finish(store, trial):
    values = trial.cell.values
    for stage in trial.stages:
        store.discard(stage)
        metrics = {"test_acc": 0.9, "embedder_acc1": leak(values[ALPHA], values[LOSS], trial.seed)}
        store.commit(stage, store.draft(stage), {"metrics": metrics, "seconds": 1.0, "inputs": {}})


def work_off(loaded, store, *, shuffle=0, stop_after=None, fails=lambda trial: False):
    """Several trials at once that end in a random order. Returns the agenda and the trials that ended."""
    agenda, order, running, ended = LookAgenda(loaded, store), random.Random(shuffle), [], []
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


def by_hand(looks, recipes=tuple(CHANGES)):
    """Recipe -> how many seeds it gets, from the made-up numbers and the shipped comparison."""
    got, pending = dict.fromkeys(recipes, looks[0]), [one for one in recipes if one != 0.0]
    for number, error in zip(looks, Looks(seeds=looks).errors, strict=True):
        if not pending:
            break
        seeds = range(41, 41 + number)
        leaks = {
            str(one): {loss: [[leak(one, loss, seed)] for seed in seeds] for loss in LOSSES} for one in [0.0, *pending]
        }
        told = reductions(leaks, baseline="0.0", level=1 - error, among=len(recipes) - 1, span=1.0)
        for one in [0.0, *pending]:
            got[one] = number
        pending = [
            one
            for one in pending
            if (end := told[str(one)]).low <= 0 <= end.high and not (end.low >= -0.05 and end.high <= 0.05)
        ]
    return got


def seeds_of(trials):
    found = {}
    for trial in trials:
        found.setdefault(trial.cell.values[ALPHA], set()).add(trial.seed)
    return {alpha: len(seeds) for alpha, seeds in found.items()}


def test_only_what_is_undecided_gets_more_seeds_and_the_baseline_beside_it(tmp_path):
    loaded, store = load(tmp_path), LocalStore(root=tmp_path / "store")
    agenda, ended = work_off(loaded, store)
    expected = by_hand((2, 3, 5))
    assert len(set(expected.values())) == 3, expected  # of every kind
    assert seeds_of(ended) == expected and agenda.ended_by == "looks"
    assert len({trial.id for trial in ended}) == len(ended) == len(trials_of(loaded, store))


@pytest.mark.parametrize("killed_after", [[1], [19, 3], [22, 4]])
def test_a_killed_sweep_goes_on_as_if_nothing_had_happened(tmp_path, killed_after):
    whole = LocalStore(root=tmp_path / "whole")
    loaded = load(tmp_path)
    work_off(loaded, whole)
    store, done = LocalStore(root=tmp_path / "store"), []
    for shuffle, many in enumerate(killed_after):
        done += work_off(loaded, store, shuffle=shuffle, stop_after=many)[1]
    done += work_off(loaded, store, shuffle=9)[1]
    proposals = [[(p.values, p.look) for p in ProposalFile(loaded, one).read()] for one in (whole, store)]
    assert proposals[0] == proposals[1] and len({trial.id for trial in done}) == len(done)


def test_proposals_that_are_lost_are_made_again_from_what_has_finished(tmp_path):
    loaded, store = load(tmp_path), LocalStore(root=tmp_path / "store")
    work_off(loaded, store)
    before = ProposalFile(loaded, store).read()
    (store.sweep_folder("looked") / "search" / "proposals.jsonl").unlink()
    assert work_off(loaded, store)[1] == [] and ProposalFile(loaded, store).read() == before


def test_a_recipe_whose_training_failed_gets_no_more_seeds_and_stops_nobody(tmp_path):
    loaded, store = load(tmp_path), LocalStore(root=tmp_path / "store")
    _, ended = work_off(loaded, store, fails=lambda trial: trial.cell.values[ALPHA] == 0.1 and trial.seed == 42)
    found = seeds_of(ended)
    assert found[0.1] == 2 and found[-0.3] == by_hand((2, 3, 5))[-0.3]


def test_without_a_baseline_nothing_is_decided_and_nothing_added(tmp_path):
    loaded, store = load(tmp_path), LocalStore(root=tmp_path / "store")
    _, ended = work_off(loaded, store, fails=lambda trial: trial.cell.values[ALPHA] == 0.0)
    assert set(seeds_of(ended).values()) == {2}


def test_the_plan_holds_the_first_look_before_anything_ran(tmp_path):
    loaded, store = load(tmp_path), LocalStore(root=tmp_path / "store")
    assert set(seeds_of(trials_of(loaded, store)).values()) == {2}
    assert np.unique([trial.seed for trial in trials_of(loaded, store)]).tolist() == [41, 42]
