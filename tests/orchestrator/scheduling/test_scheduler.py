"""The scheduler: stops on request, ends what runs too long, says how an end came about; tasks of sleep."""

from __future__ import annotations

import asyncio
import math
import re
import shutil
import time
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pandas as pd
import psutil
import pytest
import ray
import torch
from hypothesis import given
from hypothesis import strategies as st
from ray.exceptions import WorkerCrashedError
from safetensors.torch import load_file, save_file

from benchmarks.sleeping import Sleep
from smoothsweep.core.errors import NotFinite, SweepStopped
from smoothsweep.core.same_code import code_digest
from smoothsweep.orchestrator.cluster.connection import remove_lost_groups, start_ray, stop_ray
from smoothsweep.orchestrator.planning.trial import inversion_stages
from smoothsweep.orchestrator.scheduling import scheduler as scheduler_module
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs, refuse_not_finite
from smoothsweep.orchestrator.scheduling.scheduler import (
    LACK_OF_MEMORY,
    LONGEST_S,
    WORKER_RETRIES,
    StageScheduler,
    limit_of,
    one_line,
)
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.expand import check
from smoothsweep.tasks.context import MachineLeaving
from smoothsweep.tasks.registry import TASKS
from tests.pipeline import SETTINGS, made_pipeline
from tests.tiny import tiny_sweep

RAYS_WORDS = (
    "Task was killed due to the node running low on memory.\nMemory on the node (IP: 172.31.4.9, ID: 0a1b) where "
    "the task (task ID: ffff, name=execute_remotely, pid=4711) was running was 30.2GB / 31.1GB, which exceeds "
    "the memory usage threshold of 0.95."
)


def wrapped(error):
    try:
        try:
            raise error
        except Exception as inner:
            raise RuntimeError("a training with several workers failed") from inner
    except RuntimeError as outer:
        return outer


def actor_died():
    error = ray.exceptions.ActorDiedError()
    error.error_msg = f"The actor died unexpectedly before finishing this task. {RAYS_WORDS}"
    error.args = (error.error_msg,)
    return error


@pytest.mark.parametrize(
    "make",
    [
        lambda: ray.exceptions.OutOfMemoryError(RAYS_WORDS),
        lambda: wrapped(ray.exceptions.OutOfMemoryError(RAYS_WORDS)),
        actor_died,
        lambda: wrapped(wrapped(actor_died())),
    ],
)
def test_a_worker_that_ray_ended_for_memory_is_said_in_plain_words(make):
    said = one_line(make())
    assert said == LACK_OF_MEMORY and said.startswith("out of memory: ") and "\n" not in said


TRAINING = "resources.training_timeout_minutes"
LIMITS = {"training_timeout_minutes": 2, "attack_timeout_minutes": 1}


@pytest.mark.parametrize(
    ("stage", "resources", "seconds", "said"),
    [
        (
            "target",
            LIMITS,
            120.0,
            f"ran longer than {TRAINING} allows (2 min 00 s), and was ended",
        ),
        ("attack", LIMITS, 60.0, "ran longer than resources.attack_timeout_minutes allows (1 min 00 s), and was ended"),
        ("loot", LIMITS, LONGEST_S, "ran for 72 h 00 min, and was ended"),
        (
            "target",
            {},
            LONGEST_S,
            f"ran for 72 h 00 min, and was ended; {TRAINING} sets a limit of its own",
        ),
    ],
)
def test_a_task_may_take_as_long_as_the_sweep_file_says_of_its_kind(stage, resources, seconds, said):
    assert limit_of(Stage(name=stage, config={}), resources) == (seconds, said)


LIMIT_S = 3.0
RESOURCES = {
    "cpus_per_task": 1,
    "gpus_per_task": 1,
    "gpus_per_training": 1,
    "classes_per_task": 1,
    "training_timeout_minutes": None,
    "attack_timeout_minutes": None,
}


@pytest.fixture(scope="module")
def cluster():
    start_ray(num_cpus=2, object_store_memory=100 * 2**20)
    yield
    stop_ray()


