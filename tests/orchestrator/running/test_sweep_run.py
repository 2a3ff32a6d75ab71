"""One call of `run`: what is planned is what is run, and what is told of it meanwhile and at its end."""

import dataclasses
import hashlib
import io
import random
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tiny import tiny_sweep, write_tiny

from smoothsweep.orchestrator.planning.costs import reference_s
from smoothsweep.orchestrator.planning.plan import make_plan
from smoothsweep.orchestrator.planning.state import SweepState
from smoothsweep.orchestrator.planning.trial import run_trial, trials_of
from smoothsweep.orchestrator.running.sweep_run import Display, SweepRun, _panel
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.load import load_sweep

EVERYTHING = {
    **tiny_sweep()["judges"],
    "features": {"classes": 2, "perplexity": 2},
    "robustness": {},
    "membership": {"shadows": 4},
    "gradients": {},
}


@pytest.mark.parametrize("judges", [{}, tiny_sweep()["judges"], EVERYTHING])
def test_what_a_trial_declares_is_what_is_run_once_each_and_inputs_first(judges, tmp_path):
    [trial] = trials_of(load_sweep(write_tiny(tmp_path, judges=judges, grid={}, baseline={})))
    ran: list[Stage] = []
    run_trial(trial, ran.append)
    assert len({stage.fingerprint for stage in ran}) == len(ran)
    assert {stage.fingerprint for stage in ran} == {stage.fingerprint for stage in trial.stages}
    place = {stage.fingerprint: number for number, stage in enumerate(ran)}
    for stage in ran:
        assert all(place.get(source.fingerprint, -1) < place[stage.fingerprint] for source in stage.inputs.values())


def test_ids_of_trials_are_those_of_the_declared_order(tmp_path):
    """Kept from before stages were run in an order of their own: an id stands in every MLflow run."""
    [trial] = trials_of(load_sweep(write_tiny(tmp_path, judges=EVERYTHING, grid={}, baseline={})))
    names = [stage.name for stage in trial.stages]
    assert names == [
        "data",
        "target",
        "attack",
        "loot",
        "judge_evaluator",
        "judge_embedder",
        "knowledge",
        "judge_features",
        "judge_robustness",
        "judge_membership",
        "judge_gradients",
    ]
    joined = " ".join(stage.fingerprint for stage in trial.stages)
    assert trial.id == hashlib.sha256(joined.encode()).hexdigest()[:12]


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


POLL_S, CORES = 5.0, 2


def begun(folder, *overrides: str) -> SweepRun:
    store, parts = open_store(str(folder)), dict.fromkeys(("recorder", "display", "meter"), None)
    plan = make_plan(trials_of(load_sweep(Path("sweeps/quickstart.yaml"), [*overrides])), store)
    plan = dataclasses.replace(plan, trials=[])  # nobody asks the empty store what the judges know
    return SweepRun(name="quickstart", plan=plan, store=store, **parts)


def moments(run: SweepRun, pace: float):
    """(seconds since the start, seconds left, whether a stage has ended since the last moment) of a simulated run."""
    draw, waiting = random.Random(0), [*run.plan.missing]
    busy: dict[str, tuple[Any, float, float]] = {}  # fingerprint -> stage, when it began, how long it takes
    now, ended = 0.0, False
    while waiting or busy:
        for stage, begun_at, takes in list(busy.values()):
            if now >= begun_at + takes:
                del busy[stage.fingerprint]
                run.worked[stage.fingerprint] += takes
                run.stage_done(stage.fingerprint, takes)
                ended = True
        while waiting and len(busy) < CORES:
            stage = waiting.pop(0)
            busy[stage.fingerprint] = (stage, now, pace * draw.uniform(0.5, 2.0) * (reference_s(stage) or 0.0))
        run.state.running = [{"fingerprint": key, "seconds": now - since} for key, (_, since, _) in busy.items()]
        run.forecast(CORES)
        yield now, run.state.seconds_left, ended
        now, ended = now + POLL_S, False


@pytest.mark.parametrize("pace", [1.0, 3.0])
def test_the_time_left_is_known_at_once_shrinks_at_every_moment_and_learns_the_machines_pace(tmp_path, pace):
    run = begun(tmp_path / "store")
    seen = list(moments(run, pace))
    assert seen[0][1] > 60 and run.state.unknown_stages == 0 and seen[-1][1] == 0.0
    assert all(now < before for (_, before, _), (_, now, ended) in pairwise(seen) if not ended)
    end = seen[-1][0]
    at, left, _ = seen[len(seen) // 4]
    assert left == pytest.approx(end - at, rel=0.4)


def test_a_stage_without_a_rate_is_counted_beside_the_time_of_the_others(tmp_path):
    run = begun(tmp_path / "store", "recipe.architecture=resnet18")
    run.forecast(CORES)
    assert run.state.seconds_left > 0 and run.state.unknown_stages == 12 + 12 + 24  # targets, candidates, attacks
    assert "48 stages of unknown length" in run.state.headline()
