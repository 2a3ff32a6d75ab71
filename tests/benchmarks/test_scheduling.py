"""The simulated cluster in cases whose outcome can be told on paper."""

import pytest

from benchmarks.scheduling import simulate
from smoothsweep.orchestrator.stages.stage import Stage


def waiting(seed, seconds, name="target"):
    return Stage(name=name, config={"seconds": seconds, "seed": seed})


def test_equal_trainings_fill_every_gpu():
    trials = [[waiting(seed, 3600.0)] for seed in range(32)]
    found = simulate(trials, devices=16, slots=32, device="num_gpus", start_s=0.0)
    assert found["hours"] == pytest.approx(2.0) and found["busy"] == pytest.approx(1.0)


def test_slots_hold_trials_back():
    trials = [[waiting(seed, 3600.0)] for seed in range(16)]
    found = simulate(trials, devices=16, slots=4, device="num_gpus", start_s=0.0)
    assert found["hours"] == pytest.approx(4.0) and found["busy"] == pytest.approx(0.25)


def test_starting_is_not_work():
    found = simulate([[waiting(0, 90.0)]], devices=8, slots=1, device="num_gpus", start_s=10.0)
    assert found["hours"] == pytest.approx(100 / 3600) and found["busy"] == pytest.approx(0.9 / 8)


def test_two_attack_tasks_share_a_gpu_and_a_stage_waits_for_its_input():
    target = waiting(0, 100.0)
    attack = Stage(name="attack", config={"seconds": 10.0, "classes": 64}, inputs={"target": target})
    found = simulate([[target, attack]], devices=8, slots=1, device="num_gpus", start_s=0.0)
    # 100 s of one GPU, then 64 groups of one class over 16 halves of a GPU: four rounds of 10 s
    assert found["hours"] == pytest.approx(140 / 3600)
    assert found["busy"] == pytest.approx((100 + 64 * 10 / 2) / (8 * 140))


def test_a_stage_of_two_trials_is_done_once():
    shared = waiting(0, 50.0)
    found = simulate([[shared], [shared]], devices=8, slots=2, device="num_gpus", start_s=0.0)
    assert found["hours"] == pytest.approx(50 / 3600) and found["busy"] == pytest.approx(1 / 8)