@pytest.fixture
def keep(cluster, tmp_path):
    """Makes schedulers on one store: keep(attack_timeout_minutes=...)."""
    store = open_store(str(tmp_path))

    def make(code: str | None = None, **changes):
        return StageScheduler.remote(store, {**RESOURCES, **changes}, 2, 0, code)

    return make


@pytest.fixture(scope="module")
def made(cluster, tmp_path_factory):
    """Schedulers for tests that leave them as they were: each is a process, which takes seconds to start."""

    def make(**changes):
        store = open_store(str(tmp_path_factory.mktemp("shared")))
        return StageScheduler.remote(store, {**RESOURCES, **changes}, 2, 0), store

    found = {"plain": make(), "limited": make(attack_timeout_minutes=LIMIT_S / 60)}
    yield found


@pytest.fixture
def plain(made):
    """(scheduler, its store); what happened before is not told any more."""
    snapshot(made["plain"][0])
    return made["plain"]


@pytest.fixture
def limited(made):
    """As `plain`, where nothing may take longer than LIMIT_S."""
    snapshot(made["limited"][0])
    return made["limited"][0]


def sleeping(seconds: float, classes: int = 1) -> Stage:
    return Sleep(config={"classes": classes, "seconds": seconds})


def snapshot(scheduler) -> dict:
    return ray.get(scheduler.snapshot.remote())


def wait_until(condition, seconds: float = 60.0):
    """What the condition gives once it is true."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.05)
    raise TimeoutError


def working() -> list[psutil.Process]:
    """The workers of this Ray that do a task of a stage now."""
    children = psutil.Process().children(recursive=True)
    return [child for child in children if any("execute_" in part for part in _command_line(child))]


def _command_line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def failure_of(reference) -> str:
    with pytest.raises(Exception) as caught:
        ray.get(reference, timeout=60)
    return one_line(caught.value)


def test_stop_ends_what_runs_and_waits_and_refuses_what_comes(keep):
    scheduler = keep()
    open_ones = [scheduler.ensure.remote(sleeping(60 + i, classes=3)) for i in range(2)]  # more tasks than CPUs
    wait_until(lambda: len(working()) == 2)
    started = time.monotonic()
    ray.get(scheduler.stop.remote("budget: 1 device-hour spent"))
    for reference in open_ones:
        with pytest.raises(SweepStopped, match="budget: 1 device-hour spent"):
            ray.get(reference, timeout=10)
    assert failure_of(scheduler.ensure.remote(sleeping(0))) == "stopped: budget: 1 device-hour spent"
    ray.get(scheduler.stop.remote("budget: 1 device-hour spent"))  # again is fine
    wait_until(lambda: not working())
    assert time.monotonic() - started < 50, "they would have slept for a minute"
    assert snapshot(scheduler)["running"] == []


def test_tasks_that_run_too_long_are_ended_and_their_devices_are_free(limited):
    failing = [limited.ensure.remote(sleeping(60 + number)) for number in range(2)]
    wait_until(lambda: all(entry["device_seconds"] for entry in snapshot(limited)["running"]))
    for reference in failing:
        said = failure_of(reference)
        assert said == "ran longer than resources.attack_timeout_minutes allows (3 s), and was ended"
    ray.get(limited.ensure.remote(sleeping(0.1)), timeout=90)  # the others go on
    wait_until(lambda: not working())
    wait_until(lambda: ray.available_resources().get("CPU") == 2)
    spent = [event for event in snapshot(limited)["events"] if event["what"] == "work"]
    assert LIMIT_S <= max(event["device_seconds"] for event in spent) < 3 * LIMIT_S


def test_placement_groups_of_a_lost_creator_are_removed_and_others_stay(cluster):
    """As Ray Train's controller leaves them when it is killed; its own cleaner would need the dashboard."""
    from ray.util import placement_group, placement_group_table

    @ray.remote(num_cpus=0)
    class Controller:
        def hold(self):
            self.group = placement_group([{"CPU": 1}])
            self.waiting = placement_group([{"CPU": 2}])  # never gets its devices
            ray.get(self.group.ready())

    mine, controller = placement_group([{"CPU": 1}]), Controller.remote()
    ray.get([mine.ready(), controller.hold.remote()], timeout=60)
    assert remove_lost_groups() == 0
    ray.kill(controller)
    removed = [wait_until(remove_lost_groups)]
    while sum(removed) < 2:
        removed.append(remove_lost_groups())
    wait_until(lambda: [g["state"] for g in placement_group_table().values()].count("REMOVED") == 2)
    assert placement_group_table(mine)["state"] == "CREATED"
    ray.util.remove_placement_group(mine)


