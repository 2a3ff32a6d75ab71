"""Plans: what would run, what of it is reused, what it would cost and can tell; whether a driver is at work."""

import json
import math
import os
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

from benchmarks.sleeping import Sleep
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.columns import BY_KEY
from smoothsweep.core.metrics.power import QUICKSTART, Design, components_of, planned
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.cluster.connection import ClusterFacts
from smoothsweep.orchestrator.commands.plan import expectation, plan_text
from smoothsweep.orchestrator.planning.costs import MACHINE, READ_AT_MOST, History, reference_s
from smoothsweep.orchestrator.planning.plan import devices_held, make_plan, plan_summary, refuse_unfit
from smoothsweep.orchestrator.planning.power import measured, size_of
from smoothsweep.orchestrator.planning.state import SweepState, other_driver, read_state, write_state
from smoothsweep.orchestrator.planning.trial import ProposalLog, Trial, stages_to_start_early, trials_of
from smoothsweep.orchestrator.search.agenda import forecast_of
from smoothsweep.orchestrator.stages.stage import Stage, with_ancestors
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.expand import Cell, expand
from smoothsweep.sweeps.load import load_sweep, shipped_sweeps
from smoothsweep.sweeps.schema import InversionSweep, Resources
from tests.labelled_files import encoded, folders, scene
from tests.made_stores import commit, finish, stages_of
from tests.tiny import tiny_sweep, write_tiny


def pretend(store, stage, seconds, device="cpu"):
    commit(store, stage, seconds=seconds, device=device)


@pytest.fixture
def hour_each(tmp_path):
    """A store in which every stage of the first trial took an hour, and a plan of two trials more."""
    store = Store(root=tmp_path / "store")
    trials = trials_of(load_sweep(write_tiny(tmp_path), ["seeds=[1, 2]"]))
    for stage in stages_of(trials[:1]):
        pretend(store, stage, 3600.0)
    return store, trials


def test_a_plan_of_measured_stages_has_hours_dollars_and_what_is_reused(hour_each):
    store, trials = hour_each
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


TRAINING, ATTACK = Stage(name="target", config={"workers": 1}), Stage(name="attack", config={})


def test_tasks_that_share_a_gpu_hold_a_part_of_it_and_every_training_worker_a_whole_one(tmp_path):
    store = Store(root=tmp_path / "store")
    shares = ["resources.gpus_per_task=0.25", "resources.gpus_per_training=2"]
    trials = trials_of(load_sweep(write_tiny(tmp_path), shares))
    for stage in stages_of(trials[:1]):
        pretend(store, stage, 3600.0, device="cuda")
    by_stage = plan_summary(make_plan(trials, store))["by_stage"]
    assert by_stage["attack"]["device_hours"] == 0.25 and by_stage["target"]["device_hours"] == 2
    assert by_stage["data"]["reused"]["device_hours"] == 1
    spread = Stage(name="target", config={"workers": 4})
    assert devices_held(trials[0].settings, History())(spread) == 4


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


def known_cost(store, sweep, change, name):
    trial = trials_of(load_sweep(sweep, [change]))[0]
    stage = next(s for s in stages_of([trial]) if s.name == name)
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
    for stage in stages_of(trials_of(load_sweep(sweep))):
        pretend(store, stage, 7.0)
    assert known_cost(store, sweep, alike, name) == (7.0, 7.0, 7.0)
    assert known_cost(store, sweep, other, name) is None


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


def by_kind(loaded):
    """Kind -> a stage of it: of the first trial its own, the target that is attacked for one."""
    first = trials_of(loaded)[0]
    return {stage.name: stage for stage in (*with_ancestors(first.stages), *first.stages)}


