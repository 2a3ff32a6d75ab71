"""Saved views: what MLflow's page reads of them is what we write, and it fits."""

import json
from pathlib import Path

import mlflow
import pytest

from smoothsweep.core.judges.columns import BY_KEY, CLASS_METRICS
from smoothsweep.orchestrator.reading.findings.display import KEY_METRICS
from smoothsweep.orchestrator.tracking.pages.views import CURVES, NAMES, TAG, route, saved_views
from smoothsweep.orchestrator.tracking.runs.verdicts import ORDER, STRONGEST

EVERYTHING = {*BY_KEY, *CURVES}


def states(tags):
    return {key.removeprefix(TAG): json.loads(json.loads(value)["state"]) for key, value in tags.items()}


@pytest.fixture(scope="module")
def page():
    """The text of the installed page's own code."""
    build = Path(mlflow.__file__).parent / "server" / "js" / "build" / "static" / "js"
    texts = (path.read_text() for path in build.glob("*.js"))
    return "".join(text for text in texts if TAG in text or "compareRunSections" in text)


def test_the_installed_page_knows_every_key_that_a_view_holds(page):
    """An MLflow that calls them otherwise would ignore them in silence."""
    query = route("1").partition("?")[2]
    words = {TAG, "createdAt", "SHOW_ALL", "CHART", "TABLE", *(part.split("=")[0] for part in query.split("&"))}
    for state in states(saved_views("embedder_acc1", EVERYTHING, at=1)).values():
        words |= {*state, *(key for card in state["compareRunCharts"] for key in card)}
        words |= {key for section in state["compareRunSections"] for key in section}
    assert len(words) > 30 and [word for word in sorted(words) if word not in page] == []


@pytest.mark.parametrize("leak", [None, *CLASS_METRICS, "dist_face"])
def test_a_view_fits_into_a_tag_and_is_the_same_each_time(leak):
    tags = saved_views(leak, EVERYTHING, at=1)
    assert {key.removeprefix(TAG) for key in tags} == set(NAMES) and tags == saved_views(leak, EVERYTHING, at=1)
    assert max(map(len, tags.values())) < 5000


def test_the_best_come_first_whichever_way_the_leak_points():
    """In what an earlier version recorded: without places."""
    low, high = (states(saved_views(leak, {*BY_KEY}, at=1))["trials"] for leak in ("embedder_acc1", "dist_face"))
    assert low["orderByAsc"] is True and high["orderByAsc"] is False


@pytest.mark.parametrize("kind", NAMES)
def test_runs_are_ordered_by_the_leak_under_the_strongest_attack_on_their_recipe(kind):
    """By the leak of each run itself, a masked attack on a weak recipe would stand first."""
    earlier = states(saved_views("embedder_acc1", {*BY_KEY}, at=1))[kind]
    assert earlier["orderByKey"] == f"metrics.`{STRONGEST}`" and earlier["orderByKey"] in earlier["selectedColumns"]
    for leak in ("embedder_acc1", "dist_face"):
        state = states(saved_views(leak, {*BY_KEY, ORDER}, at=1))[kind]
        assert (state["orderByKey"], state["orderByAsc"]) == (f"metrics.`{ORDER}`", True)


def test_the_split_of_the_extracted_knowledge_is_that_of_the_report():
    columns = states(saved_views("embedder_acc1", EVERYTHING, at=1))["trials"]["selectedColumns"]
    shown = [key for key in KEY_METRICS if key.startswith("xi_")]
    assert [key for key in columns if "xi_" in key] == [f"metrics.`{key}`" for key in shown] and shown


def test_only_what_was_measured_has_a_column_or_a_chart():
    state = states(saved_views("attack_acc1", {"test_acc", "attack_acc1", "epoch/alpha"}, at=1))["trials"]
    assert "metrics.`attack_acc1`" in state["selectedColumns"] and "embedder" not in str(state["selectedColumns"])
    charts = [chart["uuid"] for chart in state["compareRunCharts"]]
    assert charts == ["test accuracy against evaluator", "alpha against evaluator", "epoch/alpha"]
    without = states(saved_views(None, {"steps"}, at=1))["trials"]
    assert without["compareRunCharts"] == [] and "orderByKey" not in without
