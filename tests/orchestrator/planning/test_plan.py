"""Plans: what would run, in which order, what of it is reused, what it would cost; whether a driver is at work."""

import json
import math
import os
import shutil
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
from tiny import tiny_sweep, write_tiny

from benchmarks.sleeping import Sleep
from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.cluster.connection import ClusterFacts
from smoothsweep.orchestrator.commands.plan import expectation, plan_text
from smoothsweep.orchestrator.planning.costs import MACHINE, READ_AT_MOST, History, reference_s
from smoothsweep.orchestrator.planning.plan import devices_held, make_plan, plan_summary, refuse_unfit
from smoothsweep.orchestrator.planning.state import SweepState, other_driver, read_state, write_state
from smoothsweep.orchestrator.planning.trial import ProposalLog, Trial, run_trial, stages_to_start_early, trials_of
from smoothsweep.orchestrator.search.agenda import forecast_of
from smoothsweep.orchestrator.stages.stage import Stage, with_ancestors
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.expand import Cell, expand
from smoothsweep.sweeps.load import load_sweep, shipped_sweeps
from smoothsweep.sweeps.schema import InversionSweep, Resources


def pretend(store, stage, seconds, device="cpu"):
    inputs = {name: {"stage": source.name, "fingerprint": source.fingerprint} for name, source in stage.inputs.items()}
    manifest = {**stage.identity(), "inputs": inputs, "metrics": {}, "seconds": seconds, "device": device}
    store.commit(stage, store.draft(stage), manifest)


def everything_of(trials):
    return with_ancestors([stage for trial in trials for stage in trial.stages])


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


TARGET = Stage(name="target", config={"architecture": "resnet_small", "epochs": 2})


def test_a_forecast_is_the_mean_between_the_least_and_the_most_and_else_what_its_kind_took():
    history, other = History(), Stage(name="target", config={"architecture": "resnet_small", "epochs": 77})
    assert history.usual("target") is None
    for seconds in (4.0, 1.0, 7.0):
        history.add_stage(TARGET, seconds)
    assert history.expected(TARGET) == (4.0, 1.0, 7.0) and history.expected(other) is None
    attack = Stage(name="attack", config={"kind": "ppa", "classes": "all"})
    assert history.total([TARGET, attack], lambda stage: 2.0) == (8.0, 2.0, 14.0, 0.0, 1)
    assert history.total([TARGET, TARGET]) == (8.0, 2.0, 14.0, 0.0, 0)
    assert history.usual("target") == 4.0 and history.usual("attack") is None


def known_cost(store, sweep, change, name):
    trial = trials_of(load_sweep(sweep, [change]))[0]
    stage = next(s for s in everything_of([trial]) if s.name == name)
    return History(store).expected(stage)


@pytest.mark.parametrize(
    ("name", "alike", "other"),
    [
        ("target", "recipe.defense.alpha=0.3", "data.train_per_class=9"),
        ("target", "recipe.lr=0.3", "recipe.epochs=3"),
        ("target", "seeds=[5]", 'recipe.defense={"kind": "random_erasing"}'),
        ("target", "data.seed=3", "recipe.image_size=64"),
        ("attack", "seeds=[5]", "attack.steps=4"),
        ("attack", "attack.lr=0.2", "attack.pool.size=21"),
        ("attack", "recipe.epochs=3", "recipe.architecture=resnet18"),
        ("attack", "attack.lr=0.1", "prior.components=11"),
        ("attack", "classes=[0, 1, 2, 3]", "classes=[0, 1]"),
    ],
)
def test_what_a_stage_reads_counts_for_its_cost(name, alike, other, tmp_path):
    changes = {"classes": [0, 1, 2, 3], "grid": {}, "baseline": {}}
    sweep, store = write_tiny(tmp_path, **changes), Store(root=tmp_path / "store")
    for stage in everything_of(trials_of(load_sweep(sweep))):
        pretend(store, stage, 7.0)
    assert known_cost(store, sweep, alike, name) == (7.0, 7.0, 7.0)
    assert known_cost(store, sweep, other, name) is None


