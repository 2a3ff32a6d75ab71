"""Machines that are taken away with notice, as spot machines are: what runs there is kept in time and moves."""

import time

import psutil
import pytest
from drills import ledger
from drills.kept import Kept
from drills.sweep_runs import SweepRun, finish, partly_done, stray_files, table, write_sweep
from tiny import tiny_sweep

from smoothsweep.orchestrator.scheduling.scheduler import WORKER_RETRIES

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]
NOTICE_S = 60.0  # Ray is told; AWS gives two minutes
SELDOM = 1000  # epochs between two checkpoints: what is kept is kept because of the notice
LEAVES = "leaves; it goes on elsewhere"


def recipe(**changes):
    return {**tiny_sweep()["recipe"], "checkpoint_every": SELDOM, **changes}


def gone(process: psutil.Process) -> bool:
    """Whether the task has ended: its worker idles, or went with its node."""
    try:
        return "execute_" not in " ".join(process.cmdline())
    except psutil.Error:
        return True


def drained(run: SweepRun, cluster, kind: str, seconds: float = NOTICE_S) -> tuple[float, Kept]:
    """Drain a node on which such work runs, wait until it has let go of it, take it away.

    Returns how long letting go took, and what the store held then.
    """
    victim = run.until(lambda: cluster.find(kind))[0]
    told, node = time.monotonic(), cluster.drain_node_of(victim, seconds)
    run.until(lambda: gone(victim))
    took, kept = time.monotonic() - told, Kept.now(run.store)
    cluster.take_away(node)
    cluster.mend()
    return took, kept


def test_a_training_moves_more_often_than_a_worker_may_die(cluster, tmp_path):
    """Every notice costs the rest of an epoch at most; no retry is counted; the numbers are the undisturbed run's."""
    moves = WORKER_RETRIES + 2
    changes = {"grid": {}, "baseline": {}, "judges": {}, "recipe": recipe(epochs=120)}
    calm, store = tmp_path / "calm", tmp_path / "disturbed" / "store"
    finish(write_sweep(calm, **changes), calm / "store", cluster.address)
    sweep = write_sweep(store.parent, **changes)
    partly_done(calm / "store", store, "target")
    started, run, took, kept = time.monotonic(), SweepRun(sweep, store, cluster.address), [], []
    for _ in range(moves):
        run.until(lambda: any(store.glob("target/*.work/progress.json")))
        seconds, left = drained(run, cluster, "task")
        took.append(seconds)
        kept.append(left)
    assert run.wait() == 0, run.tail()
    assert run.log.read_text().count(LEAVES) == moves, run.log.read_text()
    assert table(store).equals(table(calm / "store")) and not stray_files(store)
    epochs = [one.check() for one in kept]
    assert epochs == sorted(epochs) and epochs[0] > 0, "the notice itself left a checkpoint"
    cluster.wait_until_clear()
    note = f"checkpointed and left within {max(took):.0f} s of the notice; no retry counted"
    ledger.add(
        f"{moves} nodes drained one after the other under one training",
        time.monotonic() - started,
        [one.lost for one in kept],
        note,
    )


def test_an_attacks_shards_move(drill):
    partly_done(drill.undisturbed.store, drill.store, "attack")
    run = drill.run()
    run.until(lambda: any(drill.store.glob("attack/*.work/classes/*")))
    kept = drill.about_to_harm()
    took, _ = drained(run, drill.cluster, "shard")
    assert run.wait() == 0, run.tail()
    assert kept.lost_s
    drill.check("a node drained in the middle of an attack", note=f"left within {took:.0f} s of the notice")


def test_a_ray_train_group_goes_on_where_the_machine_left_it(cluster, tmp_path):
    """Ray Train waits for the machine's end, restarts the group elsewhere, and counts no failure of a worker."""
    changes = {
        "grid": {"recipe.workers": [2]},
        "baseline": {},
        "judges": {},
        "recipe": recipe(epochs=60),
    }
    calm, store = tmp_path / "calm", tmp_path / "disturbed" / "store"
    finish(write_sweep(calm, **changes), calm / "store", cluster.address)
    sweep = write_sweep(store.parent, **changes)
    partly_done(calm / "store", store, "target")
    cluster.add_node()
    started, run = time.monotonic(), SweepRun(sweep, store, cluster.address)
    run.until(lambda: any(store.glob("target/*.work/progress.json")))
    victim = run.until(lambda: cluster.find("train_worker"))[0]
    told, node = time.monotonic(), cluster.drain_node_of(victim, 20.0)
    run.until(lambda: any(store.glob("target/*.work/ray_train/checkpoint_*")))
    took, kept = time.monotonic() - told, Kept.now(store)
    run.until(lambda: not victim.is_running() or victim.status() == psutil.STATUS_ZOMBIE)
    cluster.take_away(node)
    assert run.wait() == 0, run.tail()
    assert table(store).equals(table(calm / "store")) and not stray_files(store)
    kept.check()
    cluster.wait_until_clear()
    ledger.add(
        "a node drained under one of two Ray Train workers",
        time.monotonic() - started,
        [kept.lost],
        f"checkpointed within {took:.0f} s of the notice",
    )
