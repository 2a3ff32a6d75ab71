"""Attacks as stages: pools, classes, parts, latents and images, targets that select."""

import json
import shutil
from dataclasses import dataclass
from types import SimpleNamespace
from typing import ClassVar

import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from smoothsweep.core.attacks.gan_networks import ConditionalGenerator, with_class
from smoothsweep.core.attacks.registry import ATTACKS, save_network
from smoothsweep.core.attacks.shared.base import Attack, Reconstructions
from smoothsweep.core.attacks.training_settings import ConditionalConfig
from smoothsweep.core.data.images import to_uint8
from smoothsweep.core.errors import InputError
from smoothsweep.core.priors.registry import save_prior
from smoothsweep.core.priors.settings import StyleGAN2Config
from smoothsweep.core.priors.stylegan2 import StyleGAN2
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.tasks import reconstructions
from smoothsweep.tasks.attack import CHECKPOINT, WorkFolder, collect_classes, invert_classes
from smoothsweep.tasks.classes import batches, class_file, classes_of_stage, classes_without_file, groups
from smoothsweep.tasks.context import MachineLeaving, TaskContext, ask_machine_leaving
from smoothsweep.tasks.files import load_tensors, save_tensors
from smoothsweep.tasks.reconstructions import reconstructed_images
from smoothsweep.tasks.training import load_classifier
from tests.tasks.settings_tables import made

CLASSES, POOL, CANDIDATES, SELECTED, REPEATS = 3, 16, 5, 3, 4
STEPS, LR, BETAS, BATCH = 3, 0.05, (0.1, 0.1), 2


def synthesised(prior, w):
    """w [n, 1, 12] -> images [n, 3, 32, 32]: the mean face and the components, each by its deviation."""
    return prior["mean"] + ((w[:, 0] * prior["std"]) @ prior["components"]).view(-1, 3, 32, 32)


def shown(images):
    """What a target gets: the central 28 pixels, enlarged to 32."""
    return F.interpolate(images[:, :, 2:30, 2:30], size=(32, 32), mode="bilinear", align_corners=False, antialias=True)


def test_an_attack_on_a_machine_that_leaves_keeps_its_classes_and_does_the_rest_elsewhere(clean, tmp_path):
    config, inputs = {**clean.config("attack"), "average": {"views": 1}}, clean.inputs("attack")  # one by one
    (tmp_path / "calm").mkdir()
    invert_classes(config, inputs, [0, 1, 2], TaskContext(work=tmp_path / "calm"))
    asked = iter([False, True])
    with ask_machine_leaving(lambda: next(asked)), pytest.raises(MachineLeaving):
        invert_classes(config, inputs, [0, 1, 2], TaskContext(work=tmp_path))
    (first,) = (tmp_path / "classes").iterdir()
    made = first.stat().st_mtime_ns
    invert_classes(config, inputs, [0, 1, 2], TaskContext(work=tmp_path))
    assert first.stat().st_mtime_ns == made
    found, calm = (sorted((place / "classes").iterdir()) for place in (tmp_path, tmp_path / "calm"))
    assert [load_file(path)["row.w"].tolist() for path in found] == [load_file(path)["row.w"].tolist() for path in calm]


@given(
    st.lists(st.integers(0, 10_000), unique=True, max_size=300),
    st.integers(1, 64),
    st.none() | st.integers(1, 50),
    st.integers(1, 20),
)
def test_groups_hold_every_class_once_in_order_and_leave_batches_whole(classes, devices, per_task, together):
    whole = batches(classes, together)
    cut = groups(whole, devices=devices, per_task=per_task)
    assert [c for batch in whole for c in batch] == [c for group in cut for c in group] == classes
    assert all(group for group in cut) and all(len(batch) == together for batch in whole[:-1])
    assert all(any(set(batch) <= set(group) for group in cut) for batch in whole)
    if per_task:
        assert all(len(group) <= max(per_task, together) for group in cut)


def test_finished_classes_are_not_done_again(tmp_path):
    half_written = ".000004.safetensors.17"  # by a worker that was killed
    assert classes_without_file([2, 3, 4], {class_file(tmp_path, 3).name, half_written}) == [2, 4]


@pytest.mark.parametrize(("listed", "expected"), [("all", [0, 1, 2, 3]), (2, [0, 1]), ([3, 0], [3, 0]), ((1,), [1])])
def test_the_classes_of_a_stage_are_those_that_it_lists(listed, expected):
    assert classes_of_stage({"classes": listed}, 4) == expected


