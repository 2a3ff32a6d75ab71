"""Plans: what would run, what it would cost, and what of it is reused."""

import shutil

import numpy as np
import pytest
from tiny import write_tiny

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.cluster.connection import ClusterFacts
from smoothsweep.orchestrator.commands.plan import expectation, plan_text
from smoothsweep.orchestrator.planning.costs import History
from smoothsweep.orchestrator.planning.plan import devices_held, make_plan, plan_summary, refuse_unfit
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.schema import Resources
from tests.orchestrator.planning.measured_stages import everything_of, pretend


def test_a_crop_larger_than_the_priors_images_is_refused_before_anything_starts(tmp_path, capsys):
    path = write_tiny(tmp_path, prior={"kind": "shipped"}, public=None)
    arguments = ["plan", str(path), "--store", str(tmp_path / "store"), "--set", "attack.pool.crop=800"]
    assert main(arguments) == 2
    assert "attack.pool.crop: expected at most the prior's 64 pixels, got 800" in capsys.readouterr().err


@pytest.fixture
def measured(tmp_path):
    """A store in which every stage of the first trial took an hour, and a plan of two trials more."""
    store = Store(root=tmp_path / "store")
    trials = trials_of(load_sweep(write_tiny(tmp_path), ["seeds=[1, 2]"]))
    for stage in everything_of(trials[:1]):
        pretend(store, stage, 3600.0)
    return store, trials


def test_a_plan_of_measured_stages_has_hours_dollars_and_what_is_reused(measured):
    store, trials = measured
    pretend(store, trials[1].stages[1], 7200.0)  # the target of the second cell: one hour to two hours from now on
    summary = plan_summary(make_plan(trials[:3], store), price=2.5)
    reused, target = summary["reused"], summary["by_stage"]["target"]
    assert (target["total"], target["cached"], target["to_run"]) == (4, 3, 1)
    assert (target["device_hours"], target["device_hours_range"]) == (1.5, [1.0, 2.0])
    assert reused["stages"] == summary["stages_cached"] and reused["device_hours"] >= reused["stages"]
    assert summary["device_hours"] == summary["stages_to_run"] + 0.5
    assert summary["dollars"] == 2.5 * summary["device_hours"]
    assert summary["dollars_range"] == [2.5 * hours for hours in summary["device_hours_range"]]
    assert summary["device_hours_range"] == [summary["stages_to_run"], summary["stages_to_run"] + 1]
    found = [
        summary,
        summary["reused"],
        *(row for kind in summary["by_stage"].values() for row in (kind, kind["reused"])),
    ]
    for cost in found:  # wherever device-hours stand, dollars stand beside them
        for hours in ("device_hours", "device_hours_range"):
            dollars = cost[hours.replace("device_hours", "dollars")]
            assert dollars == pytest.approx(2.5 * np.asarray(cost[hours])), (hours, cost)
    hours, dollars = expectation(summary)
    assert "measured on cpu" in hours and "between" in hours and "at $2.50 per device-hour" in dollars
    assert "would cost" in plan_text(summary)


def test_what_is_gone_is_told_where_it_is_not_needed_and_what_is_damaged_is_to_be_made_again(tmp_path):
    store = Store(root=tmp_path / "store")
    trials = trials_of(load_sweep(write_tiny(tmp_path)))[:1]
    for stage in everything_of(trials):
        pretend(store, stage, 1.0)
    whole = plan_summary(make_plan(trials, store), price=3.0)
    assert "needed" not in plan_text(whole).splitlines()[0]
    assert whole["device_hours"] == 0 and whole["dollars"] == 0
    assert expectation(whole) == ["expected device time: none, every stage is in the store"]
    by_name = {stage.name: stage for stage in everything_of(trials)}
    shutil.rmtree(store.place(by_name["candidates"]))
    summary = plan_summary(make_plan(trials, store))
    head = f"{whole['stages'] - 1} in the store, 0 to run, 1 neither there nor needed"
    assert head in plan_text(summary).splitlines()[0]
    (store.place(by_name["loot"]) / "manifest.json").write_text("{")  # damaged: listed, but to be made again
    plan = make_plan(trials, store)
    assert by_name["loot"].fingerprint in store.finished("loot") and not plan.is_complete(trials[0])
    assert [stage.name for stage in plan.missing] == ["loot"]


