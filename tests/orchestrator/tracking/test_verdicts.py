"""The report's verdict on the runs it is about: written with the report, once, and where it was missed."""

from dataclasses import replace

import pytest
from mlflow_look import doubled, look, record

from smoothsweep.orchestrator.commands.reporting.report import report_data
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.result.rows import results_table
from smoothsweep.orchestrator.result.summary import summarise
from smoothsweep.orchestrator.result.sweep_result import result_of
from smoothsweep.orchestrator.tracking.runs import NUMBERS, VERDICT


def told(result, word="reduces", **changes):
    """The result with this verdict on its second recipe; None for none."""
    given = {"verdict": word, "reduction": 0.3, "reduction_low": 0.1, "reduction_high": 0.5, "hidden": -0.1}
    given |= {"hidden_low": None, "hidden_high": None, **changes}
    mine = result.recipes["recipe"].str.contains("0.2", regex=False)
    columns = {name: [value if one else None for one in mine] for name, value in given.items()}
    return replace(result, recipes=result.recipes.assign(**columns))


@pytest.fixture
def swept(load, finished, store, tmp_path):
    """A sweep of two recipes, its trials and its summary, whose recipe is called as the report does."""
    loaded = load()
    trials = finished(loaded)
    data = report_data(loaded, trials, store, results_table(trials, store, {}), tmp_path)
    return loaded, trials, result_of(data, summarise(data))


def by_alpha(runs):
    return {float(run.data.params["recipe_alpha"]): run for run in runs}


def test_a_verdict_is_written_once_where_it_is_missing_and_told_anew_where_it_has_changed(swept, store, uri):
    loaded, trials, result = swept
    given = told(result)

    def after(**closing):
        record(loaded, store, trials, **closing)
        client, kinds = look(uri)
        assert not doubled(client, [run for runs in kinds.values() for run in runs])
        recipe, (parent,) = by_alpha(kinds["recipe"])[-0.2], kinds["sweep"]
        return client, recipe, by_alpha(kinds["trial"])[-0.2], parent

    half = {"another": "diverged"}
    _, recipe, trial, _ = after(failures=half)  # as by a version without verdicts
    assert VERDICT not in recipe.data.tags and VERDICT not in trial.data.tags

    _, recipe, trial, parent = after(result=given, failures=half)
    assert recipe.data.tags[VERDICT] == trial.data.tags[VERDICT] == "reduces"
    assert not {*NUMBERS, "test_acc"} & {*parent.data.metrics}, "a number of half a sweep could not be taken back"
    assert not {*NUMBERS} & {*recipe.data.metrics}

    for _ in range(2):
        client, recipe, _, parent = after(result=given)
    assert recipe.data.metrics["reduction_low"] == 0.1
    assert "hidden_low" not in recipe.data.metrics, "nothing bounds it"
    assert {"test_acc", "embedder_acc1"} <= set(parent.data.metrics)
    assert len(client.get_metric_history(parent.info.run_id, "test_acc")) == 1

    changed = told(result, "hides", reduction=0.0, reduction_low=-0.1, reduction_high=0.1)
    client, recipe, _, _ = after(result=changed)
    assert recipe.data.tags[VERDICT] == "hides" and recipe.data.metrics["reduction"] == 0.0
    assert [point.step for point in client.get_metric_history(recipe.info.run_id, "reduction")] == [0, 1]
    assert [point.value for point in client.get_metric_history(recipe.info.run_id, "hidden")] == [-0.1]

    gone = told(result, None, **dict.fromkeys(("reduction", "reduction_low", "reduction_high", "hidden")))
    _, recipe, trial, _ = after(result=gone)
    assert recipe.data.tags[VERDICT] == trial.data.tags[VERDICT] == "", "what is no longer said does not stay"


def test_a_duration_is_that_of_the_work(load, finished, store, uri):
    """The made-up stages took 20 s each; recording took none of that, and that a trial had failed first neither."""
    loaded = load()
    record(loaded, store, trials_of(loaded)[:1], failures={trials_of(loaded)[0].id: "diverged"})
    trials = finished(loaded)
    record(loaded, store, trials, wall_s=100.0)
    _, kinds = look(uri)
    lasted = {kind: {run.info.end_time - run.info.start_time for run in runs} for kind, runs in kinds.items()}
    (worked,) = lasted["trial"] | lasted["recipe"]
    assert lasted["sweep"] == {100_000} and worked % 20_000 == 0
    assert worked >= 20_000 * (len(trials[0].stages) + 4), "public images, prior, pool and candidates are work as well"
    assert int(1.7e12) in {run.info.end_time for run in kinds["trial"] + kinds["recipe"]}