def test_a_class_that_the_data_do_not_have_is_refused():
    with pytest.raises(InputError, match=r"^classes: expected labels below 4, got 4$"):
        classes_of_stage({"classes": [0, 4]}, 4)


def folder(work, queries):
    return WorkFolder(TaskContext(work=work), SimpleNamespace(queries=queries))


def test_what_was_shown_before_a_state_counts_with_what_is_shown_after_it(tmp_path):
    first = folder(tmp_path, 0)
    assert first.last_state() is None and first.queries == 0
    first._view.queries = 30
    first.keep_state({"step": 3, "weights": torch.ones(2)})
    first._view.queries = 45  # shown after the state, and lost with the worker
    assert first.queries == 45
    second = folder(tmp_path, 0)
    state = second.last_state()
    assert state["step"] == 3 and torch.equal(state["weights"], torch.ones(2)) and second.queries == 30
    second._view.queries = 7
    assert second.queries == 37
    second.keep_state({"step": 4})
    third = folder(tmp_path, 0)
    assert third.last_state() == {"step": 4} and third.queries == 37


def test_a_part_leaves_with_its_machine_once_its_state_is_kept(tmp_path):
    work = folder(tmp_path, 0)
    with ask_machine_leaving(lambda: True), pytest.raises(MachineLeaving):
        work.keep_state({"step": 1})
    assert (tmp_path / CHECKPOINT).is_file() and folder(tmp_path, 0).last_state() == {"step": 1}


POOL_LEFT_IMAGES = {"size": 12, "seed": 11, "truncation_psi": 0.7, "truncation_cutoff": None, "crop": 28}
COMMON = {"image_size": 32, "protocol": "clean"}
ATTACK = {
    **COMMON,
    "kind": "if_gmi",
    "pool": POOL_LEFT_IMAGES,
    "candidates": 4,
    "stage_steps": [2, 2],
    "lr": 0.05,
    "selected": 3,
    "selection_repeats": 2,
    "classes": "all",
    "seed": [9, 1],
}
ROWS = 3 * 3  # classes and images of each


@pytest.fixture(scope="module")
def left(clean, tmp_path_factory):
    """The artifact of an attack on feature maps, and its inputs."""
    folder = tmp_path_factory.mktemp("left")
    card = StyleGAN2Config(resolution=32, z_dim=8, w_dim=8, mapping_layers=1, channel_base=64, channel_max=8)
    generator = StyleGAN2(card, seed=1)
    generator.synthesis.b32.torgb.weight.data.mul_(30)  # beyond [-1, 1], where clipping shows
    save_prior(generator, folder / "prior")
    inputs = {"prior": folder / "prior", "target": clean.folder("target")}
    made("pool", {**COMMON, "part": "pool", "settings": POOL_LEFT_IMAGES}, inputs, folder / "pool")
    given = {**inputs, "pool": folder / "pool"}
    made("candidates", {**COMMON, "part": "candidates", "settings": {}}, given, folder / "candidates")
    inputs |= {"pool": folder / "pool", "candidates": folder / "candidates"}
    metrics = made("attack", ATTACK, inputs, folder / "attack")
    (folder / "attack" / "names.json").write_text((clean.folder("target") / "names.json").read_text())
    return folder / "attack", inputs, metrics


def test_the_reconstructions_are_what_the_attack_has_left(left, tmp_path):
    folder, _, _ = left
    images = load_tensors(folder / "images.safetensors")["images"].float()
    assert images.abs().max() > 1
    made("loot", {"protocol": "clean", "crop": 28}, {"attack": folder}, tmp_path / "clean")
    found = reconstructed_images(tmp_path / "clean", None)
    assert torch.equal(found["images"], to_uint8(images)) and found["labels"].tolist() == [0] * 3 + [1] * 3 + [2] * 3
    made("loot", {"protocol": "paper", "crop": 28, "sizes": [0, 20]}, {"attack": folder}, tmp_path / "paper")
    assert torch.equal(reconstructed_images(tmp_path / "paper", None)["images"].float(), images)
    assert reconstructed_images(tmp_path / "paper", 20)["images"].shape == (ROWS, 3, 20, 20)