@pytest.mark.parametrize(
    "stage",
    [
        sleeping(0.5, classes=2),
        Stage(
            name="public",
            config={"kind": "synthetic", "identities": 400, "per_identity": 1, "size": 64, "spread": 0.6, "seed": 0},
        ),
    ],
    ids=["a shard", "a whole stage"],
)
def test_what_a_killed_worker_had_is_done_again(plain, stage):
    scheduler, _ = plain
    made = scheduler.ensure.remote(stage)
    victim = wait_until(working)[0]
    victim.kill()
    wait_until(lambda: not victim.is_running())
    ray.get(made, timeout=60)
    assert {event["what"] for event in snapshot(scheduler)["events"]} == {"work", "done"}


HARMS = ["a bit", "an edited manifest", "gone"]


@pytest.mark.parametrize("harm", HARMS)
def test_a_damaged_input_is_made_again_while_the_scheduler_waits(plain, harm):
    seed = HARMS.index(harm)  # another artifact for each
    config = {"kind": "synthetic", "identities": 5, "per_identity": 1, "size": 16, "seed": seed, "spread": 0.4}
    source = Stage(name="public", config=config)
    reader = Stage(name="prior", config={"kind": "eigenfaces", "components": 3, "seed": 0}, inputs={"public": source})
    scheduler, store = plain
    ray.get(scheduler.ensure.remote(source), timeout=120)
    folder = store.place(source)
    whole, manifest = (folder / "images.safetensors").read_bytes(), (folder / "manifest.json").read_bytes()
    if harm == "a bit":
        (folder / "images.safetensors").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    elif harm == "an edited manifest":
        (folder / "manifest.json").write_bytes(manifest.replace(b'"cpu"', b'"gpu"'))
    else:
        (folder / "images.safetensors").unlink()
    ray.get(scheduler.ensure.remote(reader), timeout=120)
    assert store.has(reader) and (folder / "images.safetensors").read_bytes() == whole
    assert len(list(store.root.glob(f"damaged/public/{source.fingerprint}*"))) == 1
    said = [event["line"] for event in snapshot(scheduler)["events"] if event["what"] == "say"]
    assert len(said) == (harm == "a bit"), said  # the driver itself sees the others before it asks the scheduler
    assert all(f"{source.label}: images.safetensors differs" in line for line in said)


def test_workers_are_held_to_the_code_that_the_run_began_with(keep, tmp_path):
    """By its content: a stage of several parts and one of none, with the right code and with other code."""
    stages = [sleeping(0.0, classes=2), sleeping(0.01, classes=1)]
    refusing, making = keep(code="0" * 64), keep(code=code_digest())
    for stage in stages:
        said = failure_of(refusing.ensure.remote(stage))
        assert "expected the code that this run began with (source-000000000000), got source-" in said
        assert f"source-{code_digest()[:12]}" in said and not said.startswith("CodeChanged")
        assert not open_store(str(tmp_path)).has(stage) and not list((tmp_path / "sleep").glob("*.work/*/*"))
        ray.get(making.ensure.remote(stage))
        assert open_store(str(tmp_path)).has(stage)


DRAINED = {
    "cpus_per_task": 1,
    "gpus_per_task": 1,
    "gpus_per_training": 1,
    "classes_per_task": 2,
    "training_timeout_minutes": None,
    "attack_timeout_minutes": None,
}


