"""The low-resolution attacks as stages: parts, shards, kills, settings, and the reports of their papers."""

import json
import signal
import statistics
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import torch
from pipeline import SETTINGS
from safetensors.torch import load_file
from tiny import tiny_sweep

from smoothsweep.core.attacks.registry import PARTS, load_network
from smoothsweep.core.data.images import aligned_corners, stretched, truncated_bytes
from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.planning.trial import inversion_stages
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.sweeps.expand import check
from smoothsweep.tasks.attack import invert_classes, make_part
from smoothsweep.tasks.classes import class_file
from smoothsweep.tasks.context import TaskContext
from smoothsweep.tasks.files import load_tensors, save_tensors
from smoothsweep.tasks.judges import reported
from smoothsweep.tasks.reconstructions import reconstructed_images
from smoothsweep.tasks.training import load_classifier
from tests.dear import first_of

KILLED = """
import json, os, signal, sys
from pathlib import Path
import torch
from smoothsweep.tasks import attack as parts
from smoothsweep.tasks.context import TaskContext

config, inputs, folder, threads = json.loads(sys.argv[1])
torch.set_num_threads(threads)
keep, kept = parts.WorkFolder.keep_state, []

def keep_and_die(self, state):
    keep(self, state)
    kept.append(state)
    if len(kept) == 4:
        os.kill(os.getpid(), signal.SIGKILL)

parts.WorkFolder.keep_state = keep_and_die
work = TaskContext(work=Path(folder) / "work")
parts.make_part(config, {name: Path(path) for name, path in inputs.items()}, Path(folder) / "out", work)
"""


GAN = {"width": 2, "epochs": 2, "batch_size": 6, "critic_steps": 2, "z_dim": 4}
STUDENTS = {"architectures": ["resnet_small"], "pretrained": False, "epochs": 2, "batch_size": 10}
ATTACKS = {
    "gmi": {"kind": "gmi", "gan": GAN, "steps": 3, "selected": 2, "seed": 9},
    "ked": {"kind": "ked", "gan": GAN, "steps": 3, "selected": 2, "seed": 9, "reference_batch": 2},
    "lomma_gmi": {"kind": "lomma_gmi", "gan": GAN, "steps": 3, "selected": 2, "seed": 9, "students": STUDENTS},
    "lomma_ked": {"kind": "lomma_ked", "gan": GAN, "steps": 3, "selected": 2, "seed": 9, "students": STUDENTS},
}


def sweep(attack, protocol="clean", side=32, **changes):
    raw = tiny_sweep(protocol=protocol, **{**SETTINGS, "attack": attack, **changes})
    raw["recipe"] |= {
        "optimizer": "sgd",
        "momentum": 0.9,
        "lr": 0.02,
        "weight_decay": 0.01,
        "lr_milestones": [0.5],
        "defense": {"alpha": 0.3},
        "batch_size": 9,
        "image_size": side,
    }
    return check(raw, "lowres")


def stages_of(name, protocol="clean", **changes):
    return inversion_stages(sweep({**ATTACKS[name], **changes}, protocol), 1)


@pytest.mark.parametrize("name", ["gmi", "lomma_ked"])
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


@pytest.mark.parametrize(("name", "protocol"), [("ked", "paper"), ("gmi", "clean")])
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


