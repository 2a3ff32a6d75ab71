"""What an audit has no time for: attacks that the first answer does not wait for, and what is said of those left."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from smoothsweep.core.audit.portfolio import portfolio
from smoothsweep.orchestrator.commands.audit import late
from smoothsweep.orchestrator.commands.audit.late import attacks_left, of_first_answer, seeds_left
from smoothsweep.orchestrator.commands.audit.queries import Allowance
from smoothsweep.orchestrator.commands.audit.rounds import FIRST

PEOPLE = 20
ENDPOINT = Allowance(queries=10**6, reading=0, per_second=10.0, people=PEOPLE)
"""1,000 queries of the pool are 100 s, 20,000 of the search are 2,000 s more."""


def kinds(attacks):
    return [one["kind"] for one in attacks]


def working(monkeypatch, minutes, *, allowance=ENDPOINT, stored=()):
    """An audit; stored: kinds of attacks that the store holds."""
    monkeypatch.setattr(late, "open_store", lambda location: None)
    monkeypatch.setattr(late, "is_done", lambda tree, store: tree[0]["kind"] in stored)
    return SimpleNamespace(
        allowance=allowance,
        store="",
        request=SimpleNamespace(minutes=minutes, seeds=1),
        tree=lambda one, membership, attacks: attacks,
    )


@pytest.mark.parametrize(
    ("minutes", "stored", "kept"),
    [
        (1, (), ["selection_only", "random_latents"]),  # what asks least is always tried
        (34.9, (), ["selection_only", "random_latents"]),
        (35, (), ["cma_es", "selection_only", "random_latents"]),
        (1, ("cma_es",), ["cma_es", "selection_only", "random_latents"]),  # an answer that is there costs nothing
    ],
)
def test_of_an_endpoint_the_first_answer_waits_for_what_the_minutes_hold(monkeypatch, minutes, stored, kept):
    work = working(monkeypatch, minutes, stored=stored)
    assert kinds(of_first_answer(work, portfolio("scores", whole=False))) == kept


@pytest.mark.parametrize("access", ["gradients", "scores", "labels"])
def test_a_model_that_is_here_is_asked_all_quick_attacks_however_few_the_minutes(monkeypatch, access):
    work = working(monkeypatch, 0.1, allowance=replace(ENDPOINT, queries=None))
    assert of_first_answer(work, portfolio(access, whole=False)) == portfolio(access, whole=False)


def finished(access, reach, *, queries=None, minutes=5, spent=200.0, seconds=900.0):
    """An audit that has ended after a round of this reach; what is left would take so many seconds."""
    allowance = replace(ENDPOINT, queries=queries)

    def attacks_of(one):
        return allowance.kept(portfolio(access, whole=one.reach == "whole", adapted=one.reach == "adapted"))

    return replace(FIRST, reach=reach), SimpleNamespace(
        allowance=allowance,
        attacks_of=attacks_of,
        spent=spent,
        seconds_of=lambda one, after: seconds,
        request=SimpleNamespace(minutes=minutes, seeds=3),
    )


def test_attacks_that_there_was_no_time_for_are_named_with_the_minutes_that_they_take():
    done, work = finished("scores", "quick")
    assert attacks_left(work, done) == (
        "Not tried, for lack of time: RLB-MI; BREP-MI. The same command with --minutes 20 or more goes on with them.",
    )
    [more] = attacks_left(*reversed(finished("gradients", "adapted", seconds=60.0, minutes=40)))
    assert "lack of time: RLB-MI; BREP-MI" in more and "--minutes 41 or more" in more, "more than it had"


@pytest.mark.parametrize(("access", "reach", "queries"), [("scores", "whole", None), ("scores", "quick", 21_000)])
def test_nothing_is_said_where_all_was_tried_that_the_model_may_be_asked(access, reach, queries):
    done, work = finished(access, reach, queries=queries)
    assert attacks_left(work, done) == ()


def test_where_queries_are_what_more_seeds_lack_they_are_named():
    done, work = finished("scores", "quick", queries=181_000)
    two = replace(done, seeds=(1, 2))
    assert attacks_left(work, two) == (
        "Not tried with 2 seeds: RLB-MI; the same command with more --queries tries more.",
    )


def test_seeds_that_were_asked_for_and_not_reached_are_said():
    done, work = finished("scores", "whole")
    [line] = seeds_left(work, done)
    assert line.startswith("--seeds 3 was asked for; --minutes 5 were enough for 1: the next takes about 15 min")
    assert seeds_left(work, replace(done, seeds=(1, 2, 3))) == ()
