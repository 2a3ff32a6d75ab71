"""The scheduler: stops on request, ends what runs too long, says how an end came about; tasks of sleep."""

import time

import psutil
import pytest
import ray

from benchmarks.sleeping import Sleep
from smoothsweep.core.errors import SweepStopped
from smoothsweep.core.same_code import code_digest
from smoothsweep.orchestrator.cluster.connection import remove_lost_groups, start_ray, stop_ray
from smoothsweep.orchestrator.scheduling.scheduler import (
    LACK_OF_MEMORY,
    LONGEST_S,
    StageScheduler,
    limit_of,
    one_line,
)
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.opening import open_store

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


@pytest.mark.parametrize(
    "error",
    [
        ray.exceptions.WorkerCrashedError(),
        ray.exceptions.ActorDiedError(),
        ValueError("x"),
        RuntimeError("CUDA out of memory. Tried 2 GiB"),
    ],
)
def test_other_ends_are_not_taken_for_it(error):
    assert one_line(error) != LACK_OF_MEMORY


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


def test_a_stage_of_which_no_task_has_a_device_waits(plain):
    scheduler, _ = plain
    running = scheduler.ensure.remote(sleeping(2.0, classes=2))
    wait_until(lambda: [entry["waits"] for entry in snapshot(scheduler)["running"]] == [""])
    waiting = scheduler.ensure.remote(sleeping(0.1, classes=2))
    wait_until(lambda: [entry["waits"] for entry in snapshot(scheduler)["running"]] == ["", "a free CPU core"])
    ray.get([running, waiting], timeout=90)


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


def test_a_shard_whose_workers_are_killed_again_and_again_fails_with_that_cause(plain):
    failing = plain[0].ensure.remote(sleeping(60))
    killed = set()
    while len(killed) < 4:
        victim = wait_until(lambda: [process for process in working() if process.pid not in killed])[0]
        killed.add(victim.pid)
        victim.kill()
    assert failure_of(failing) == "its worker was killed 4 times"


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
