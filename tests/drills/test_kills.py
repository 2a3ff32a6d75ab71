"""Kill -9, and lost nodes: every kind of process of a sweep, in the middle of what it does."""

import contextlib
import random
import shutil
import time

import pytest
from drills.emulated import kill
from drills.sweep_runs import STAGES, Kept, SweepRun, finish, partly_done, passed, stray_files, table, write_sweep

from smoothsweep.core.attacks.registry import PARTS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]


def training_with_checkpoint(drill):
    return lambda: any(drill.store.glob("target/*.work/checkpoint.pt"))


def attack_with_a_class(drill):
    return lambda: any(drill.store.glob("attack/*.work/classes/*"))


def in_progress(store, stage):
    return any((store / stage).glob("*.work")) or any((store / stage).glob(".*"))


def test_the_driver(drill):
    partly_done(drill.undisturbed.store, drill.store, "target")
    run = drill.run()
    run.until(training_with_checkpoint(drill))
    drill.about_to_harm()
    run.process.kill()
    run.wait()
    drill.nothing_left_on_the_cluster()  # Ray ends what a lost driver had started
    drill.finish("kill -9 of the driver, in a training")


@pytest.mark.parametrize(
    ("kind", "name", "first_missing", "where"),
    [
        ("scheduler", "the scheduler", "target", training_with_checkpoint),
        ("task", "a training worker", "target", training_with_checkpoint),
        ("shard", "an attack task", "attack", attack_with_a_class),
        ("scheduler", "the scheduler, in an attack", "attack", attack_with_a_class),
    ],
)
def test_one_process(drill, kind, name, first_missing, where):
    """The run itself goes on; nobody has to start it again."""
    partly_done(drill.undisturbed.store, drill.store, first_missing)
    run = drill.run()
    run.until(where(drill))
    victim = run.until(lambda: drill.cluster.find(kind))[0]
    drill.about_to_harm()
    assert kill(victim)
    assert run.wait() == 0, run.tail()
    drill.check(f"kill -9 of {name}")


@pytest.mark.parametrize(
    ("kind", "name", "first_missing", "where"),
    [("task", "a training", "target", training_with_checkpoint), ("shard", "an attack", "attack", attack_with_a_class)],
)
def test_a_node(drill, kind, name, first_missing, where):
    partly_done(drill.undisturbed.store, drill.store, first_missing)
    run = drill.run()
    run.until(where(drill))
    victim = run.until(lambda: drill.cluster.find(kind))[0]
    drill.about_to_harm()
    drill.cluster.remove_node_of(victim)
    assert run.wait() == 0, run.tail()
    drill.check(f"a node removed in the middle of {name}")


def test_one_of_two_ray_train_workers(cluster, tmp_path):
    """Ray Train restarts the group from its last checkpoint; the numbers are those of the undisturbed training."""
    changes = {"grid": {"recipe.workers": [2]}, "baseline": {}, "judges": {}}
    calm, store = tmp_path / "calm", tmp_path / "disturbed" / "store"
    finish(write_sweep(calm, **changes), calm / "store", cluster.address)
    sweep = write_sweep(store.parent, **changes)
    partly_done(calm / "store", store, "target")
    started, run = time.monotonic(), SweepRun(sweep, store, cluster.address)
    run.until(lambda: any(store.glob("target/*.work/ray_train/checkpoint_*")))
    victim = run.until(lambda: cluster.find("train_worker"))[0]
    kept = Kept.now(store)
    assert kill(victim)
    assert run.wait() == 0, run.tail()
    assert table(store).equals(table(calm / "store"))
    assert not stray_files(store)
    kept.check()
    cluster.wait_until_clear()
    passed("kill -9 of one of two Ray Train workers", time.monotonic() - started, [kept.lost])


