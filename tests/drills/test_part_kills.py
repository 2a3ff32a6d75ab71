"""Kill -9 in the middle of every kind of part of an attack: those that train go on from the state that they kept."""

import shutil
import time

import pytest
from drills import ledger
from drills.emulated import kill
from drills.kept import Kept
from drills.sweep_runs import SweepRun, finish, stray_files, table, write_sweep

from smoothsweep.core.attacks.registry import PARTS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]

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
    ledger.add(name, time.monotonic() - started, [kept.lost for kept in harm], f"{', '.join(KILLED)}")
