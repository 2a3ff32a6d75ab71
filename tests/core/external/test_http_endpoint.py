"""What a user agrees to before a picture is sent: how many, how fast, to whom; and where that is noted."""

from dataclasses import fields
from pathlib import Path

import pytest

from smoothsweep.core.errors import InputError
from smoothsweep.core.external.answers import KeptAnswers
from smoothsweep.core.external.base import Budget
from smoothsweep.core.external.http_endpoint import HTTPEndpoint, answers_database


@pytest.mark.parametrize(
    ("given", "budget"),
    [
        ({}, (5000, 5.0)),
        ({"queries": 1}, (1, 5.0)),
        ({"per_second": 0.25}, (5000, 0.25)),
        ({"queries": 12, "per_second": 3.0}, (12, 3.0)),
    ],
)
def test_a_budget_is_what_was_said_or_what_is_usual(given, budget):
    assert HTTPEndpoint(**given).budget == Budget(queries=budget[0], per_second=budget[1])


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"queries": 0}, "--queries: expected at least 1, got 0"),
        ({"queries": -3}, "--queries: expected at least 1, got -3"),
        ({"per_second": 0.0}, "--per-second: expected more than 0, got 0"),
        ({"per_second": -1.5}, "--per-second: expected more than 0, got -1.5"),
        ({"per_second": float("nan")}, "--per-second: expected more than 0, got nan"),
        ({"per_second": float("inf")}, "--per-second: expected more than 0, got inf"),
    ],
)
def test_a_budget_that_is_none_is_one_line(given, line):
    with pytest.raises(InputError) as refused:
        HTTPEndpoint(**given)
    assert str(refused.value) == line


@pytest.mark.parametrize("name", ["https://host/v1", None])
def test_nothing_is_sent_without_consent(name):
    HTTPEndpoint(yes=True).check(name)
    with pytest.raises(InputError) as refused:
        HTTPEndpoint(queries=33).check(name)
    assert str(refused.value) == (
        f"{name or 'the endpoint'}: expected --yes, since up to 33 pictures would be sent to it, those of --data among "
        "them; nothing was sent"
    )


@pytest.mark.parametrize("yes", [True, False])
def test_an_address_that_may_hold_a_secret_is_refused_first(yes):
    with pytest.raises(InputError, match="a token's place is the environment variable") as refused:
        HTTPEndpoint(yes=yes).check("https://me:word@host/")
    assert "word" not in str(refused.value)


def test_what_was_agreed_is_noted_beside_the_folder_and_not_in_it(tmp_path):
    folder = tmp_path / "model.v1"
    assert answers_database(folder) == tmp_path / "model.v1.answers.sqlite"
    HTTPEndpoint(yes=True, queries=2, per_second=1e6).agree(folder)
    assert not folder.exists()
    kept = KeptAnswers(answers_database(folder))
    for _ in range(2):
        kept.take_turn("here")
    with pytest.raises(InputError, match="expected no more than 2 queries"):
        kept.take_turn("here")


def test_of_a_token_the_name_of_its_variable_alone_is_written(monkeypatch, tmp_path):
    monkeypatch.setenv("MINE", "secret")
    for given, token in (({}, "null"), ({"token_env": "MINE"}, '"MINE"')):
        said = HTTPEndpoint(yes=True, **given).describe("https://host/v1", tmp_path / "model")
        kept = Path(tmp_path / "model.answers.sqlite").resolve()
        assert said == f'{{\n "url": "https://host/v1",\n "answers": "{kept}",\n "token_env": {token}\n}}\n'


def test_the_help_says_what_is_usual_and_how_a_value_is_read():
    said = {field.name: field.metadata for field in fields(HTTPEndpoint)}
    assert [one["help"] for one in said.values()] == [
        "send the pictures of --data, and what attacks draw",
        "at most so many in all (default: 5000)",
        "no faster than that (default: 5)",
        "the environment variable that holds its bearer token",
    ]
    assert [one["metavar"] for one in said.values()] == [None, "N", "N", "NAME"]
    assert [one["reads"] for one in said.values()] == [None, int, float, str]
    assert HTTPEndpoint() == HTTPEndpoint(yes=False, queries=None, per_second=None, token_env=None)
    title, known = HTTPEndpoint.options
    assert title == "how an endpoint is asked" and known == (
        "Pictures of people leave this machine: nothing is sent without --yes. What was answered is never asked again."
    )