@pytest.fixture
def ray_says(monkeypatch):
    """The nodes that Ray calls draining; and how often it was asked."""
    said = SimpleNamespace(nodes=set(), asked=0)

    def answer():
        said.asked += 1
        return set(said.nodes)

    monkeypatch.setattr(scheduler_module, "draining_nodes", answer)
    return said


class Remote:
    """Stands for a Ray task: every start ends as the next of `ends` says; after them it succeeds."""

    def __init__(self, store, ends) -> None:
        self.store, self.ends, self.started = store, list(ends), 0

    def options(self, **_):
        return self

    def remote(self, store, stage, *rest):
        return asyncio.ensure_future(self._run(stage, rest))

    async def _run(self, stage, rest):
        self.started += 1
        if self.ends:
            raise self.ends.pop(0)
        if isinstance(rest[0], list):
            return len(rest[0])
        folder = self.store.manifest_file(stage.name, stage.fingerprint).parent
        folder.mkdir(parents=True)
        return None


async def nothing():
    """What happens beside the scheduler, mostly."""


def run(tmp_path, ends, beside=nothing):
    """(Ray tasks started, events) of a scheduler that makes a stage of two classes whose shard ends so."""
    store = open_store(str(tmp_path))
    shard, whole = Remote(store, ends), Remote(store, [])

    async def main():
        scheduler = scheduler_module.StageScheduler.__ray_metadata__.modified_class(store, DRAINED, 2, 0)
        try:
            await asyncio.gather(scheduler.ensure(Sleep(config={"classes": 2, "seconds": 0.0})), beside())
        finally:
            scheduler.watching.cancel()
        return list(scheduler.events)

    with (
        patch.object(scheduler_module, "execute_shard_remotely", shard),
        patch.object(scheduler_module, "execute_remotely", whole),
        patch.object(scheduler_module, "MOVE_PAUSE_S", 0.0),
        patch.object(scheduler_module, "WATCH_EVERY_S", 0.01),
        patch("ray.get_runtime_context"),
    ):
        events = asyncio.run(main())
    return shard.started, events


def test_a_shard_is_moved_more_often_than_a_worker_may_die(tmp_path, ray_says):
    moves = 3 * WORKER_RETRIES
    started, events = run(tmp_path, [MachineLeaving()] * moves)
    assert started == moves + 1
    lines = [event["line"] for event in events if event["what"] == "say"]
    assert len(lines) == moves and all("goes on elsewhere" in line for line in lines)
    assert [event["what"] for event in events].count("done") == 1


def test_a_worker_lost_on_a_machine_that_stays_is_a_failure(tmp_path, ray_says):
    with pytest.raises(WorkerCrashedError):
        run(tmp_path, [WorkerCrashedError()])


WILD = (math.nan, math.inf, -math.inf)
FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory):
    return made_pipeline(tmp_path_factory.mktemp("pipeline"), "clean")


@pytest.fixture
def store(tmp_path):
    store = open_store(str(tmp_path / "store"))
    store.open_for_writing()
    return store


@given(
    shape=st.lists(st.integers(0, 4), max_size=3),
    dtype=st.sampled_from(FLOATS),
    wild=st.sampled_from((*WILD, 1.0)),
    place=st.integers(0, 63),
)
def test_one_wild_number_anywhere_in_a_tensor_is_found_and_counted(shape, dtype, wild, place, tmp_path_factory):
    folder, tensor = tmp_path_factory.mktemp("draft"), torch.ones(shape, dtype=dtype)
    if tensor.numel():
        tensor.view(-1)[place % tensor.numel()] = wild
    whole = torch.full((3,), 7, dtype=torch.int64)
    save_file({"a.fine": torch.ones(2), "b.looked_at": tensor, "c.whole": whole}, folder / "x.safetensors")
    is_wild = tensor.numel() > 0 and not math.isfinite(wild)
    if is_wild:
        said = f"x.safetensors: b.looked_at: expected finite numbers, got 1 of {tensor.numel()} that are not"
        with pytest.raises(NotFinite, match=f"^{re.escape(said)}$"):
            refuse_not_finite(folder, {}, ())
    else:
        refuse_not_finite(folder, {}, ())
    for allowed in ("x.safetensors", "x.safetensors:b.looked_at"):
        refuse_not_finite(folder, {}, (allowed,))