def test_it_is_the_same_from_one_task_and_from_several_of_which_one_was_lost(left, tmp_path):
    folder, inputs, _ = left
    context = TaskContext(work=tmp_path / "work")
    for classes in ([2], [0]):  # the task of class 1 never came back
        invert_classes(ATTACK, inputs, classes, context)
    (tmp_path / "out").mkdir()
    collect_classes(ATTACK, inputs, tmp_path / "out", context)
    for name in ("images", "reconstructions", "curves"):
        whole, cut = (load_tensors(place / f"{name}.safetensors") for place in (folder, tmp_path / "out"))
        assert whole.keys() == cut.keys() and all(torch.equal(whole[key], cut[key]) for key in whole)
    shutil.rmtree(tmp_path / "work")


@dataclass(frozen=True, kw_only=True)
class Shades(Attack):
    """An attack on pixels: no prior, no latents, images alone, darker from one class to the next."""

    leaves_images: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = ()

    def invert(self, view, inputs, target_class, *, seed):
        shade = -target_class / 4 - torch.arange(self.selected) / 64
        return Reconstructions(images=shade.half()[:, None, None, None].expand(-1, 3, 16, 16).clone())


@pytest.fixture
def shades(clean, monkeypatch, tmp_path):
    """The artifact of an attack that searches in no latents."""
    monkeypatch.setitem(ATTACKS, "shades", Shades)
    config = {**COMMON, "kind": "shades", "selected": 2, "classes": [0, 2], "seed": [1]}
    made("attack", config, {"target": clean.folder("target")}, tmp_path / "attack")
    (tmp_path / "attack" / "names.json").write_text((clean.folder("target") / "names.json").read_text())
    return tmp_path / "attack"


def test_an_attack_without_latents_leaves_images_alone(shades, tmp_path):
    found = load_tensors(shades / "reconstructions.safetensors")
    assert found.keys() == {"labels"} and found["labels"].tolist() == [0, 0, 2, 2]
    made("loot", {"protocol": "clean"}, {"attack": shades}, tmp_path / "loot")
    images = reconstructed_images(tmp_path / "loot", None)
    assert images["labels"].tolist() == [0, 0, 2, 2] and images["images"].shape == (4, 3, 16, 16)
    expected = [round((1 + value) * 127.5) for value in (0, -1 / 64, -2 / 4, -2 / 4 - 1 / 64)]
    assert images["images"][:, 0, 0, 0].tolist() == expected


def test_reconstructions_of_a_parts_own_generator_are_what_that_generator_makes_of_the_latents(tmp_path):
    """Also where tanh stands for [0, 1]: what a judge gets is in [-1, 1], and unclipped under paper."""
    config = ConditionalConfig(classes=3, resolution=16, z_dim=4, width=2, output="unit")
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        generator = ConditionalGenerator(config).eval()
        generator.rgb.weight.mul_(30)  # beyond [0, 1], where clipping shows
    (tmp_path / "gan").mkdir()
    save_network(generator, tmp_path / "gan", "generator")
    z = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    w, labels = torch.cat([with_class(z[2 * c : 2 * c + 2], c) for c in range(3)]), torch.tensor([0, 0, 1, 1, 2, 2])
    save_tensors(tmp_path / "attack" / "reconstructions.safetensors", {"w": w, "labels": labels})
    (tmp_path / "attack" / "names.json").write_text(json.dumps(["a", "b", "c"]))
    (tmp_path / "gan" / "names.json").write_text(json.dumps(["a", "b", "c"]))
    inputs = {"plg_gan": tmp_path / "gan", "attack": tmp_path / "attack"}
    made("loot", {"protocol": "paper", "crop": None, "sizes": [0]}, inputs, tmp_path / "loot")
    with torch.no_grad():
        expected = 2 * generator(z, labels) - 1
    found = reconstructed_images(tmp_path / "loot", None)
    assert expected.min() < -1 and torch.equal(found["labels"], labels)
    torch.testing.assert_close(found["images"].float(), expected, rtol=1e-3, atol=2e-3)


def test_more_images_than_a_batch_lie_in_the_order_of_the_latents(clean, tmp_path):
    w = torch.randn(2 * reconstructions.BATCH + 3, 1, 12, generator=torch.Generator().manual_seed(0)) / 9
    save_tensors(tmp_path / "attack" / "reconstructions.safetensors", {"w": w, "labels": torch.arange(len(w)) % 3})
    shutil.copy(clean.folder("attack") / "names.json", tmp_path / "attack")
    inputs = {"prior": clean.folder("loot.prior"), "attack": tmp_path / "attack"}
    made("loot", clean.stage("loot").config, inputs, tmp_path / "loot")
    found = reconstructed_images(tmp_path / "loot", None)
    expected = to_uint8(synthesised(clean.tensors("loot.prior", "weights"), w)[:, :, 2:30, 2:30])
    assert torch.equal(found["labels"], torch.arange(len(w)) % 3)
    assert (found["images"].int() - expected.int()).abs().max() <= 1