def test_measurements_outlive_their_inputs(tmp_path):
    """Inputs of finished stages may be deleted; what reading them cost is still known."""
    store = Store(root=tmp_path / "store")
    trials = trials_of(load_sweep(write_tiny(tmp_path)))
    pretend(store, trials[0].stages[2], 9.0)
    row = plan_summary(make_plan(trials, store))["by_stage"]["attack"]
    assert (row["cached"], row["to_run"], row["device_hours"]) == (1, 1, 9.0 / 3600)


def test_damaged_and_unfinished_manifests_are_measurements_less_and_the_newest_are_read(tmp_path):
    store = Store(root=tmp_path / "store")
    for n in range(READ_AT_MOST + 3):
        stage = Sleep(config={"seed": n})
        pretend(store, stage, n)
        os.utime(store.place(stage) / "manifest.json", (1000 + n, 1000 + n))
    mean, least, most = History(store).expected(Sleep(config={}))
    assert (least, most) == (3.0, READ_AT_MOST + 2.0) and math.isclose(mean, (least + most) / 2)
    (store.place(stage) / "manifest.json").write_text("{")
    (store.place(Sleep(config={"seed": n - 1})) / "manifest.json").unlink()
    assert History(store).expected(stage)[2] == READ_AT_MOST


def stages_of(loaded):
    """Kind -> a stage of it: of the first trial its own, the target that is attacked for one."""
    first = trials_of(loaded)[0]
    return {stage.name: stage for stage in (*with_ancestors(first.stages), *first.stages)}