@given(
    values=st.lists(st.sampled_from((0.5, -2.0, *WILD, None)), min_size=1, max_size=6),
    dtype=st.sampled_from(("float64", "float32")),
)
def test_a_column_of_numbers_is_finite_and_whole_and_others_may_have_gaps(values, dtype, tmp_path_factory):
    folder = tmp_path_factory.mktemp("draft")
    column = pd.Series([math.nan if value is None else value for value in values], dtype=dtype)
    gaps = pd.array([None] * len(values), dtype="boolean")
    table = pd.DataFrame({"class": range(len(values)), "fine": 1.0, "looked_at": column, "hit": gaps, "name": None})
    table.to_parquet(folder / "rows.parquet", index=False)
    bad = int((~np.isfinite(column.to_numpy(dtype="float64"))).sum())
    if bad:
        said = f"rows.parquet: looked_at: expected finite numbers, got {bad} of {len(values)} that are not"
        with pytest.raises(NotFinite, match=f"^{re.escape(said)}$"):
            refuse_not_finite(folder, {}, ())
    else:
        refuse_not_finite(folder, {}, ())
    refuse_not_finite(folder, {}, ("rows.parquet:looked_at",))


def poisonings(folder):
    """(file, what in it, a function that makes one number of it wild) of everything that an artifact holds."""
    for path in sorted(folder.glob("*.safetensors")):
        for name, tensor in load_file(path).items():
            if tensor.is_floating_point() and tensor.numel():
                yield path.name, name
    for path in sorted(folder.glob("*.parquet")):
        for name in pd.read_parquet(path).select_dtypes("floating").columns:
            yield path.name, name


def poison(path, name):
    if path.suffix == ".parquet":
        table = pd.read_parquet(path)
        table.loc[table.index[-1], name] = math.nan
        table.to_parquet(path, index=False)
        return
    tensors = {key: value.clone() for key, value in load_file(path).items()}
    tensors[name].view(-1)[-1] = math.nan
    save_file(tensors, path)


def test_what_every_stage_of_a_trial_seals_is_looked_at_number_by_number(pipeline, tmp_path):
    """Each tensor and column of each artifact, made wild in a copy: refused by name, but where it is declared."""
    seen = 0
    for stage in pipeline.stages:
        folder, allowed = pipeline.store.path(stage), TASKS[stage.name].not_finite
        for file, name in poisonings(folder):
            copy = tmp_path / f"{stage.name}{seen}"
            shutil.copytree(folder, copy)
            refuse_not_finite(copy, {}, allowed)
            poison(copy / file, name)
            if file in allowed or f"{file}:{name}" in allowed:
                refuse_not_finite(copy, {}, allowed)
            else:
                with pytest.raises(NotFinite, match=f"^{re.escape(f'{file}: {name}: ')}"):
                    refuse_not_finite(copy, {}, allowed)
            shutil.rmtree(copy)
            seen += 1
    assert seen > 30


def test_a_gan_whose_statistics_have_overflowed_is_not_finished(pipeline):
    """Its losses stay finite, for a batch is divided by its own deviation: what is kept of them does not."""
    gan = {"steps": 2, "critic_steps": 1, "batch_size": 4, "width": 2, "z_dim": 4, "lr": 1e5}
    attack = {"kind": "plg_mi", "top_n": 4, "gan": gan, "steps": 3, "selected": 3, "seed": 9}
    raw = tiny_sweep(protocol="clean", **{**SETTINGS, "attack": attack})
    stage = inversion_stages(check(raw, "plg"), 1).attack.inputs["plg_gan"]
    with pytest.raises(NotFinite) as caught:
        execute_with_inputs(pipeline.store, stage)
    line = str(caught.value)
    assert re.match(rf"^{stage.label}: generator\.network\.safetensors: \S*running_var: expected finite numbers", line)
    assert "try a lower learning rate" in line and "\n" not in line and one_line(caught.value) == line
    assert not pipeline.store.has(stage)