def test_the_driver_in_every_kind_of_stage(drill):
    """One sweep whose driver is killed once in each kind of stage; a stage too fast to be caught is made again."""
    caught = []
    for stage in STAGES:
        for _ in range(3):
            run = drill.run()
            while run.process.poll() is None and not in_progress(drill.store, stage):
                time.sleep(0.002)
            if run.process.poll() is None:
                drill.about_to_harm()
                run.process.kill()
                run.wait()
                caught.append(stage)
                break
            drill.take_away(stage)
    assert len(caught) >= 10, caught
    drill.finish("kill -9 of the driver, once in each kind of stage", note=f"caught in {len(caught)} of {len(STAGES)}")


RANDOM_KILLS, SEED = 30, 2024
PROGRESS_WITHIN_S = 20.0


def _some_progress(store, run):
    """Until the sweep leaves something new, or for a while: so that all stages are hit, not the first alone."""

    def left():
        return {(path, path.stat().st_mtime_ns) for mark in MARKS for path in store.glob(mark) if path.exists()}

    before, deadline = None, time.monotonic() + PROGRESS_WITHIN_S
    while time.monotonic() < deadline and run.process.poll() is None:
        with contextlib.suppress(FileNotFoundError):  # a work folder that went with its finished stage
            now = left()
            if before is not None and now - before:
                return
            before = now
        time.sleep(0.1)


MARKS = ("*/*/manifest.json", "*/*.work/checkpoint.pt", "*/*.work/classes/*")


def test_thirty_random_kills(drill):
    """Whoever the dice name, at any moment, over one sweep; a driver that was killed is started again."""
    dice = random.Random(SEED)
    run, log, killed = drill.run(), [], 0
    kinds = ["driver", "task", "task", "shard", "shard", "scheduler", "node"]
    while killed < RANDOM_KILLS:
        _some_progress(drill.store, run)
        time.sleep(dice.uniform(0.0, 4.0))
        if run.process.poll() is not None:
            assert run.process.returncode in (0, 1), run.tail()  # 1: some task met the dice four times
            if run.process.returncode == 0:  # through, and the dice want more work: the later stages are taken away
                for later in STAGES[STAGES.index("target") :]:
                    shutil.rmtree(drill.store / later, ignore_errors=True)
                drill.harm.clear()
            run = drill.run()
            continue
        kind = dice.choice(kinds)
        kept, stages = Kept.now(drill.store), sorted({path.parent.name for path in drill.store.glob("*/*.work")})
        if not stages:
            continue
        if kind == "driver":
            run.process.kill()
            run.wait()
            run = drill.run()
        else:
            victims = drill.cluster.find(dice.choice(["task", "shard"]) if kind == "node" else kind)
            if not victims:
                continue
            victim = dice.choice(victims)
            if kind == "node":
                drill.cluster.remove_node_of(victim)
                drill.cluster.mend()
            elif not kill(victim):
                continue
        drill.harm.append(kept)
        killed += 1
        log.append(f"{killed:2} {time.monotonic() - drill.started:6.1f} s  {kind:7} in {', '.join(stages)}")
    assert run.wait(1200) in (0, 1), run.tail()
    print("\n".join(log))
    (drill.folder / "kills.txt").write_text("\n".join(log))
    name = f"{RANDOM_KILLS} random kills over one sweep (seed {SEED})"
    drill.finish(name, note="driver, tasks, trials, scheduler, nodes")