def test_the_quickstart_is_told_before_anything_is_measured(tmp_path, capsys):
    """One `make demo` took 17.7 device-minutes in its stages."""
    store = str(tmp_path / "store")
    assert main(["plan", "quickstart", "--store", store, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["stages"] == 151 and told["stages_of_unknown_cost"] == told["measured_device_hours"] == 0
    assert 60 * told["device_hours"] == pytest.approx(13.1, rel=0.15)
    assert told["device_hours"] == told["rated_device_hours"]
    assert main(["plan", "quickstart", "--store", store]) == 0
    said = capsys.readouterr().out
    assert f"from another machine ({MACHINE})" in said and "unknown" not in said
    assert "the sweep file says: two CPU cores, 6 GiB of memory, about 13 CPU minutes." in said
    assert main(["plan", "quickstart", "--store", store, "--set", "seeds=[1]"]) == 0
    assert "sweep file says" not in capsys.readouterr().out, "it says so of the file, not of what was made of it"


@pytest.mark.parametrize(
    ("change", "kind", "times"),
    [
        ({"recipe.epochs": 4}, "target", 2.0),
        ({"data.train_per_class": 16}, "target", 2.0),
        ({"recipe.image_size": 64}, "target", 4.0),
        ({"attack.candidates": 8}, "attack", 2.0),
        ({"attack.steps": 6}, "attack", 22 / 13),
        ({"data.identities": 8}, "attack", 2.0),
        ({"classes": [0, 1]}, "attack", 0.5),
        ({"attack.selected": 4}, "loot", 2.0),
        ({"public.identities": 120}, "prior", 2.0),
        ({"judges.knowledge.epochs": 4}, "knowledge", 2.0),
    ],
)
def test_the_time_grows_as_the_work_does(change, kind, times, tmp_path):
    path = write_tiny(tmp_path, grid={}, baseline={})
    before = stages_of(load_sweep(path))[kind]
    after = stages_of(load_sweep(path, [f"{key}={json.dumps(value)}" for key, value in change.items()]))[kind]
    assert reference_s(after) == pytest.approx(times * reference_s(before))


def test_where_the_rates_tell_a_part_the_plan_tells_that_part_and_how_many_stages_are_unknown(tmp_path, capsys):
    """Of four targets one has a defense that nobody has measured: the three others are told."""
    defenses = [{"kind": "label_smoothing", "alpha": alpha} for alpha in (0.0, 0.1, -0.2)] + [{"kind": "at_at"}]
    path = write_tiny(
        tmp_path, grid={"recipe.defense": defenses}, baseline={}, seeds=[1], judges={"embedder": {"name": "synthetic"}}
    )
    loaded = load_sweep(path)
    store = Store(root=tmp_path / "store")
    plan = make_plan(trials_of(loaded), store)
    known = [reference_s(stage) for stage in plan.stages if reference_s(stage) is not None]
    unknown = len(plan.stages) - len(known)
    summary = plan_summary(plan)
    assert summary["device_hours"] is None and 0 < unknown == summary["stages_of_unknown_cost"]
    assert summary["rated_device_hours"] == pytest.approx(sum(known) / 3600)
    assert summary["by_stage"]["target"]["stages_of_unknown_cost"] == 1
    assert main(["plan", str(path), "--store", str(tmp_path / "store")]) == 0
    (said,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("expected device time: ")]
    stages = "1 stage" if unknown == 1 else f"{unknown} stages"
    assert said.endswith(f"from another machine ({MACHINE}) + unknown ({stages} never measured)")
    assert main(["run", str(path), "--store", str(tmp_path / "store")]) == 2
    assert f"the cost of {stages} is unknown: expected --yes" in capsys.readouterr().err


def test_a_search_that_has_not_begun_is_told_by_the_rates_and_never_above_its_budget(tmp_path):
    store, sweep = Store(root=tmp_path / "store"), shipped_sweeps()["search_schedules"]
    told = {}
    for hours in (2.0, 0.25):
        loaded = load_sweep(sweep, [f"budget.device_hours={hours}", "reaudit=null"])
        proposed = ProposalLog(loaded, store)
        told[hours] = plan_summary(make_plan([], store, forecast_of(proposed)))
    whole = told[2.0]
    assert whole["device_hours"] == whole["search"]["device_hours"] == whole["rated_device_hours"]
    quickstart = load_sweep(shipped_sweeps()["quickstart"])
    training = reference_s(stages_of(quickstart)["target"])  # the same network, people and epochs
    assert 24 * 2 * training < 3600 * whole["device_hours"] < 2 * 24 * 2 * training
    assert told[0.25]["device_hours"] == 0.25


def planned(capsys, tmp_path, sweep, *more):
    assert main(["plan", sweep, "--store", str(tmp_path / "store"), *more]) == 0
    return capsys.readouterr().out


def test_table_1_says_gpu_hours_before_anything_is_there(capsys, tmp_path):
    """530 people, 200 candidates each, under five recipes and three seeds, at 14 h for 25,000."""
    text = planned(capsys, tmp_path, "table1_facescrub")
    line = "attacks: 15 x about 60 A100-hours (106,000 latents of 50 steps each): about 900 GPU-hours, 9 days on four"
    assert line in text.splitlines() and "$" not in text
    assert "the authors' issue tracker, see docs/cluster.md" in text
    assert "counts of facescrub are from its card: 530 identities (the paper, Sec. 4.1)" in text
    assert "prior.path: nothing at " in text and "data.path: nothing at " in text
    assert not (tmp_path / "store").exists()
    found = json.loads(planned(capsys, tmp_path, "table1_facescrub", "--json", "--price", "2"))["stated_cost"]
    assert found["gpu_hours"] == pytest.approx(5 * 3 * 530 * 200 * 14 / 25000)
    assert found["dollars"] == pytest.approx(2 * found["gpu_hours"])
    less = json.loads(planned(capsys, tmp_path, "table1_facescrub", "--json", "--set", "classes=[0,1,2,3,4]"))
    assert less["stated_cost"]["gpu_hours"] == pytest.approx(found["gpu_hours"] / 106) and "dollars" not in less
    smaller = json.loads(planned(capsys, tmp_path, "table1_facescrub", "--json", "--set", "attack.pool.crop=400"))
    assert smaller["stated_cost"] is None, "a smaller prior has no stated hours"


def trial(axes=(), phase="sweep", seed=3, settings=None, **changes):
    made = settings or InversionSweep.model_validate(tiny_sweep(grid={}, baseline={}, **changes))
    return Trial(cell=Cell(axes=dict(axes), settings=made, is_baseline=False), seed=seed, phase=phase)


@pytest.mark.parametrize(
    ("given", "label"),
    [
        ({}, "seed 3"),
        ({"axes": {"alpha": -0.2, "loss": "poincare"}}, "alpha -0.2 · loss poincare · seed 3"),
        ({"axes": {"alpha": 0.0, "schedule": None}}, "alpha 0.0 · seed 3"),
        ({"phase": "proxy"}, "seed 3 · proxy"),
        ({"axes": {"alpha": 0.1}, "phase": "reaudit"}, "alpha 0.1 · seed 3 · reaudit"),
    ],
)
def test_a_label_has_the_axes_that_are_set_the_seed_and_an_unusual_phase(given, label):
    assert trial(**given).label == label


def test_whole_attacks_recipes_and_defenses_are_said_in_their_own_words(tmp_path):
    grid = {
        "recipe.defense": [{"kind": "label_smoothing", "alpha": -0.2}, {"kind": "dropout", "p": 0.3}],
        "attack": [tiny_sweep()["attack"], {"kind": "random_latents", "selected": 2}],
    }
    cells = expand(load_sweep(write_tiny(tmp_path, grid=grid, baseline={})))
    labels = [Trial(cell=cell, seed=1).label for cell in cells]
    assert labels[1] == "smoothing\u00a0\u22120.2 · random latents · seed 1"
    assert labels[2] == f"dropout\u00a00.3 · {cells[2].settings.attack.words} · seed 1" and len(labels) == 4


def verified():
    """The tiny sweep's judges, with verification and the prior's reach beside the embedder."""
    judges = tiny_sweep()["judges"]
    return {**judges, "embedder": {**judges["embedder"], "verify": None}}


def test_stages_run_in_the_order_in_which_they_are_needed():
    ran = []
    asked = trial(judges=verified())
    run_trial(asked, ran.append)
    names = [stage.name for stage in ran]
    judges = ["judge_evaluator", "judge_embedder", "knowledge", "judge_verification"]
    assert names == ["data", "target", "judge_prior_reach", "attack", "loot", *judges]  # the reach needs no attack
    assert {stage.fingerprint for stage in ran} == {stage.fingerprint for stage in asked.stages}
    ran.clear()
    run_trial(trial(judges={}), ran.append)
    assert [stage.name for stage in ran] == ["data", "target", "attack", "loot"]


def test_what_judges_alone_need_is_asked_for_early_and_nothing_that_the_attack_needs():
    stages = trial().stages
    early = stages_to_start_early(stages)
    by_name = {stage.name: stage for stage in stages}
    assert by_name["judge_evaluator"].inputs["evaluator"] in early
    needed = {one.fingerprint for one in with_ancestors([by_name["attack"]])}
    assert early and not {one.fingerprint for one in early} & needed
    assert not any("attack" in {below.name for below in with_ancestors([one])} for one in early)
    assert stages_to_start_early(trial(judges={}).stages) == []


@pytest.fixture
def store(tmp_path):
    store = open_store(str(tmp_path))
    write_state(store, "s", SweepState(name="s", total_stages=1, done_stages=0, total_trials=1), {}, finished=False)
    return store


def change(store, **entries):
    state = json.loads(store.read_note("s", "state.json"))
    store.write_note("s", "state.json", json.dumps({**state, **entries}).encode())


def test_this_driver_is_no_other(store):
    assert other_driver(store, "s") is None and other_driver(store, "never ran") is None


def test_another_process_here_counts_if_it_is_a_driver(store):
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    with subprocess.Popen([*command, "orchestrator"]) as driver, subprocess.Popen(command) as stranger:
        change(store, pid=driver.pid)
        line = other_driver(store, "s")
        change(store, pid=stranger.pid)  # the number of a dead driver, used again
        assert not read_state(store, "s")["alive"]
        driver.kill()
        stranger.kill()
    assert line.startswith(f"another driver (process {driver.pid} on {socket.gethostname()}) is at work on s")
    change(store, pid=driver.pid)
    assert other_driver(store, "s") is None


@pytest.mark.parametrize(("ago", "alive"), [(10, True), (-10, True), (300, False), (-7200, False)])
def test_elsewhere_only_a_state_of_about_now_counts(store, ago, alive):
    """A state two hours ahead was written before a clock was set back: its driver may be long dead."""
    change(store, host="elsewhere", place="elsewhere-01234567", pid=os.getpid(), time=time.time() - ago)
    assert (other_driver(store, "s") is not None) == alive
    change(store, host=socket.gethostname(), place=f"{socket.gethostname()}-01234567")  # a container of our host name
    assert (other_driver(store, "s") is not None) == alive
