"""Patience: which answers are asked again, how long it waits between them, and what is counted."""

import threading

import pytest

from smoothsweep.core.errors import InputError
from smoothsweep.core.external import posting
from smoothsweep.core.external.answers import KeptAnswers
from smoothsweep.core.external.posting import posted
from smoothsweep.core.external.wire import NoResponse, Response

URL = "http://host/x"


@pytest.fixture
def post(tmp_path, monkeypatch):
    """(answers one after the other) -> what came or the line; `.waits`: seconds between attempts; `.sent`: calls."""
    kept, waits, sent = KeptAnswers(tmp_path / "kept"), [], []
    kept.agree(queries=1000, per_second=1e9)
    real, mine = (
        posting.time.sleep,
        threading.get_ident(),
    )  # a server of an earlier test may still be waiting in a thread of its own
    monkeypatch.setattr(posting.time, "sleep", lambda s: waits.append(s) if threading.get_ident() == mine else real(s))

    def run(*script):
        left = list(script)
        waits.clear()
        sent.clear()

        def exchange(url, body, headers, *, seconds):
            sent.append((url, body, dict(headers), seconds))
            said = left.pop(0)
            if isinstance(said, NoResponse):
                raise said
            status, after = said if isinstance(said, tuple) else (said, None)
            return Response(status=status, body=b"body %d" % status, retry_after=after)

        monkeypatch.setattr(posting, "exchange", exchange)
        monkeypatch.setattr(KeptAnswers, "take_turn", lambda self, who: taken.append(who))
        monkeypatch.setattr(KeptAnswers, "give_turn_back", lambda self: taken.pop())
        taken = run.taken = []
        try:
            return posted(URL, kept, b"picture", {"A": "b"})
        except InputError as error:
            return str(error)

    run.waits, run.sent = waits, sent
    return run


def test_what_is_sent_is_sent_anew_each_time(post):
    assert post(503, 200) == b"body 200"
    assert post.sent == [(URL, b"picture", {"A": "b"}, 60.0)] * 2 and post.taken == [URL] * 2


def test_a_busy_server_is_asked_again_and_no_other(post):
    """By what RFC 9110, 6585 and 8470 say of these: timeouts, too early, too many, and faults that may pass."""
    again = {408, 425, 429, 500, 502, 503, 504}
    for status in range(100, 600):
        found, asked = post(status, 200), 2 if status in again else 1
        refused = f"{URL}: expected an answer with status 200, got status {status}"
        assert found == (b"body 200" if status in (200, *again) else refused), status
        assert len(post.sent) == len(post.taken) == asked and post.waits == [0.5] * (asked - 1)


def test_pauses_double_and_none_follows_the_last_attempt(post):
    said = post(*[500] * 5)
    assert said.startswith(f"{URL}: expected an answer within 5 attempts, got status 500; ")
    assert post.waits == [0.5, 1.0, 2.0, 4.0] and len(post.sent) == 5


@pytest.mark.parametrize(
    ("after", "waits"),
    [
        ("3", 3.0),
        (" 7 ", 7.0),
        ("0", 0.5),
        ("59", 59.0),
        ("60", 60.0),
        ("61", 60.0),
        ("3600", 60.0),
        ("99999", 60.0),
        ("9" * 5000, 60.0),
        ("-5", 0.5),
        ("1.5", 0.5),
        ("soon", 0.5),
        ("\xb2", 0.5),
        ("\u0663", 0.5),
        ("", 0.5),
        (None, 0.5),
    ],
)
def test_a_server_may_ask_for_a_longer_pause_but_not_for_a_shorter_one_or_one_without_end(post, after, waits):
    assert post((429, after), 200) == b"body 200" and post.waits == [waits]


def test_what_a_server_asked_for_holds_for_one_pause(post):
    post((429, "3"), 500, (503, "1"), 200)
    assert post.waits == [3.0, 1.0, 2.0]


def test_every_attempt_is_counted_that_left_and_no_other(post):
    lost = [NoResponse("no route", left=False), NoResponse("cut", left=True), NoResponse("late", left=True)]
    assert post(*lost, 200) == b"body 200"
    assert len(post.taken) == 3 and post.waits == [0.5, 1.0, 2.0]
    said = post(*lost, NoResponse("x", left=False), NoResponse("the last", left=False))
    assert len(post.taken) == 2 and "within 5 attempts, got the last; what was answered is kept" in said


def test_long_waits_have_an_end_of_their_own(post, monkeypatch):
    monkeypatch.setattr(posting, "ATTEMPTS", 10)
    post(*[504] * 10)
    assert post.waits == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
