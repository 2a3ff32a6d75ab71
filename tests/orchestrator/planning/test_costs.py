"""What a cost is told by: stages of this store that are alike, else the rates of another machine, else nothing."""

import json
import math
import os

import pytest
from tiny import write_tiny

from benchmarks.sleeping import Sleep
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.planning.costs import MACHINE, READ_AT_MOST, History, reference_s
from smoothsweep.orchestrator.planning.plan import make_plan, plan_summary
from smoothsweep.orchestrator.planning.trial import ProposalLog, trials_of
from smoothsweep.orchestrator.search.agenda import forecast_of
from smoothsweep.orchestrator.stages.stage import Stage, with_ancestors
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.load import load_sweep, shipped_sweeps
from tests.orchestrator.planning.measured_stages import everything_of, pretend

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
    assert main(["plan", f"sweeps/{sweep}.yaml", "--store", str(tmp_path / "store"), *more]) == 0
    return capsys.readouterr().out


@pytest.fixture(autouse=True)
def at_the_root(repository, monkeypatch):
    monkeypatch.chdir(repository)


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
