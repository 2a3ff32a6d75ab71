"""What a person sees while a sweep runs."""

import io
import time

from rich.console import Console

from smoothsweep.orchestrator.planning.state import SweepState
from smoothsweep.orchestrator.running.sweep_run import Display, _panel


def entry(stage, at):
    return {"stage": stage, "fingerprint": f"{at:064x}", "fraction": 0.5, "since": time.time(), "text": "class 3"}


def state():
    found = SweepState(name="s", total_trials=4, total_stages=9, done_stages=2)
    found.running = [*(entry("loot", at) for at in range(3)), entry("judge_evaluator", 3), entry("pool", 4)]
    return found


def test_what_waits_for_a_device_is_not_said_to_run():
    found, stream = state(), io.StringIO()
    for one in found.running[1:4]:
        one["waits"] = "a free GPU"
    with Display(stream) as display:
        display.update(found)
    line = stream.getvalue().rstrip()
    assert line.endswith("candidate pool | waiting for a free GPU: reconstructions x2, judge evaluator")
    stream = io.StringIO()
    Console(file=stream, width=120).print(_panel(found))
    assert stream.getvalue().count("for a free GPU") == 3 and stream.getvalue().count("50 %") == 2
