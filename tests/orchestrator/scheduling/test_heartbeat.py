"""When a stage counts as silent: by a clock of our own, in seconds."""

from hypothesis import given
from hypothesis import strategies as st

from smoothsweep.orchestrator.scheduling.tasks_in_flight import QUIET_S, QUIET_TIMES, Heartbeat


def test_silence_is_told_after_five_minutes_once_and_again_when_it_has_doubled():
    signs = Heartbeat(last=0.0)
    told = [now for now in range(0, 3000, 10) if signs.is_worth_a_line(0.0, now)]
    assert told == [310, 630, 1270, 2550]


def test_what_is_usually_slow_is_given_more():
    signs = Heartbeat(last=0.0)
    for epoch in range(1, 4):
        signs.see({"text": f"epoch {epoch}"}, 200.0 * epoch)
    assert not signs.is_worth_a_line(0.0, 600 + QUIET_TIMES * 200)
    assert signs.is_worth_a_line(0.0, 601 + QUIET_TIMES * 200)


@given(st.lists(st.floats(0.1, 200.0), min_size=1, max_size=30))
def test_work_that_keeps_its_pace_is_never_called_silent(gaps):
    signs, now = Heartbeat(last=0.0), 0.0
    for number, gap in enumerate(gaps):
        assert not signs.is_worth_a_line(0.0, now + min(gap, QUIET_S))
        now += gap
        signs.see(number, now)
