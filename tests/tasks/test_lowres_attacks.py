"""GMI, KED-MI and LOMMA as stages of a trial: shared parts, batches of classes, the official way to a judge."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from pipeline import SETTINGS
from safetensors.torch import load_file
from tiny import tiny_sweep

from smoothsweep.core.attacks.kept_networks import load_network
from smoothsweep.core.attacks.registry import PARTS
from smoothsweep.core.data.images import truncated_bytes
from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.planning.trial import inversion_stages
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.sweeps.loaded import check
from smoothsweep.tasks.attack import invert_classes, make_part
from smoothsweep.tasks.classes import class_file
from smoothsweep.tasks.context import TaskContext
from smoothsweep.tasks.files import load_tensors
from smoothsweep.tasks.reconstructions import reconstructed_images
from tests.dear import first_of
from tests.killed_parts import KILLED

GAN = {"width": 2, "epochs": 2, "batch_size": 6, "critic_steps": 2, "z_dim": 4}
STUDENTS = {"architectures": ["resnet_small"], "pretrained": False, "epochs": 2, "batch_size": 10}
ATTACKS = {
    "gmi": {"kind": "gmi", "gan": GAN, "steps": 3, "selected": 2, "seed": 9},
    "ked": {"kind": "ked", "gan": GAN, "steps": 3, "selected": 2, "seed": 9, "reference_batch": 2},
    "lomma_gmi": {"kind": "lomma_gmi", "gan": GAN, "steps": 3, "selected": 2, "seed": 9, "students": STUDENTS},
    "lomma_ked": {"kind": "lomma_ked", "gan": GAN, "steps": 3, "selected": 2, "seed": 9, "students": STUDENTS},
}


def sweep(attack, protocol="clean", **changes):
    raw = tiny_sweep(protocol=protocol, **{**SETTINGS, "attack": attack, **changes})
    raw["recipe"] |= {
        "optimizer": "sgd",
        "momentum": 0.9,
        "lr": 0.02,
        "weight_decay": 0.01,
        "lr_milestones": [0.5],
        "defense": {"alpha": 0.3},
        "batch_size": 9,
    }
    return check(raw, "lowres")


def stages_of(name, protocol="clean", **changes):
    return inversion_stages(sweep({**ATTACKS[name], **changes}, protocol), 1)


@pytest.mark.parametrize("name", list(ATTACKS))
def test_a_trial_brings_its_own_generator_to_every_judges_size(name, paper):
    stages = stages_of(name, "paper")
    gan = {"gmi": "general_gan", "ked": "specific_gan"}[name.removeprefix("lomma_")]
    assert "prior" not in stages.attack.inputs and set(stages.reconstructions.inputs) == {gan, "attack"}
    execute_with_inputs(paper.store, stages.reconstructions)
    made = paper.store.path(stages.attack.inputs[gan])
    found = load_tensors(paper.store.path(stages.attack) / "reconstructions.safetensors")
    assert found["w"].shape == (6, 1, 4) and found["draw"].tolist() == [0, 1] * 3  # in the order of the draws
    images = load_network(made, "generator").synthesize(found["w"])
    reconstructions = reconstructed_images(paper.store.path(stages.reconstructions), 32)["images"].float()
    torch.testing.assert_close(reconstructions, truncated_bytes(images, 32), rtol=1e-3, atol=1e-3)
    asked = json.loads((paper.store.path(stages.attack) / "manifest.json").read_text())["metrics"]["queries"]
    assert asked == (2 * 4 if name.endswith("gmi") else 3 + 2)


def test_parts_are_shared_by_all_that_agree_on_them():
    gmi, lomma = stages_of("gmi"), stages_of("lomma_gmi")
    assert gmi.attack.inputs["general_gan"].fingerprint == lomma.attack.inputs["general_gan"].fingerprint
    assert set(gmi.attack.inputs["general_gan"].inputs) == {"public"}  # of no target
    ked, other = stages_of("ked"), stages_of("lomma_ked", reference_batch=5)
    assert ked.attack.inputs["specific_gan"].fingerprint == other.attack.inputs["specific_gan"].fingerprint
    assert other.attack.inputs["students"].fingerprint == lomma.attack.inputs["students"].fingerprint
    assert "students" not in stages_of("lomma_ked", form="L_logit", students={}, gan=GAN).attack.inputs


def test_a_part_that_the_protocol_does_not_reach_is_made_once_for_both():
    """Not told, it cannot depend on it: what tells its stages apart is what it is given."""
    clean, paper = (stages_of("lomma_gmi", protocol).attack.inputs for protocol in ("clean", "paper"))
    shared = {name for name in clean if clean[name].fingerprint == paper[name].fingerprint}
    assert shared == {name for name in clean if name in PARTS and not PARTS[name].told_protocol} == {"general_gan"}
    assert "protocol" not in clean["general_gan"].config and clean["students"].config["protocol"] == "clean"


@pytest.fixture(scope="module")
def coupled(paper):
    """The stage of KED-MI under paper, three classes in batches of two, and its finished folder."""
    stage = stages_of("ked", "paper").attack
    execute_with_inputs(paper.store, stage)
    return stage, paper.store.path(stage)


def test_a_batch_that_lost_a_class_gives_the_same_numbers_again(coupled, paper, tmp_path):
    stage, folder = coupled
    inputs = {name: paper.store.path(source) for name, source in stage.inputs.items()}
    context = TaskContext(work=tmp_path)
    invert_classes({**stage.config, **stage.hints}, inputs, [0, 1], context)
    first = class_file(tmp_path, 0).read_bytes(), class_file(tmp_path, 1).read_bytes()
    class_file(tmp_path, 1).unlink()
    invert_classes({**stage.config, **stage.hints}, inputs, [0, 1], context)
    assert (class_file(tmp_path, 0).read_bytes(), class_file(tmp_path, 1).read_bytes()) == first
    whole = load_tensors(folder / "reconstructions.safetensors")["w"]
    kept = [load_file(class_file(tmp_path, label))["row.w"] for label in (0, 1)]
    assert torch.equal(torch.cat(kept), whole[:4])


@pytest.mark.parametrize(("name", "protocol"), [("ked", "paper"), ("ked", "clean"), ("gmi", "paper")])
def test_shards_of_whole_batches_give_what_one_task_gives(name, protocol, request, tmp_path):
    stage, pipeline = stages_of(name, protocol).attack, request.getfixturevalue(protocol)
    execute_with_inputs(pipeline.store, stage)
    expected = load_tensors(pipeline.store.path(stage) / "reconstructions.safetensors")["w"]
    work = {}
    for shard in ([2], [0, 1]):
        inputs = {key: pipeline.store.path(source) for key, source in stage.inputs.items()}
        invert_classes({**stage.config, **stage.hints}, inputs, shard, TaskContext(work=tmp_path))
        work |= {label: load_file(class_file(tmp_path, label))["row.w"] for label in shard}
    assert torch.equal(torch.cat([work[label] for label in range(3)]), expected)


@pytest.mark.parametrize("part", first_of(["students", "specific_gan"]))
def test_a_part_killed_between_two_steps_ends_as_one_that_was_not(part, paper, tmp_path):
    """Under paper: the target in training mode, whose dropout and norms must not remember what was asked before."""
    inputs = {"public": paper.folder("attack.prior.public"), "target": paper.folder("target")}
    settings = {"specific_gan": GAN, "students": {**STUDENTS, "architectures": ["resnet_small", "vgg_small"]}}[part]
    config = {"part": part, "settings": settings, "image_size": 32, "protocol": "paper"}
    for name in ("whole", "killed"):
        for place in ("work", "out"):
            (tmp_path / name / place).mkdir(parents=True)
    places = {name: str(path) for name, path in inputs.items()}
    given = json.dumps([config, places, str(tmp_path / "killed"), torch.get_num_threads()])
    done = subprocess.run([sys.executable, "-c", KILLED, given], cwd=Path(__file__).parents[2], capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    metrics = {
        name: make_part(config, inputs, tmp_path / name / "out", TaskContext(work=tmp_path / name / "work"))
        for name in ("killed", "whole")
    }
    assert metrics["killed"] == metrics["whole"]
    files = sorted(path.name for path in (tmp_path / "whole" / "out").glob("*.safetensors"))
    assert len(files) == 3
    for file in files:
        killed, whole = (load_file(tmp_path / name / "out" / file) for name in ("killed", "whole"))
        assert killed.keys() == whole.keys()
        assert all(torch.equal(killed[key].nan_to_num(), whole[key].nan_to_num()) for key in whole)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("gmi", {"public": None, "prior": {"kind": "shipped"}}, "public: expected the images that this attack learns"),
        ("gmi", {"attack": {"kind": "gmi"}}, r"public: expected at least attack.gan.batch_size \(64\) images, got 30"),
        (
            "lomma_ked",
            {"attack": {**ATTACKS["lomma_ked"], "students": {"architectures": ["resnet9"]}}},
            "attack.students.architectures: expected one of .*efficientnet_b0.*, got 'resnet9'",
        ),
    ],
)
def test_a_sweep_that_cannot_be_attacked_is_refused_when_it_is_read(name, changes, message):
    with pytest.raises(InputError, match=message) as refusal:
        sweep(**{"attack": ATTACKS[name], **changes})
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", list(ATTACKS))
def test_a_target_of_224_pixels_is_refused_when_the_sweep_is_read(name):
    raw = tiny_sweep(**{**SETTINGS, "attack": ATTACKS[name]})
    raw["recipe"] |= {"image_size": 224}
    with pytest.raises(InputError, match=r"recipe\.image_size: expected 32 or 64 pixels with this attack, got 224"):
        check(raw, "lowres")
