"""Parts of attacks made by two real Ray Train workers, and by two of which one is killed on the way."""

import json
import threading
import time

import psutil
import pytest
import torch
from pipeline import SETTINGS
from safetensors.torch import load_file
from tiny import tiny_sweep

from smoothsweep.core.attacks.kept_networks import load_network, network_names
from smoothsweep.orchestrator.cluster import local_ray
from smoothsweep.orchestrator.planning.trial import inversion_stages
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.sweeps.loaded import check
from smoothsweep.tasks.context import TaskContext
from smoothsweep.tasks.files import load_tensors
from smoothsweep.tasks.parts import make_part

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

STUDENTS = {"architectures": ["resnet_small"], "pretrained": False, "epochs": 2, "batch_size": 10}
ATTACKS = {
    "lomma_gmi": {
        "gan": {"width": 2, "epochs": 2, "batch_size": 6, "critic_steps": 2, "z_dim": 4},
        "students": STUDENTS,
    },
    "plg_mi": {"gan": {"steps": 4, "critic_steps": 2, "batch_size": 6, "width": 2, "z_dim": 4}, "top_n": 4},
}
STEPS = {"general_gan": (10, 2), "students": (1, 6), "plg_gan": (4, 3)}  # the shape of a part's losses
KILLED = {**STUDENTS, "epochs": 20}


@pytest.fixture(scope="module")
def two_cpus():
    local_ray.start(num_cpus=2, object_store_memory=100 * 2**20)
    yield
    local_ray.stop()


def stages_of(kind, workers):
    shared = {key: {**value, "workers": workers} for key, value in ATTACKS[kind].items() if isinstance(value, dict)}
    attack = {"kind": kind, "steps": 2, "selected": 2, **ATTACKS[kind], **shared}
    raw = tiny_sweep(**{**SETTINGS, "attack": attack})
    raw["recipe"] |= {
        "optimizer": "sgd",
        "momentum": 0.9,
        "lr": 0.02,
        "weight_decay": 0.01,
        "lr_milestones": [0.5],
        "defense": {"alpha": 0.3},
        "batch_size": 9,
    }
    return inversion_stages(check(raw, "two workers"), 1)


@pytest.mark.parametrize("kind", list(ATTACKS))
def test_what_two_workers_make_serves_the_attack(kind, two_cpus, clean):
    """Steps, queries and networks are those of one; numbers are not: each CPU normalises its own rows."""
    alone, together = (stages_of(kind, workers) for workers in (1, 2))
    for stages in (alone, together):
        execute_with_inputs(clean.store, stages.reconstructions)
    trained = [part for part in STEPS if part in together.attack.inputs]
    assert trained
    for part in trained:
        stages = [stages.attack.inputs[part] for stages in (alone, together)]
        assert stages[0].fingerprint != stages[1].fingerprint and stages[1].config["workers"] == 2
        one, two = (clean.store.path(stage) for stage in stages)
        losses = [load_tensors(folder / "losses.safetensors")["losses"] for folder in (one, two)]
        assert losses[0].shape == losses[1].shape == STEPS[part]
        assert torch.equal(losses[0].isfinite(), losses[1].isfinite()) and losses[1][:, 0].isfinite().all()
        asked = [json.loads((folder / "manifest.json").read_text())["metrics"].get("queries") for folder in (one, two)]
        assert asked[0] == asked[1] and (asked[0] is None) == (part == "general_gan")
        assert network_names(one) == network_names(two)
        for name in network_names(two):
            networks = [load_network(folder, name) for folder in (one, two)]
            assert networks[0].config == networks[1].config
            assert all(value.isfinite().all() for value in networks[1].state_dict().values())
    found = load_tensors(clean.store.path(together.attack) / "reconstructions.safetensors")
    assert found["w"].shape[0] == 6 and found["w"].isfinite().all()


def kill_a_worker_after_a_checkpoint(work, killed):
    """In the background: one of the two, once the group has left its first checkpoint."""
    while not any(work.glob("ray_train/checkpoint_*")):
        time.sleep(0.02)
    workers = [p for p in psutil.Process().children(recursive=True) if "RayTrainWorker" in "".join(p.cmdline()[:1])]
    workers[0].kill()
    killed.append(workers[0].pid)


def test_a_group_that_lost_a_worker_makes_the_same_part(two_cpus, clean, tmp_path):
    """Bit for bit, and with as many queries: what came after the last kept state is taken back and done again."""
    inputs = {"public": clean.folder("attack.prior.public"), "target": clean.folder("target")}
    config = {"part": "students", "settings": KILLED, "image_size": 32, "protocol": "clean", "workers": 2}
    metrics, files, killed = {}, {}, []
    for name in ("calm", "killed"):
        work, out = tmp_path / name / "work", tmp_path / name / "out"
        for place in (work, out):
            place.mkdir(parents=True)
        if name == "killed":
            threading.Thread(target=kill_a_worker_after_a_checkpoint, args=[work, killed], daemon=True).start()
        metrics[name] = make_part(config, inputs, out, TaskContext(work=work))
        files[name] = {path.name: load_file(path) for path in sorted(out.glob("*.safetensors"))}
    assert killed and metrics["calm"] == metrics["killed"] and files["calm"].keys() == files["killed"].keys()
    for name, tensors in files["calm"].items():
        assert all(torch.equal(value, files["killed"][name][key]) for key, value in tensors.items())
