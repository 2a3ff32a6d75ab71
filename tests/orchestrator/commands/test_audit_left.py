"""What an audit has no time for: attacks that the first answer does not wait for, and what is said of those left."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from smoothsweep.orchestrator.commands.audit import rounds
from smoothsweep.orchestrator.commands.audit.queries import Allowance
from smoothsweep.orchestrator.commands.audit.rounds import FIRST, attacks_left, seeds_left

PEOPLE = 20
ENDPOINT = Allowance(queries=10**6, reading=0, per_second=10.0, people=PEOPLE)
"""1,000 queries of the pool are 100 s, 20,000 of the search are 2,000 s more."""


def kinds(attacks):
    return [one["kind"] for one in attacks]


def asking(monkeypatch, minutes, *, access="scores", allowance=ENDPOINT, stored=()):
    """An audit; stored: kinds of attacks that the store holds."""
    monkeypatch.setattr(rounds, "open_store", lambda location: None)
    monkeypatch.setattr(rounds, "is_done", lambda tree, store: tree[0]["kind"] in stored)
    monkeypatch.setattr(rounds.PreparedAudit, "tree", lambda prepared, one, membership, attacks: attacks)
    request = SimpleNamespace(minutes=minutes, seeds=3, access=access, folder=Path("audit"))
    asked = rounds.PreparedAudit(request=request, model=None, card=SimpleNamespace(access=access), people=None)
    vars(asked)["allowance"] = allowance
    return asked


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
    assert kinds(asking(monkeypatch, minutes, stored=stored).attacks(FIRST)) == kept


def left(monkeypatch, access, reach, *, seeds=(1,), queries=None, minutes=40, until_s=1100.0):
    """What is said after a last round of this reach, of an audit that had so many minutes."""
    asked = asking(monkeypatch, minutes, access=access, allowance=replace(ENDPOINT, queries=queries))
    return attacks_left(asked, replace(FIRST, reach=reach, seeds=seeds), until_s=lambda wider: until_s)


def test_attacks_that_there_was_no_time_for_are_named_with_the_minutes_that_they_take(monkeypatch):
    assert left(monkeypatch, "scores", "quick", minutes=5) == (
        "Not tried, for lack of time: RLB-MI; BREP-MI. The same command with --minutes 20 or more goes on with them.",
    )
    [more] = left(monkeypatch, "gradients", "adapted", until_s=260.0)
    assert "lack of time: RLB-MI; BREP-MI" in more and "--minutes 41 or more" in more, "more than it had"


def test_seeds_that_were_asked_for_and_not_reached_are_said():
    line = seeds_left(3, 5.0, replace(FIRST, reach="whole"), next_s=900.0)
    assert line.startswith("--seeds 3 was asked for; --minutes 5 were enough for 1: the next takes about 15 min")