GAN = {"width": 4, "epochs": 8, "batch_size": 16, "critic_steps": 2, "z_dim": 8}
STUDENTS = {"architectures": ["resnet_small"], "pretrained": False, "epochs": 4, "batch_size": 32}
SURROGATE = {
    "pool": {"size": 160, "truncation_psi": 1.0, "truncation_cutoff": None},
    "candidates": 4,
    "steps": 3,
    "selected": 2,
    "finalists": 4,
    "views": 4,
    "surrogates": {"architectures": ["resnet_small"], "pretrained": False, "epochs": 6, "batch_size": 8},
}
ATTACKS = [
    {"kind": "surrogate_scores", **SURROGATE},
    {"kind": "surrogate_labels", **SURROGATE},
    {"kind": "gmi", "gan": GAN, "steps": 4, "selected": 2},
    {"kind": "lomma_ked", "gan": GAN, "students": STUDENTS, "steps": 4, "selected": 2},
    {
        "kind": "plg_mi",
        "top_n": 8,
        "steps": 4,
        "selected": 2,
        "gan": {"steps": 60, "critic_steps": 2, "batch_size": 16, "width": 4, "z_dim": 8},
    },
    {
        "kind": "ppa",
        "pool": {"size": 20},
        "candidates": 4,
        "steps": 3,
        "batch_size": 4,
        "selected": 2,
        "selection_repeats": 4,
        "loss": "cross_entropy",
        "temperature": {"mean_confidence": 0.5},
        "feature_weight": 0.1,
    },
    {"kind": "brep_mi", "selected": 1, "max_passes": 6, "starts": {"batch": 64, "max_batches": 20}},
]
KILLED = (
    "general_gan",
    "specific_gan",
    "students",
    "public_features",
    "plg_labels",
    "plg_gan",
    "starts",
    "temperature",
    "pool_features",
    "pictures",
    "answered_labels",
    "answered_scores",
    "surrogates",
)
ROUNDS = 4  # a part too fast to be caught is made again


def in_the_middle(store, part):
    """At work, and, if it trains, with a state kept."""
    mark = "*.work/checkpoint.pt" if PARTS[part].trains else "*.work"
    return any((store / part).glob(mark))


def kill_in_each(run, cluster, store, pending, harm):
    """Kill whatever works while one of these parts is made; returns the parts that were not caught."""
    while pending and run.process.poll() is None:
        for part in [part for part in pending if in_the_middle(store, part)]:
            kept, victims = Kept.now(store), cluster.find("task")
            if any([kill(victim) for victim in victims]):
                harm.append(kept)
                pending = [other for other in pending if other != part]
        time.sleep(0.002)
    return pending


def test_each_kind_of_part(cluster, tmp_path):
    """The same numbers, and the same networks to the byte."""
    changes = {
        "grid": {"attack": ATTACKS},
        "baseline": {},
        "judges": {"embedder": {"name": "synthetic"}},
        "public": {"kind": "synthetic", "identities": 320, "per_identity": 1, "size": 32},
    }
    calm, store = tmp_path / "calm", tmp_path / "disturbed" / "store"
    finish(write_sweep(calm, **changes), calm / "store", cluster.address)
    sweep = write_sweep(store.parent, **changes)
    started, pending, harm = time.monotonic(), list(KILLED), []
    for _ in range(ROUNDS):
        run = SweepRun(sweep, store, cluster.address)
        pending = kill_in_each(run, cluster, store, pending, harm)
        code = run.wait()
        assert code in (0, 1), run.tail()  # 1: some stage lost its worker four times
        for kept in harm:
            kept.check()
        if code == 0 and not pending:
            break
        if not pending:
            continue
        for name in (*KILLED, "attack", "loot", "judge_embedder"):  # nobody asks for a part of a finished attack
            shutil.rmtree(store / name, ignore_errors=True)
        for kept in harm:
            kept.artifacts.clear()
    assert code == 0 and not pending
    assert table(store).equals(table(calm / "store")) and not stray_files(store)
    for part in KILLED:
        files = sorted((calm / "store" / part).glob("*/*.safetensors"))
        assert files and [path.relative_to(calm / "store") for path in files] == sorted(
            path.relative_to(store) for path in (store / part).glob("*/*.safetensors")
        )
        for path in files:
            assert path.read_bytes() == (store / path.relative_to(calm / "store")).read_bytes(), path
    cluster.wait_until_clear()
    name = "kill -9 of the workers in the middle of each kind of part of an attack"
    passed(name, time.monotonic() - started, [kept.lost for kept in harm], f"{', '.join(KILLED)}")