def killed_and_whole(config, inputs, folder):
    """Metrics of a part whose first process was killed between two steps, and of one that ran through."""
    for name in ("whole", "killed"):
        for place in ("work", "out"):
            (folder / name / place).mkdir(parents=True)
    places = {name: str(path) for name, path in inputs.items()}
    given = json.dumps([config, places, str(folder / "killed"), torch.get_num_threads()])
    done = subprocess.run([sys.executable, "-c", KILLED, given], cwd=Path(__file__).parents[2], capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    return {
        name: make_part(config, inputs, folder / name / "out", TaskContext(work=folder / name / "work"))
        for name in ("killed", "whole")
    }


@pytest.mark.parametrize("part", first_of(["students", "specific_gan"]))
def test_a_part_killed_between_two_steps_ends_as_one_that_was_not(part, paper, tmp_path):
    """Under paper: the target in training mode, whose dropout and norms must not remember what was asked before."""
    inputs = {"public": paper.folder("attack.prior.public"), "target": paper.folder("target")}
    settings = {"specific_gan": GAN, "students": {**STUDENTS, "architectures": ["resnet_small", "vgg_small"]}}[part]
    config = {"part": part, "settings": settings, "image_size": 32, "protocol": "paper"}
    metrics = killed_and_whole(config, inputs, tmp_path)
    assert metrics["killed"] == metrics["whole"]
    files = sorted(path.name for path in (tmp_path / "whole" / "out").glob("*.safetensors"))
    assert len(files) == 3
    for file in files:
        killed, whole = (load_file(tmp_path / name / "out" / file) for name in ("killed", "whole"))
        assert killed.keys() == whole.keys()
        assert all(torch.equal(killed[key].nan_to_num(), whole[key].nan_to_num()) for key in whole)


GAN_PLG = {"steps": 6, "critic_steps": 2, "batch_size": 4, "width": 2, "z_dim": 4}
ATTACK = {"kind": "plg_mi", "top_n": 4, "gan": GAN_PLG, "steps": 3, "selected": 3, "seed": 9}


def sweep_of_plg(protocol="clean", **changes):
    return sweep(**{"attack": ATTACK, "protocol": protocol, **changes})


@pytest.mark.parametrize("protocol", ["clean", "paper"])
def test_a_trial_has_its_own_generator_and_no_prior(protocol, request):
    pipeline = request.getfixturevalue(protocol)
    stages = inversion_stages(sweep_of_plg(protocol), 1)
    assert stages.target.fingerprint == pipeline.stage("target").fingerprint  # another attack, the same target
    assert set(stages.attack.inputs) == {"target", "plg_gan"}
    assert stages.reconstructions.inputs == {"plg_gan": stages.attack.inputs["plg_gan"], "attack": stages.attack}
    execute_with_inputs(pipeline.store, stages.reconstructions)
    gan, attack = (pipeline.store.path(stage) for stage in (stages.attack.inputs["plg_gan"], stages.attack))
    generator, found = load_network(gan, "generator"), load_tensors(attack / "reconstructions.safetensors")
    assert found["w"].shape == (9, 1, 5) and torch.equal(found["w"][:, 0, -1].long(), found["labels"])
    images, reconstructions = (
        generator.synthesize(found["w"]),
        reconstructed_images(pipeline.store.path(stages.reconstructions), 32),
    )
    expected = ((images.clamp(-1, 1) + 1) * 127.5).round() if protocol == "clean" else images
    assert (reconstructions["images"].float() - expected).abs().max() <= (1 if protocol == "clean" else 2e-3)
    asked = json.loads((attack / "manifest.json").read_text())["metrics"]["queries"]
    assert asked == 3 * (2 * 3 + 1)  # restarts x (steps in two views, and a last look)
    assert json.loads((gan / "manifest.json").read_text())["metrics"]["queries"] == 6 * 4


def test_trials_of_the_same_target_share_the_gan_whatever_is_searched():
    one, other = (
        inversion_stages(sweep_of_plg(attack={**ATTACK, **change}), 1) for change in ({}, {"steps": 4, "lr": 0.2})
    )
    assert one.attack.inputs["plg_gan"].fingerprint == other.attack.inputs["plg_gan"].fingerprint
    assert one.attack.fingerprint != other.attack.fingerprint
    fewer = inversion_stages(sweep_of_plg(attack={**ATTACK, "top_n": 3}), 1)
    assert fewer.attack.inputs["plg_gan"].fingerprint != one.attack.inputs["plg_gan"].fingerprint


NO_PUBLIC = {"public": None, "prior": {"kind": "shipped"}}


@pytest.mark.parametrize(
    ("attack", "changes", "message"),
    [
        (ATTACKS["gmi"], NO_PUBLIC, "public: expected the images that this attack learns"),
        ({"kind": "gmi"}, {}, r"public: expected at least attack.gan.batch_size \(64\) images, got 30"),
        (
            {**ATTACKS["lomma_ked"], "students": {"architectures": ["resnet9"]}},
            {},
            "attack.students.architectures: expected one of .*efficientnet_b0.*, got 'resnet9'",
        ),
        ({**ATTACK, "top_n": 31}, {}, r"attack.top_n: expected at most the 30 public images, got 31"),
        (ATTACK, NO_PUBLIC, "public: expected the images that this attack learns from"),
        *(
            (attack, {"side": 224}, r"recipe\.image_size: expected 32 or 64 pixels with this attack, got 224")
            for attack in ATTACKS.values()
        ),
    ],
)
def test_a_sweep_that_cannot_be_attacked_is_refused_when_it_is_read(attack, changes, message):
    with pytest.raises(InputError, match=message) as refusal:
        sweep(attack, **changes)
    assert "\n" not in str(refusal.value)


ONLY_EVALUATOR = {"embedder": None, "knowledge": None}


def trial_of(attack, protocol):
    settings = sweep(attack, protocol)
    judges = settings.judges.model_copy(update=ONLY_EVALUATOR)
    return inversion_stages(settings.model_copy(update={"judges": judges}), 1)


def judged(pipeline, attack):
    """The trial's stages, its evaluator's metrics and rows."""
    stages = trial_of(attack, "paper")
    execute_with_inputs(pipeline.store, stages.judges.get("judge_evaluator"))
    folder = pipeline.store.path(stages.judges.get("judge_evaluator"))
    metrics = pipeline.store.manifest(stages.judges.get("judge_evaluator"))["metrics"]
    return stages, metrics, pd.read_parquet(folder / "per_image.parquet")


def made_of_official_reports(pipeline, stages, part):
    """Latents in their order, and the images that the attack's generator makes of them, unclipped."""
    found = load_tensors(pipeline.store.path(stages.attack) / "reconstructions.safetensors")
    generator = load_network(pipeline.store.path(stages.attack.inputs[part]), "generator")
    with torch.no_grad():
        return found, generator.synthesize(found["w"])


def test_plgs_distance_is_that_of_saved_pictures_and_its_spread_that_of_restarts(paper):
    stages, metrics, rows = judged(paper, ATTACK)
    assert stages.judges.get("judge_evaluator").config["report"] == {"of": "plg", "classes": 60}
    found, images = made_of_official_reports(paper, stages, "plg_gan")
    config = paper.config("judge_evaluator.evaluator")
    evaluator = load_classifier(paper.folder("judge_evaluator.evaluator"), config, "cpu")
    pictures = stretched((images + 1) / 2).float() / 127.5 - 1
    features, real = evaluator.embed(aligned_corners(pictures, 32)), paper.tensors("judge_evaluator.real", "features")
    between = torch.cdist(features.double(), real["train_features"].double()).square()
    between[found["labels"][:, None] != real["train_labels"]] = torch.inf
    assert metrics["dist_knn"] == pytest.approx(between.amin(1).mean().item(), rel=1e-3)
    assert metrics["dist_knn_plain"] == pytest.approx(between.amin(1).sqrt().mean().item(), rel=1e-3)
    assert metrics["dist_knn"] != pytest.approx(metrics["dist_eval"], rel=1e-3)  # of the images themselves
    share = rows.assign(restart=found["restart"].numpy()).groupby("restart")["hit"].mean()
    assert metrics["attack_acc1_std_batches"] == pytest.approx(statistics.stdev(share))


@pytest.mark.parametrize(("of", "spread"), [("lomma", 2 * 0.5**0.5 / 3), ("plg", (1 / 3) ** 0.5)])
def test_lommas_spread_is_a_mean_of_deviations_and_plgs_the_root_of_a_mean_of_variances(tmp_path, of, spread):
    """Three classes, a batch each, of two restarts: one right, both right, one right."""
    labels, answers = torch.tensor([0, 0, 1, 1, 2, 2]), torch.tensor([0, 1, 1, 1, 0, 2])
    save_tensors(tmp_path / "reconstructions.safetensors", {"restart": torch.tensor([0, 1] * 3)})
    config = {"report": {"of": of, "classes": 1}}
    found = reported(config, {"attack": tmp_path}, torch.eye(3)[answers], labels, "cpu")
    assert found == {"attack_acc1_std_batches": pytest.approx(spread)}


@pytest.mark.parametrize(("name", "spread"), [("restart", 0.5**0.5), ("draw", 0.5**0.5), ("other", 0.0)])
def test_restarts_and_draws_are_those_that_the_attack_numbered(tmp_path, name, spread):
    """Of two classes in one batch the first restart is right and the second wrong; best first they stand otherwise."""
    labels, answers = torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 0, 1])
    save_tensors(tmp_path / "reconstructions.safetensors", {name: torch.tensor([0, 1, 1, 0])})
    config = {"report": {"of": "lomma", "classes": 2}}
    found = reported(config, {"attack": tmp_path}, torch.eye(2)[answers], labels, "cpu")
    assert found == {"attack_acc1_std_batches": pytest.approx(spread)}


@pytest.mark.parametrize("attack", [*ATTACKS, "plg_mi"])
def test_protocol_clean_has_no_such_report_and_keeps_its_stages(attack):
    stages = trial_of(ATTACK if attack == "plg_mi" else ATTACKS[attack], "clean")
    assert stages.judges.get("judge_evaluator").config == {"protocol": "clean"}
    assert set(stages.judges.get("judge_evaluator").inputs) == {"evaluator", "real", "loot"}
    assert set(stages.reconstructions.config) == {"protocol", "crop"}
