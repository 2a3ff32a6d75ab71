"""Seeds where they are needed: who gets more, in whichever order trials end and whatever was killed."""

import pytest

from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.leak_comparisons import compare_leaks
from smoothsweep.core.metrics.looks import Looks
from smoothsweep.orchestrator.commands.plan import plan_text
from smoothsweep.orchestrator.planning.plan import make_plan, plan_summary
from smoothsweep.orchestrator.planning.trial import ProposalLog, trials_of
from smoothsweep.orchestrator.search.agenda import forecast_of, write_end
from smoothsweep.orchestrator.store.base import Store
from tests.orchestrator.search.made import ALPHA, CHANGES, LOSSES, leak, work_off
from tests.orchestrator.search.made import load_looks as load


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
        told = compare_leaks(leaks, baseline="0.0", level=1 - error, among=len(recipes) - 1, span=1.0).verdicts
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
    loaded, store = load(tmp_path), Store(root=tmp_path / "store")
    agenda, ended = work_off(loaded, store)
    expected = by_hand((2, 3, 5))
    assert len(set(expected.values())) == 3, expected  # of every kind
    assert seeds_of(ended) == expected and agenda.ended_by == "looks"
    assert len({trial.id for trial in ended}) == len(ended) == len(trials_of(loaded, store))


def test_a_killed_sweep_goes_on_as_if_nothing_had_happened(tmp_path):
    whole, store = Store(root=tmp_path / "whole"), Store(root=tmp_path / "store")
    loaded, done = load(tmp_path), []
    work_off(loaded, whole)
    for shuffle, many in enumerate((19, 3, None)):
        done += work_off(loaded, store, shuffle=shuffle, stop_after=many)[1]
    proposals = [[(p.values, p.look) for p in ProposalLog(loaded, one).proposals()] for one in (whole, store)]
    assert proposals[0] == proposals[1] and len({trial.id for trial in done}) == len(done)


def test_a_recipe_whose_training_failed_gets_no_more_seeds_and_stops_nobody(tmp_path):
    loaded, store = load(tmp_path), Store(root=tmp_path / "store")
    _, ended = work_off(loaded, store, fails=lambda trial: trial.cell.values[ALPHA] == 0.1 and trial.seed == 42)
    found = seeds_of(ended)
    assert found[0.1] == 2 and found[-0.3] == by_hand((2, 3, 5))[-0.3]
    store = Store(root=tmp_path / "without a baseline nothing is decided")
    _, ended = work_off(loaded, store, fails=lambda trial: trial.cell.values[ALPHA] == 0.0)
    assert set(seeds_of(ended).values()) == {2}


def planned(loaded, store):
    plan = make_plan(trials_of(loaded, store), store, forecast_of(ProposalLog(loaded, store)))
    summary = plan_summary(plan)
    return summary, plan_text(summary)


def test_the_plan_says_the_least_and_the_most(tmp_path):
    loaded, store = load(tmp_path), Store(root=tmp_path / "store")
    before, said = planned(loaded, store)
    assert before["trials"] == 5 * 2 * 2 and before["looks"]["at_most_more_trials"] == 5 * 2 * 3
    assert before["looks"]["seeds"] == [3, 5] and "up to 3 and 5 seeds: at most 30 more trials" in said
    work_off(loaded, store, stop_after=20 + 8)  # all of the first look, and four recipes of the second
    middle, said = planned(loaded, store)
    assert middle["looks"]["seeds"] == [5] and middle["looks"]["at_most_more_trials"] == 4 * 2 * 2
    agenda, _ = work_off(loaded, store)
    write_end(ProposalLog(loaded, store), agenda.ended_by)
    after, said = planned(loaded, store)
    assert after["looks"] is None and "every stage is in the store" in said


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"grid": {ALPHA: [0.0], "attack.loss": list(LOSSES)}}, "got 1 of 1 recipes"),
        ({"baseline": {"attack.loss": "poincare"}}, "got 5 of 5 recipes"),
    ],
)
def test_a_baseline_that_is_not_one_recipe_beside_others_is_refused(tmp_path, changes, said):
    with pytest.raises(InputError, match="expected a baseline that is one recipe, and another beside it") as refusal:
        planned(load(tmp_path, **changes), Store(root=tmp_path / "store"))
    assert said in str(refusal.value)