def test_tasks_that_share_a_gpu_hold_a_part_of_it_and_every_training_worker_a_whole_one(tmp_path):
    store = Store(root=tmp_path / "store")
    shares = ["resources.gpus_per_task=0.25", "resources.gpus_per_training=2"]
    trials = trials_of(load_sweep(write_tiny(tmp_path), shares))
    for stage in everything_of(trials[:1]):
        pretend(store, stage, 3600.0, device="cuda")
    by_stage = plan_summary(make_plan(trials, store))["by_stage"]
    assert by_stage["attack"]["device_hours"] == 0.25 and by_stage["target"]["device_hours"] == 2
    assert by_stage["data"]["reused"]["device_hours"] == 1
    spread = Stage(name="target", config={"workers": 4})
    assert devices_held(trials[0].settings, History())(spread) == 4


TRAINING, ATTACK = Stage(name="target", config={"workers": 1}), Stage(name="attack", config={})


def group(workers: int) -> Stage:
    return Stage(name="target", config={"workers": workers})


def facts(**changes) -> ClusterFacts:
    return ClusterFacts(**{"cpus": 8, "gpus": 0.0, "trial_slots": 16, "is_local": False, **changes})


@pytest.mark.parametrize(
    ("cluster", "resources", "stages", "words"),
    [
        (facts(), {}, [TRAINING, ATTACK], None),  # the default wish for GPUs is no demand
        (facts(), {"gpus_per_training": 0}, [TRAINING], None),
        (facts(is_local=True), {"gpus_per_training": 1}, [TRAINING], None),
        (facts(gpus=8, node_gpus=4), {"gpus_per_training": 4}, [TRAINING], None),
        (facts(gpus=8, node_gpus=4), {}, [group(8)], None),
        (facts(), {}, [group(8)], None),
        (facts(gpus=8), {"gpus_per_task": 0.25, "gpus_per_training": 8}, [ATTACK, TRAINING], None),
        (facts(gpus=8, node_gpus=1), {"gpus_per_training": 8}, [ATTACK], None),  # no training is left to do
        (facts(node_cpus=4), {"cpus_per_task": 5}, [], None),
        (facts(cpus=8, gpus=32), {"cpus_per_task": 12}, [ATTACK], None),  # machines that are yet to come may have more
        (facts(), {"gpus_per_training": 1}, [TRAINING], "gpus_per_training: expected a cluster with GPUs"),
        (facts(), {"gpus_per_task": 0.5}, [ATTACK], "gpus_per_task: expected a cluster with GPUs"),
        (facts(gpus=8, node_gpus=4), {"gpus_per_training": 8}, [TRAINING], "at most 4, which the largest machine has"),
        (facts(gpus=8), {"gpus_per_task": 16}, [ATTACK], "expected at most 8, which the cluster has, got 16"),
        (facts(gpus=8), {"gpus_per_task": 1.5}, [ATTACK], "expected at most 1 or a whole number, got 1.5"),
        (facts(gpus=4), {}, [TRAINING, group(5)], "workers: expected at most 4, the GPUs .* got 5 for the stage"),
        (facts(), {}, [group(9)], "workers: expected at most 8, the CPUs"),
        (facts(node_cpus=4), {"cpus_per_task": 5}, [ATTACK], "cpus_per_task: expected at most 4, .* got 5"),
    ],
)
def test_what_can_never_be_done_is_one_line(cluster, resources, stages, words):
    if words is None:
        refuse_unfit(cluster, Resources(**resources), stages)
        return
    with pytest.raises(InputError, match=words) as caught:
        refuse_unfit(cluster, Resources(**resources), stages)
    assert "\n" not in str(caught.value)
