"""The report's verdict on the runs it is about: written with the report, once, and where it was missed."""

import pandas as pd
import pytest
from mlflow_look import doubled, look, record

from core.metrics.hiding import Bounded, HidingVerdict
from orchestrator.doors.report import report_data
from orchestrator.planning.trials import trials_of
from orchestrator.reading.leak.hiding import Hidings
from orchestrator.reading.numbers.summary import summarise
from orchestrator.reading.results import results_table
from orchestrator.tracking import Verdicts, verdicts_of
from orchestrator.tracking.verdicts import HIDING, NUMBERS, TOLD, VERDICT, Told

RECIPE = "alpha −0.2"


def verdict(word="removes", **changes):
    removed, hidden = Bounded(value=0.3, low=0.1, high=0.5), Bounded(value=-0.1, low=None, high=None)
    given = {"word": word, "claimed": 0.2, "removed": removed, "hidden": hidden, "seeds_needed": None}
    attacks = dict.fromkeys(("strongest", "strongest_baseline", "published", "published_baseline"), "ppa")
    return HidingVerdict(**{**given, **attacks, **changes})


@pytest.fixture
def swept(load, finished, store, tmp_path):
    """A sweep of two recipes under two seeds, its trials and its summary, whose recipe is called as the report does."""
    loaded = load(seeds=[1, 2])
    trials = finished(loaded)
    data = report_data(loaded, trials, store, results_table(trials, store, {}), tmp_path)
    summary = summarise(data, resamples=50)
    assert RECIPE in summary.recipes[0].replace("\xa0", " ") + summary.recipes[1].replace("\xa0", " ")
    return loaded, trials, summary


def name_of(summary):
    return next(recipe for recipe in summary.recipes if "0.2" in recipe)


def by_alpha(runs):
    return {float(run.data.params["recipe_alpha"]): run for run in runs}


def test_every_trial_is_told_what_the_table_says_and_what_the_verdict_is(swept):
    _, trials, summary = swept
    found = verdicts_of(summary, Hidings(verdicts={name_of(summary): verdict()}))
    assert set(found.of_trials) == {trial.id for trial in trials}
    told = {float(trial.cell.axes["alpha"]): found.of_trials[trial.id] for trial in trials}
    assert told[0.0] == Told(tags={VERDICT: "baseline"})
    assert told[-0.2].tags[VERDICT] in ("lower", "higher", "cannot tell") and told[-0.2].tags[HIDING] == "removes"
    assert told[-0.2].numbers == {"removed": 0.3, "removed_low": 0.1, "removed_high": 0.5, "hidden": -0.1}
    assert found.whole == {HIDING: "alpha -0.2: removes"}


def test_runs_hold_the_verdict_and_hold_it_once(swept, store, uri):
    loaded, trials, summary = swept
    verdicts = verdicts_of(summary, Hidings(verdicts={name_of(summary): verdict()}))
    for _ in range(2):
        record(loaded, store, trials, verdicts=verdicts)
    client, kinds = look(uri)
    recipe, (parent,) = by_alpha(kinds["recipe"])[-0.2], kinds["sweep"]
    assert recipe.data.tags[HIDING] == "removes" and recipe.data.metrics["removed_low"] == 0.1
    assert "hidden_low" not in recipe.data.metrics, "one seed bounds nothing"
    mine = [run.data.tags[HIDING] for run in kinds["trial"] if run.data.params["recipe_alpha"] == "-0.2"]
    assert mine == ["removes"] * 2
    assert parent.data.tags[HIDING] == "alpha -0.2: removes"
    assert {"test_acc", "embedder_acc1"} <= set(parent.data.metrics)
    assert not doubled(client, [run for runs in kinds.values() for run in runs])
    for name in (*NUMBERS, "test_acc"):
        assert len(client.get_metric_history(parent.info.run_id, name)) <= 1


