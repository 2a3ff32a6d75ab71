"""The file of answers: several of them, budget and pace that change, a clock of the test's own."""

import pytest

from smoothsweep.core.errors import InputError
from smoothsweep.core.external import answers
from smoothsweep.core.external.answers import KeptAnswers


class Clock:
    """Stands for `time`: nothing waits, and what was waited for is noted."""

    def __init__(self):
        self.now, self.waits = 1000.0, []

    def time(self):
        return self.now

    def sleep(self, seconds):
        self.waits.append(round(seconds, 6))
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(answers, "time", made)
    return made


@pytest.fixture
def kept(tmp_path):
    found = KeptAnswers(tmp_path / "a" / "b" / "kept.sqlite", more="--more-of-it")
    found.agree(queries=4, per_second=2.0)
    return found


def test_each_answer_is_found_under_its_own_digest_and_the_last_one_counts(kept):
    for digest, answer in (("one", [0.25, 0.75]), ("two", 3), ("three", "yes"), ("two", 4)):
        kept.put(digest, answer)
    again = KeptAnswers(kept.path)
    assert [again.get(digest) for digest in ("one", "two", "three", "four")] == [[0.25, 0.75], 4, "yes", None]


def test_turns_are_half_a_second_apart_also_after_a_pause_and_for_another_reader(kept, clock):
    """2 per second: at 1000, 1000.5, 1001; a turn that is late moves those after it, none is saved up."""
    for reader in (kept, KeptAnswers(kept.path), kept):
        reader.take_turn("here")
    assert clock.waits == [0.0, 0.5, 0.5]
    clock.now = 1010.0
    kept.agree(queries=9, per_second=2.0)
    for _ in range(3):
        kept.take_turn("here")
    assert clock.waits[3:] == [0.0, 0.5, 0.5] and kept.asked == 6


def test_a_later_agreement_changes_budget_and_pace_and_keeps_what_was_asked(kept, clock):
    for _ in range(3):
        kept.take_turn("here")
    kept.agree(queries=5, per_second=10.0)
    kept.agree(queries=5, per_second=10.0)
    waits = len(clock.waits)
    assert kept.asked == 3
    clock.now += 100
    kept.take_turn("here")
    kept.take_turn("here")
    assert clock.waits[waits:] == [0.0, 0.1]
    line = "^here: expected no more than 5 queries, got one after all were spent: .*say more with --more-of-it"
    with pytest.raises(InputError, match=line):
        kept.take_turn("here")
    assert kept.asked == 5, "what was refused is not counted"


def test_a_turn_given_back_may_be_taken_again_and_none_is_given_back_twice(kept, clock):
    for _ in range(4):
        kept.take_turn("here")
    kept.give_turn_back()
    assert kept.asked == 3
    kept.take_turn("here")
    for left in (3, 2, 1, 0, 0, 0):
        kept.give_turn_back()
        assert kept.asked == left


def test_a_fault_while_the_file_is_open_leaves_it_as_it_was(kept, clock, monkeypatch):
    """Nothing is counted half: the one transaction is rolled back, and the next reader is not locked out."""
    monkeypatch.setattr(clock, "time", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        kept.take_turn("here")
    assert kept.asked == 0
    monkeypatch.setattr(clock, "time", lambda: 5.0)
    kept.take_turn("here")
    assert kept.asked == 1


def test_a_file_that_is_gone_is_one_line_and_is_not_made(tmp_path):
    gone = KeptAnswers(tmp_path / "gone.sqlite")
    for look in (lambda: gone.get("x"), lambda: gone.put("x", 1), lambda: gone.asked, lambda: gone.take_turn("here")):
        with pytest.raises(InputError, match=r"gone\.sqlite: expected an endpoint's answers, got nothing"):
            look()
    assert not gone.path.exists()
