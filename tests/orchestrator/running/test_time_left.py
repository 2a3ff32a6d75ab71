"""The time left of a run: known from the first moment by the shipped rates, and never still while something runs."""

import dataclasses
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from smoothsweep.orchestrator.planning.costs import reference_s
from smoothsweep.orchestrator.planning.plan import make_plan
from smoothsweep.orchestrator.planning.proposals import trials_of
from smoothsweep.orchestrator.running.sweep_run import SweepRun
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.load import load_sweep

POLL_S, CORES = 5.0, 2


def begun(folder, *overrides: str) -> SweepRun:
    store, parts = open_store(str(folder)), dict.fromkeys(("recorder", "display", "meter"), None)
    plan = make_plan(trials_of(load_sweep(Path("sweeps/quickstart.yaml"), [*overrides])), store)
    plan = dataclasses.replace(plan, trials=[])  # nobody asks the empty store what the judges know
    return SweepRun(name="quickstart", plan=plan, store=store, resources={}, **parts)


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