def test_the_quickstart_is_told_before_anything_is_measured(tmp_path, capsys):
    """One `make demo` took 8.4 device-minutes in its stages."""
    store = str(tmp_path / "store")
    assert main(["plan", "quickstart", "--store", store, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["stages"] == 151 and told["stages_of_unknown_cost"] == told["measured_device_hours"] == 0
    assert 60 * told["device_hours"] == pytest.approx(6.0, rel=0.15)
    assert told["device_hours"] == told["rated_device_hours"]
    assert main(["plan", "quickstart", "--store", store]) == 0
    said = capsys.readouterr().out
    assert f"from another machine ({MACHINE})" in said and "unknown" not in said
    assert "the sweep file says: two CPU cores, 6 GiB of memory, about 8 CPU minutes." in said
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
    before = by_kind(load_sweep(path))[kind]
    after = by_kind(load_sweep(path, [f"{key}={json.dumps(value)}" for key, value in change.items()]))[kind]
    assert reference_s(after) == pytest.approx(times * reference_s(before))


def test_a_search_that_has_not_begun_is_told_by_the_rates_and_never_above_its_budget(tmp_path):
    store, sweep = Store(root=tmp_path / "store"), shipped_sweeps()["search_schedules"]
    told = {}
    for hours in (2.0, 0.25):
        loaded = load_sweep(sweep, [f"budget.device_hours={hours}", "reaudit=null"])
        proposed = ProposalLog(loaded, store)
        told[hours] = plan_summary(make_plan([], store, forecast_of(proposed)))
    whole = told[2.0]
    assert whole["device_hours"] == whole["search"]["device_hours"] == whole["rated_device_hours"]
    quickstart = load_sweep(shipped_sweeps()["quickstart"], ["recipe.epochs=48"])
    training = reference_s(by_kind(quickstart)["target"])  # the same network, people and epochs
    assert 24 * 2 * training < 3600 * whole["device_hours"] < 2 * 24 * 2 * training
    assert told[0.25]["device_hours"] == 0.25


def plan_said(capsys, tmp_path, sweep, *more):
    assert main(["plan", sweep, "--store", str(tmp_path / "store"), *more]) == 0
    return capsys.readouterr().out


def test_table_1_says_gpu_hours_before_anything_is_there(capsys, tmp_path):
    """530 people, 200 candidates each, under five recipes and three seeds, at 14 h for 25,000."""
    text = plan_said(capsys, tmp_path, "table1_facescrub")
    line = "attacks: 15 x about 60 A100-hours (106,000 latents of 50 steps each): about 900 GPU-hours, 9 days on four"
    assert line in text.splitlines() and "$" not in text
    assert "the authors' issue tracker, see docs/cluster.md" in text
    assert "counts of facescrub are from its card: 530 identities (the paper, Sec. 4.1)" in text
    assert "prior.path: nothing at " in text and "data.path: nothing at " in text
    assert not (tmp_path / "store").exists()
    found = json.loads(plan_said(capsys, tmp_path, "table1_facescrub", "--json", "--price", "2"))["stated_cost"]
    assert found["gpu_hours"] == pytest.approx(5 * 3 * 530 * 200 * 14 / 25000)
    assert found["dollars"] == pytest.approx(2 * found["gpu_hours"])
    less = json.loads(plan_said(capsys, tmp_path, "table1_facescrub", "--json", "--set", "classes=[0,1,2,3,4]"))
    assert less["stated_cost"]["gpu_hours"] == pytest.approx(found["gpu_hours"] / 106) and "dollars" not in less
    smaller = json.loads(plan_said(capsys, tmp_path, "table1_facescrub", "--json", "--set", "attack.pool.crop=400"))
    assert smaller["stated_cost"] is None, "a smaller prior has no stated hours"


def trial(axes=(), phase="sweep", seed=3, settings=None, **changes):
    made = settings or InversionSweep.model_validate(tiny_sweep(grid={}, baseline={}, **changes))
    return Trial(cell=Cell(axes=dict(axes), settings=made, is_baseline=False), seed=seed, phase=phase)


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


GRID = {"recipe.defense.alpha": [0.0, -0.1, -0.2], "attack.steps": [3, 5]}
JUDGES = {"embedder": {"name": "synthetic"}}
DATA = {"kind": "synthetic", "identities": 60, "train_per_class": 8, "test_per_class": 4, "size": 32}


def sweep(tmp_path, **changes):
    usual = {"seeds": [1, 2, 3], "grid": GRID, "judges": JUDGES, "data": DATA, "classes": list(range(24))}
    return write_tiny(tmp_path, **{**usual, **changes})


def plan(tmp_path, capsys, *more, **changes):
    assert main(["plan", str(sweep(tmp_path, **changes)), "--store", str(tmp_path / "store"), *more]) == 0
    return capsys.readouterr().out


def test_the_size_of_the_sweep_is_what_its_comparisons_count(tmp_path, capsys):
    """Three recipes, two attacks and a control that is none, three seeds, 24 of 60 classes, two images of each."""
    attacks = [{"pool": {"size": 20}, "candidates": 4, "selected": 2, "steps": steps} for steps in (3, 5)]
    grid = {**GRID, "attack": [*attacks, {"kind": "random_latents", "selected": 2}]}
    del grid["attack.steps"]
    power = json.loads(plan(tmp_path, capsys, "--json", grid=grid))["power"]
    size = {key: power[key] for key in ("seeds", "classes", "recipes", "attacks", "images", "classes_available")}
    assert size == {"seeds": 3, "classes": 24, "recipes": 3, "attacks": 2, "images": 2, "classes_available": 60}
    expected = planned(QUICKSTART, Design(seeds=3, classes=24, recipes=3, attacks=2, images=2))
    assert (power["tells"], power["half_width"]) == (expected.tells, expected.half)
    assert power["components"]["trials"] == 0 and power["leak"] == "embedder_acc1"
    text = plan(tmp_path, capsys, grid=grid)
    smallest = f"differences of {math.ceil(100 * expected.tells)} points or more"
    assert f"with 3 seeds and 24 classes this sweep can detect {smallest}" in text
    assert "as in the quickstart: no finished trials" in text and "for 10 points: " in text


@pytest.mark.parametrize("tell", ["0", "nan", "101", "ten"])
def test_a_difference_that_is_none_is_refused(tell, tmp_path, capsys):
    assert main(["plan", str(sweep(tmp_path)), f"--tell={tell}", "--store", str(tmp_path / "store")]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line == f"smoothsweep: --tell: expected percentage points above 0 and at most 100, got '{tell}'"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seeds": [1]}, "expected a sweep of at least 2 seeds, got 1"),
        ({"classes": [3]}, "expected a sweep of at least 2 classes, got 1"),
        ({"grid": {"attack.steps": [3, 5]}, "baseline": {}}, "expected a sweep of at least 2 recipes, got 1"),
        ({"judges": {}}, "no judge counts hits by class"),
        (
            {
                "attack": None,
                "prior": None,
                "public": None,
                "judges": {},
                "classes": "all",
                "grid": {"recipe.defense.alpha": [0.0, -0.1]},
            },
            "no attack is compared",
        ),
    ],
)
def test_a_sweep_that_can_tell_nothing_says_so_and_refuses_the_question(changes, words, tmp_path, capsys):
    text = plan(tmp_path, capsys, **changes)
    assert (f"this sweep can detect no difference between recipes: {words}" in text) == ("no attack" not in words)
    assert main(["plan", str(sweep(tmp_path, **changes)), "--tell", "10", "--store", str(tmp_path / "store")]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line == f"smoothsweep: --tell 10: {words}"


LEAK = BY_KEY["embedder_acc1"]
ALPHAS, STEPS, SEEDS, IMAGES = [0.0, -0.2, -0.5], [3, 5], [1, 2, 3], 4


def trials_in(tmp_path, **changes):
    grid = {"recipe.defense.alpha": ALPHAS, "attack.steps": STEPS}
    attack = {"pool": {"size": 20}, "candidates": 8, "selected": IMAGES}
    sweep = {"seeds": SEEDS, "grid": grid, "attack": attack, "judges": JUDGES, **changes}
    return trials_of(load_sweep(write_tiny(tmp_path, **sweep)))


@pytest.fixture
def store_of_power(tmp_path):
    return Store(root=tmp_path / "store")


@pytest.fixture
def cells():
    """[recipes, attacks, seeds, classes] of fractions of four images."""
    return np.random.default_rng(4).integers(0, IMAGES + 1, (3, 2, 3, 30)) / IMAGES


def of(cells):
    def rates(trial):
        values = trial.cell.values
        return cells[
            ALPHAS.index(values["recipe.defense.alpha"]), STEPS.index(values["attack.steps"]), SEEDS.index(trial.seed)
        ]

    return rates


def people_of(trial):
    return next(stage for stage in trial.stages if stage.name == "target").inputs["data"].fingerprint


def test_they_are_those_of_the_cells_attack_by_attack_and_too_few_trials_say_nothing(tmp_path, store_of_power, cells):
    trials = trials_in(tmp_path)
    assert measured(store_of_power, LEAK, None) is None
    # Two recipes under three seeds leave two degrees of freedom.
    finish(store_of_power, [t for t in trials if t.cell.values["recipe.defense.alpha"] != -0.5], of(cells))
    assert measured(store_of_power, LEAK, None) is None
    finish(store_of_power, [t for t in trials if t.cell.values["recipe.defense.alpha"] == -0.5], of(cells))
    found = measured(store_of_power, LEAK, people_of(trials[0]))
    assert (found.trials, found.same_data) == (18, True)
    by_attack = [components_of(cells[:, [attack]], images=IMAGES) for attack in (0, 1)]
    for name in ("seed", "person", "cell", "image"):
        squares = [getattr(one, name) ** 2 for one in by_attack]
        assert getattr(found.components, name) ** 2 == pytest.approx(np.mean(squares))
    judge = next(stage for stage in trials[0].stages if stage.name == "judge_embedder")
    (store_of_power.place(judge) / "per_class.parquet").write_bytes(b"no parquet")
    damaged = measured(Store(root=store_of_power.root), LEAK, people_of(trials[0]))
    assert damaged.trials == 15, "of the three recipes under one attack, two seeds remain: 6 and 9"


def size(tmp_path, **changes):
    loaded = load_sweep(write_tiny(tmp_path, **{"judges": {"embedder": {"name": "synthetic"}}, **changes}))
    return size_of(loaded, expand(loaded))


def counted(found):
    return found.design.classes, found.available


def test_classes_are_counted_without_reading_a_picture(tmp_path):
    data = {"kind": "synthetic", "identities": 9, "train_per_class": 8, "size": 32}
    assert counted(size(tmp_path, data=data)) == (9, 9)
    assert counted(size(tmp_path, data=data, classes=[1, 4])) == (2, 9)
    own = folders(tmp_path / "own", {f"{who}/{i}.png": encoded(scene(9 * who + i)) for who in range(5) for i in (0, 1)})
    data = {"kind": "labelled", "path": str(own), "size": 32}
    assert counted(size(tmp_path, data=data)) == (5, 5)
    assert counted(size(tmp_path, data={**data, "largest_classes": 3})) == (3, 5)
    data = {"kind": "labelled", "path": str(tmp_path / "none"), "size": 32}
    assert counted(size(tmp_path, data={**data, "largest_classes": 3})) == (3, 3)
    with pytest.raises(InputError, match="is not known before the data are there"):
        size(tmp_path, data=data)
    data = {"kind": "facescrub", "path": str(tmp_path), "classes": 20}
    assert counted(size(tmp_path, data=data)) == (20, 530), "as many as the paper says"
