"""Seeds where they are needed: who gets more, whatever was killed; a report of recipes that were stopped at looks."""

import sys
from pathlib import Path

import pytest

from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.leak_comparisons import compare_leaks
from smoothsweep.core.metrics.looks import Looks
from smoothsweep.core.text import NBSP
from smoothsweep.orchestrator.commands.plan import plan_text
from smoothsweep.orchestrator.planning.plan import make_plan, plan_summary
from smoothsweep.orchestrator.planning.trial import ProposalLog, trials_of
from smoothsweep.orchestrator.result.data import ReportData
from smoothsweep.orchestrator.result.rows import baseline_axes, results_table, sweep_axes
from smoothsweep.orchestrator.result.standing import look_sentences
from smoothsweep.orchestrator.result.summary import summarise
from smoothsweep.orchestrator.result.sweep_result import result_of
from smoothsweep.orchestrator.search.agenda import forecast_of
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.tracking.runs import LOOK, verdicts_of
from tests.orchestrator.search.made import ALPHA, CHANGES, LOSSES, finish_look, leak, load_looks, work_off
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


def planned(loaded, store):
    plan = make_plan(trials_of(loaded, store), store, forecast_of(ProposalLog(loaded, store)))
    summary = plan_summary(plan)
    return summary, plan_text(summary)


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


sys.path.append(str(Path(__file__).parents[1] / "search"))


LABELS = {alpha: f"smoothing{NBSP}{str(alpha).replace('-', chr(0x2212))}" for alpha in CHANGES if alpha}
LABELS |= {0.0: "plain training"}


def data_of(loaded, store, trials):
    return ReportData(
        title="looked",
        results=results_table(trials, store, {}),
        axes=sweep_axes(loaded, trials),
        baseline=baseline_axes(loaded),
        looks=loaded.sweep.looks,
    )


def summary_of(loaded, store, trials):
    return summarise(data_of(loaded, store, trials))


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("looked")
    loaded, store = load_looks(folder), Store(root=folder / "store")
    work_off(loaded, store)
    return loaded, store, summary_of(loaded, store, trials_of(loaded, store))


def expected(recipes, seeds, error):
    """The comparison of these recipes over so many seeds at a look's error, straight from the made-up numbers."""
    leaks = {
        LABELS[one]: {loss: [[leak(one, loss, seed)] for seed in range(41, 41 + seeds)] for loss in LOSSES}
        for one in (0.0, *recipes)
    }
    return compare_leaks(leaks, baseline=LABELS[0.0], level=1 - error, among=len(CHANGES) - 1, span=1.0).verdicts


def test_each_recipe_is_told_over_its_own_seeds_at_its_own_looks_error(swept):
    summary, errors = swept[2], Looks(seeds=(2, 3, 5)).errors
    found = summary.stops("embedder_acc1")
    told = {
        2: expected((-0.3, -0.2, -0.1, 0.1), 2, errors[0]),
        3: expected((-0.2, -0.1, 0.1), 3, errors[1]),
        5: expected((-0.1, 0.1), 5, errors[2]),
    }
    for alpha, seeds, answer in ((-0.3, 2, "told"), (-0.2, 3, "told"), (-0.1, 5, "undecided"), (0.1, 5, "told")):
        one, other = found[LABELS[alpha]], told[seeds][LABELS[alpha]]
        assert (one.comparison.seeds, one.answer) == (seeds, answer)
        ends = [one.comparison.reduction, one.comparison.low, one.comparison.high]
        assert ends == pytest.approx([other.reduction, other.low, other.high])
        verdict = summary.verdict(LABELS[alpha])
        assert verdict.seeds == seeds and (verdict.word == "reduces") == (answer == "told")
        assert [verdict.reduction, verdict.low, verdict.high] == pytest.approx(ends)
        assert (verdict.p <= 0.05) == (answer == "told") and verdict.comparisons == 4 * len(LOSSES)
        gap = summary.evidence.against(LABELS[alpha], LABELS[0.0])
        assert (gap.n, gap.low, gap.high) == pytest.approx((seeds, -verdict.high, -verdict.low))
        assert (verdict.needed is None) == (answer == "told"), "an open one is told what might settle it"


def test_nobody_is_incomplete_and_nobody_is_dragged_down(swept):
    summary = swept[2]
    assert not summary.cases("embedder_acc1").missing and set(summary.evidence.values) == set(summary.recipes)
    n = dict(zip(summary.frame["recipe"], summary.frame["n"], strict=True))
    assert n == {LABELS[0.0]: 5, LABELS[-0.3]: 2, LABELS[-0.2]: 3, LABELS[-0.1]: 5, LABELS[0.1]: 5}


def test_further_seeds_in_the_store_change_no_answer_that_was_given(swept):
    loaded, store, before = swept
    extra = [t for t in trials_of(load_looks(Path(loaded.source).parent / "all", looks=(5,)), store)]
    for trial in extra:
        if not all(store.has(stage) for stage in trial.stages):
            finish_look(store, trial)
    after = summary_of(loaded, store, extra)
    assert len({t.id for t in extra}) == 5 * 5 * 2
    first, second = (one.stops("embedder_acc1") for one in (before, after))
    assert first == second


def test_terminal_page_and_runs_say_at_which_look(swept):
    loaded, store, summary = swept
    lines = [line.replace(NBSP, " ") for line in look_sentences(summary)]
    assert "2 seeds, those still undecided again at 3 and 5" in lines[0] and "Pocock" in lines[0]
    starts = {alpha: f"Smoothing {LABELS[alpha][10:]}:" for alpha in CHANGES if alpha}
    of = {alpha: next(line for line in lines if line.startswith(words)) for alpha, words in starts.items()}
    assert (
        "decided at look 1 of 3 (2 seeds), reduction +4" in of[-0.3] and "decided at look 2 of 3 (3 seeds)" in of[-0.2]
    )
    assert "decided at look 3 of 3 (5 seeds)" in of[0.1] and "undecided after look 3 of 3 (5 seeds)" in of[-0.1]
    tags = verdicts_of(result_of(data_of(loaded, store, trials_of(loaded, store)), summary)).of_trials
    told = {trial.cell.values[ALPHA]: tags[trial.id].tags.get(LOOK) for trial in trials_of(loaded, store)}
    assert told[-0.3] == "decided at look 1 of 3 (2 seeds)" and told[0.0] is None


def test_an_unfinished_first_look_says_who_is_missing(tmp_path):
    loaded, store = load_looks(tmp_path), Store(root=tmp_path / "store")
    trials = trials_of(loaded, store)
    for trial in trials:
        if (trial.cell.values[ALPHA], trial.seed) != (0.1, 42):
            finish_look(store, trial)
    summary = summary_of(loaded, store, trials)
    found = summary.stops("embedder_acc1")
    assert LABELS[0.1] not in found and found[LABELS[-0.2]].answer == "open"
    assert look_sentences(summary)[-1] == f"Not asked yet, since seeds of the first look are missing: {LABELS[0.1]}."
    assert summary.verdict(LABELS[0.1]) is None and summary.verdict(LABELS[-0.2]) is not None