UNCROPPED = {
    "crop_scale": [1.0, 1.0],
    "selection_crop_scale": [1.0, 1.0],
    "selection_crop_ratio": [1.0, 1.0],
    "selection_hflip": 0.0,
    "selection_repeats": 1,
}


def attack(pipeline, inputs=None, **changes):
    """The pipeline's attack with other settings and further inputs; its folder."""
    plain = pipeline.stage("attack")
    stage = Stage(name="attack", config={**plain.config, **changes}, inputs={**plain.inputs, **(inputs or {})})
    execute_with_inputs(pipeline.store, stage)
    return pipeline.store.path(stage)


def metrics_of(folder):
    return json.loads((folder / "manifest.json").read_text())["metrics"]


@pytest.fixture(scope="module")
def swapped(paper):
    """All candidates, optimised on the target; and the best of them to another network, which sees nothing else."""
    other = {"selection_target": paper.stage("judge_evaluator.evaluator")}
    return attack(paper, selected=CANDIDATES, **UNCROPPED), attack(paper, other, **UNCROPPED)


def test_the_other_target_selects_among_the_same_optimised_latents(paper, swapped):
    every, chosen = (load_file(folder / "reconstructions.safetensors") for folder in swapped)
    prior = paper.tensors("attack.prior", "weights")
    judge = load_classifier(paper.folder("judge_evaluator.evaluator"), paper.config("judge_evaluator.evaluator"), "cpu")
    for label in range(3):
        candidates, found = (one["w"][one["labels"] == label] for one in (every, chosen))
        with torch.no_grad():
            scores = judge(shown(synthesised(prior, candidates))).softmax(1)[:, label]
        best = scores.sort(descending=True)
        assert torch.allclose(chosen["scores"][chosen["labels"] == label], best.values[:SELECTED], atol=1e-5)
        assert torch.allclose(found, candidates[best.indices[:SELECTED]], atol=1e-5)


def test_every_target_counts_what_it_was_shown(swapped):
    alone, both = map(metrics_of, swapped)
    assert both["queries"] == alone["queries"] - CANDIDATES and both["queries_selection_target"] == CANDIDATES
    assert "queries_selection_target" not in alone
    rows = pd.read_parquet(swapped[1] / "rows.parquet")
    assert rows["queries_selection_target"].tolist() == [CANDIDATES] * 3
    assert REPEATS != 1  # the count above is of one look at each candidate


def test_the_pull_adds_the_distance_to_the_mean_feature_to_minus_the_logit(paper):
    inputs = {"target": paper.stage("target"), "pool": paper.stage("attack.pool")}
    config = {"part": "pool_features", "settings": {}, "image_size": 32, "protocol": "paper"}
    part = Stage(name="pool_features", config=config, inputs=inputs)
    changes = {**UNCROPPED, "loss": "logit", "steps": 1, "lr": 1e-9}
    pulled = attack(paper, {"pool_features": part}, **changes, feature_weight=1000.0)
    plain = attack(paper, **changes)
    target = load_classifier(paper.folder("target"), paper.config("target"), "cpu")
    mean = load_file(paper.store.path(part) / "mean.safetensors")["mean"]
    with torch.no_grad():
        usual = target.embed(paper.tensors("attack.pool", "images")["images"]).mean(0)
        pool = paper.tensors("attack.pool", "w")["w"][:, :1]
        images = shown(synthesised(paper.tensors("attack.prior", "weights"), pool))
        features, logits = target.embed(images), target(images)
    assert torch.allclose(mean, usual, atol=1e-5)
    confidences = paper.tensors("attack.candidates", "confidences")["confidences"]
    for label in range(3):
        starts = confidences[:, label].sort(descending=True, stable=True).indices[:CANDIDATES]
        logit, pull = -logits[starts, label].mean(), (features[starts] - mean).square().mean(1).mean()
        first = [float(load_file(folder / "curves.safetensors")["loss"][label, 0]) for folder in (plain, pulled)]
        assert first[0] == pytest.approx(float(logit), abs=1e-4)
        assert first[1] == pytest.approx(float(logit + 1000 * pull), abs=1e-3) and 1000 * pull > 1e-2