def test_what_was_missed_is_written_by_the_next_closing_and_what_changed_is_told_anew(swept, store, uri):
    loaded, trials, summary = swept
    record(loaded, store, trials)  # a version without verdicts
    assert HIDING not in by_alpha(look(uri)[1]["recipe"])[-0.2].data.tags
    record(loaded, store, trials, verdicts=verdicts_of(summary, Hidings(verdicts={name_of(summary): verdict()})))
    changed = verdict("hides", removed=Bounded(value=0.0, low=-0.1, high=0.1))
    record(loaded, store, trials, verdicts=verdicts_of(summary, Hidings(verdicts={name_of(summary): changed})))
    client, kinds = look(uri)
    recipe = by_alpha(kinds["recipe"])[-0.2]
    assert recipe.data.tags[HIDING] == "hides" and recipe.data.metrics["removed"] == 0.0
    assert [point.step for point in client.get_metric_history(recipe.info.run_id, "removed")] == [0, 1]
    assert [point.value for point in client.get_metric_history(recipe.info.run_id, "hidden")] == [-0.1]
    record(loaded, store, trials, verdicts=verdicts_of(summary, Hidings()))
    _, kinds = look(uri)
    assert by_alpha(kinds["recipe"])[-0.2].data.tags[HIDING] == "", "a verdict that is no longer given does not stay"
    assert not doubled(client, [run for runs in kinds.values() for run in runs])


def test_a_sweep_that_is_not_whole_leaves_no_number_behind(swept, store, uri):
    """Which could not be taken back when the rest is there."""
    loaded, trials, summary = swept
    verdicts = verdicts_of(summary, Hidings(verdicts={name_of(summary): verdict()}))
    record(loaded, store, trials[:3], failures={"another": "diverged"}, verdicts=verdicts)
    _, kinds = look(uri)
    assert not {*NUMBERS, "test_acc"} & set(kinds["sweep"][0].data.metrics)
    assert not any(set(NUMBERS) & set(run.data.metrics) for run in kinds["recipe"])
    assert by_alpha(kinds["recipe"])[-0.2].data.tags[HIDING] == "removes"
    record(loaded, store, trials, verdicts=verdicts)
    client, kinds = look(uri)
    assert by_alpha(kinds["recipe"])[-0.2].data.metrics["removed"] == 0.3
    assert len(client.get_metric_history(kinds["sweep"][0].info.run_id, "test_acc")) == 1


def test_a_recipe_under_further_seeds_is_told_again(load, finished, store, uri):
    """Its run may be made anew, which forgets what the old one said."""
    told = Told(tags={HIDING: "removes"}, numbers={"removed": 0.3})
    for seeds in ([1, 2], [1, 3]):
        loaded = load(seeds=seeds, grid={"recipe.defense.alpha": [0.0]}, baseline={})
        trials = finished(loaded)
        record(loaded, store, trials, verdicts=Verdicts(of_trials={trial.id: told for trial in trials}))
    (recipe,) = look(uri)[1]["recipe"]
    assert recipe.data.tags[HIDING] == "removes" and recipe.data.metrics["removed"] == 0.3
    assert recipe.data.tags[TOLD] == told.fingerprint


def test_a_duration_is_that_of_the_work(load, finished, store, uri):
    """The made-up stages took 20 s each; recording took none of that."""
    loaded = load()
    trials = finished(loaded)
    record(loaded, store, trials, wall_s=100.0)
    _, kinds = look(uri)
    lasted = {kind: {run.info.end_time - run.info.start_time for run in runs} for kind, runs in kinds.items()}
    stages = len(trials[0].stages) + 4  # and public images, prior, pool, candidates, ... that it stands on
    assert lasted["sweep"] == {100_000} and lasted["trial"] == lasted["recipe"]
    (worked,) = lasted["trial"]
    assert worked % 20_000 == 0 and worked >= 20_000 * stages
    assert {run.info.end_time for run in kinds["trial"]} == {int(1.7e12)}


def test_a_trial_that_failed_first_lasts_as_long_as_its_work(load, finished, store, uri):
    loaded = load()
    trials = trials_of(loaded)
    record(loaded, store, trials, failures={trial.id: "diverged" for trial in trials})
    finished(loaded)
    record(loaded, store, trials)
    spans = pd.Series([run.info.end_time - run.info.start_time for run in look(uri)[1]["trial"]])
    assert (spans % 20_000 == 0).all() and (spans > 100_000).all()
