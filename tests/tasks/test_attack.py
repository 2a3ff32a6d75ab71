"""Attacks as stages: pools, classes, parts, latents and images, targets that select."""

import hashlib
import json
import math
import shutil
from dataclasses import dataclass
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from torchvision.transforms import functional as tvf

from smoothsweep.core.attacks.gan_networks import ConditionalGenerator, with_class
from smoothsweep.core.attacks.optimisation.crops import CropRule, apply_crops, draw_crop_per_image, draw_shared_crop
from smoothsweep.core.attacks.ppa.attack import PlugAndPlay
from smoothsweep.core.attacks.registry import ATTACKS, save_network
from smoothsweep.core.attacks.shared.base import Attack, Reconstructions
from smoothsweep.core.attacks.training_settings import ConditionalConfig
from smoothsweep.core.data.images import to_uint8
from smoothsweep.core.errors import InputError
from smoothsweep.core.priors.registry import save_prior
from smoothsweep.core.priors.settings import StyleGAN2Config
from smoothsweep.core.priors.stylegan2 import StyleGAN2
from smoothsweep.core.seeds import generator
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
SEED = int.from_bytes(hashlib.sha256(b"[9, 1]").digest()[:7], "big")  # the attack's seed and the trial's
OPTIMISED, SELECTING = CropRule(scale=(0.9, 1.0)), CropRule(scale=(0.5, 0.9), ratio=(0.8, 1.2), hflip=0.5)


def synthesised(prior, w):
    """w [n, 1, 12] -> images [n, 3, 32, 32]: the mean face and the components, each by its deviation."""
    return prior["mean"] + ((w[:, 0] * prior["std"]) @ prior["components"]).view(-1, 3, 32, 32)


def shown(images):
    """What a target gets: the central 28 pixels, enlarged to 32."""
    return F.interpolate(images[:, :, 2:30, 2:30], size=(32, 32), mode="bilinear", align_corners=False, antialias=True)


def target_of(pipeline):
    return load_classifier(pipeline.folder("target"), pipeline.config("target"), "cpu")


def cropped(images, rule, protocol, count, rows, *key):
    """Under paper one box of whole pixels for all, cut by torchvision; under clean a box for each of the candidates."""
    if protocol == "clean":
        return apply_crops(images, draw_crop_per_image(rule, count, 32, 32, generator(*key)).of(rows), 32)
    box = draw_shared_crop(rule, count, 32, 32, generator(*key))
    place = [int(value) for value in (box.top, box.left, box.height, box.width)]
    images = tvf.resized_crop(images, *place, [32, 32], antialias=True)
    return images.flip(3) if box.mirror else images


def poincare(logits, target_class, xi=1e-4):
    logits = logits.double()
    u = logits / logits.abs().sum(1, keepdim=True)
    v = torch.zeros_like(u)
    v[:, target_class] = 1 - xi
    gap = (1 - u.square().sum(1)) * (1 - v.square().sum(1))
    return torch.arccosh(1 + 2 * (u - v).square().sum(1) / gap)


def descended(prior, target, w, target_class, protocol):
    """Adam of the attack on w [5, 1, 12]; the last iterates, the losses [3, 5] and the image gradients [3, 5, ...]."""
    found, losses, gradients = [], [], []
    for batch, start in enumerate(range(0, CANDIDATES, BATCH)):
        rows = slice(start, min(start + BATCH, CANDIDATES))
        key = (SEED, target_class, "optimise", *([batch] if protocol == "paper" else []))
        latent, mean, square = w[rows].clone(), 0.0, 0.0
        batch_losses, batch_gradients = [], []
        for step in range(STEPS):
            latent = latent.detach().requires_grad_(True)
            seen = shown(synthesised(prior, latent))
            views = cropped(seen, OPTIMISED, protocol, CANDIDATES, rows, *key, step)
            loss = poincare(target(views), target_class)
            whole = loss.mean() if protocol == "paper" else loss.sum()
            gradient, at_image = torch.autograd.grad(whole, [latent, seen])
            mean = BETAS[0] * mean + (1 - BETAS[0]) * gradient
            square = BETAS[1] * square + (1 - BETAS[1]) * gradient**2
            first, second = mean / (1 - BETAS[0] ** (step + 1)), square / (1 - BETAS[1] ** (step + 1))
            latent = latent - LR * first / (second.sqrt() + 1e-8)
            batch_losses.append(loss.detach())
            batch_gradients.append(at_image)
        found.append(latent.detach())
        losses.append(torch.stack(batch_losses))
        gradients.append(torch.stack(batch_gradients))
    return torch.cat(found), torch.cat(losses, 1), torch.cat(gradients, 1)


def scores_of(prior, target, w, target_class, protocol):
    seen, total = shown(synthesised(prior, w)), torch.zeros(len(w))
    for repeat in range(REPEATS):
        views = cropped(seen, SELECTING, protocol, len(w), slice(None), SEED, target_class, "select", repeat)
        total += target(views).softmax(1)[:, target_class]
    return total / REPEATS


def test_the_pool_is_the_priors_images_of_seeded_latents(pipeline):
    prior, pool = pipeline.tensors("attack.prior", "weights"), pipeline.tensors("attack.pool", "w")
    w = 0.7 * torch.from_numpy(np.random.RandomState(11).randn(POOL, 12)).float()[:, None]
    torch.testing.assert_close(pool["w"], w)
    images = shown(synthesised(prior, w).clamp(-1, 1))
    torch.testing.assert_close(pipeline.tensors("attack.pool", "images")["images"], images, rtol=1e-4, atol=1e-4)
    assert pipeline.metrics("attack.pool") == {"pool_size": POOL, "rows_halved": 0}


@torch.no_grad()
def test_confidences_are_the_means_over_image_and_mirror(pipeline):
    target, images = target_of(pipeline), pipeline.tensors("attack.pool", "images")["images"]
    expected = (target(images).softmax(1) + target(images.flip(3)).softmax(1)) / 2
    found = pipeline.tensors("attack.candidates", "confidences")["confidences"]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert pipeline.metrics("attack.candidates")["queries"] == 2 * POOL


def test_every_class_is_descended_and_selected_as_the_method_says(pipeline):
    protocol = pipeline.config("attack")["protocol"]
    prior, target = pipeline.tensors("attack.prior", "weights"), target_of(pipeline)
    pool, confidences = (
        pipeline.tensors("attack.pool", "w")["w"],
        pipeline.tensors("attack.candidates", "confidences")["confidences"],
    )
    made, curves = pipeline.tensors("attack", "reconstructions"), pipeline.tensors("attack", "curves")["loss"]
    rows = pd.read_parquet(pipeline.folder("attack") / "rows.parquet")
    assert made["labels"].tolist() == [c for c in range(CLASSES) for _ in range(SELECTED)]
    assert rows["class"].tolist() == list(range(CLASSES)) and rows["num_frozen"].tolist() == [0.0] * CLASSES
    for target_class in range(CLASSES):
        index = confidences[:, target_class].argsort(descending=True)[:CANDIDATES]
        w, losses, gradients = descended(prior, target, pool[index], target_class, protocol)
        torch.testing.assert_close(curves[target_class].double(), losses.mean(1), rtol=1e-3, atol=1e-3)
        scores = scores_of(prior, target, w, target_class, protocol)
        order = scores.argsort(descending=True)[:SELECTED]
        mine = made["labels"] == target_class
        torch.testing.assert_close(made["w"][mine], w[order], rtol=1e-3, atol=2e-3)
        torch.testing.assert_close(made["scores"][mine], scores[order], rtol=1e-3, atol=1e-4)
        assert made["pool_index"][mine].tolist() == index[order].tolist()
        row = rows.iloc[target_class]
        assert row["loss_first"] == pytest.approx(losses[0].mean().item(), abs=1e-3)
        assert row["loss_last"] == pytest.approx(losses[-1].mean().item(), abs=1e-3)
        cosine = F.cosine_similarity(gradients[1:].flatten(2), gradients[:-1].flatten(2), dim=2).mean().item()
        assert row["gradient_cosine"] == pytest.approx(cosine, abs=0.01)


def test_the_attack_reports_the_means_over_its_rows(pipeline):
    metrics, rows = pipeline.metrics("attack"), pd.read_parquet(pipeline.folder("attack") / "rows.parquet")
    scores = pipeline.tensors("attack", "reconstructions")["scores"]
    assert metrics["target_conf"] == pytest.approx(scores.mean().item())
    assert metrics["gradient_cosine"] == pytest.approx(rows["gradient_cosine"].mean()) and metrics["num_frozen"] == 0
    assert math.isfinite(metrics["gradient_cosine"]) and scores.std() > 0


def test_an_attack_on_a_machine_that_leaves_keeps_its_classes_and_does_the_rest_elsewhere(clean, tmp_path, monkeypatch):
    monkeypatch.setattr(PlugAndPlay, "side_by_side", lambda attack, device: 1)
    config, inputs = clean.config("attack"), clean.inputs("attack")
    asked = iter([False, True])
    with ask_machine_leaving(lambda: next(asked)), pytest.raises(MachineLeaving):
        invert_classes(config, inputs, [0, 1, 2], TaskContext(work=tmp_path))
    (first,) = (tmp_path / "classes").iterdir()
    made = first.stat().st_mtime_ns
    invert_classes(config, inputs, [0, 1, 2], TaskContext(work=tmp_path))
    assert first.stat().st_mtime_ns == made
    found = [load_file(path)["row.w"] for path in sorted((tmp_path / "classes").iterdir())]
    assert torch.equal(torch.cat(found), clean.tensors("attack", "reconstructions")["w"])


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


@pytest.mark.parametrize(
    ("count", "together", "devices", "per_task", "sizes"),
    [
        (16, 1, 2, None, [2] * 8),
        (17, 1, 2, None, [3] * 5 + [2]),
        (3, 1, 4, None, [1] * 3),
        (16, 2, 1, None, [4] * 4),
        (4, 1, 0, None, [1] * 4),
        (7, 1, 2, 3, [3, 3, 1]),
        (8, 4, 9, 1, [4, 4]),
        (12, 4, 9, 8, [8, 4]),
        (0, 1, 3, None, []),
    ],
)
def test_groups_are_as_large_as_they_are_said_to_be(count, together, devices, per_task, sizes):
    cut = groups(batches(list(range(count)), together), devices=devices, per_task=per_task)
    assert [len(group) for group in cut] == sizes


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


def test_a_state_that_was_not_read_is_not_counted(tmp_path):
    folder(tmp_path, 30).keep_state({})
    assert folder(tmp_path, 5).queries == 5


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


def test_images_lie_beside_the_latents_in_their_order(left):
    folder, _, metrics = left
    found, kept = load_tensors(folder / "reconstructions.safetensors"), load_tensors(folder / "images.safetensors")
    assert kept["images"].shape == (ROWS, 3, 28, 28) and kept["images"].dtype == torch.float16
    assert torch.equal(kept["labels"], found["labels"]) and found["labels"].tolist() == [0] * 3 + [1] * 3 + [2] * 3
    assert "images" not in found and found["w"].shape == (ROWS, 1, 8)
    assert load_tensors(folder / "curves.safetensors")["loss"].shape == (3, 4)
    rows = pd.read_parquet(folder / "rows.parquet")
    assert rows["queries"].tolist() == [4 * (2 + 2 + 2 * 2)] * 3 and metrics["queries"] == 32
    assert set(rows["chosen_stage"]) <= {0.0, 1.0}
    assert metrics["chosen_stage"] == pytest.approx(rows["chosen_stage"].mean())


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


def synthesised_of_reconstructions(pipeline):
    """The central 28 of 32 pixels of every reconstruction, unclipped; and the labels."""
    prior, made = pipeline.tensors("loot.prior", "weights"), pipeline.tensors("attack", "reconstructions")
    images = prior["mean"] + ((made["w"][:, 0] * prior["std"]) @ prior["components"]).view(-1, 3, 32, 32)
    assert len(made["labels"].unique()) == 3 and len(torch.unique(made["w"], dim=0)) == len(made["w"])
    return images[:, :, 2:30, 2:30], made["labels"]


def resized(images, side):
    return F.interpolate(images, size=(side, side), mode="bilinear", align_corners=False, antialias=True)


def test_clean_reconstructions_are_the_cropped_image_in_bytes_under_its_own_label(clean):
    images, labels = synthesised_of_reconstructions(clean)
    reconstructions = reconstructed_images(clean.folder("loot"), 32)
    expected = ((images.clamp(-1, 1) + 1) * 127.5).round()
    assert (
        reconstructions["images"].dtype == torch.uint8
        and (reconstructions["images"].float() - expected).abs().max() <= 1
    )
    assert ((reconstructions["images"].float() - expected) != 0).float().mean() < 0.001  # of rounding
    assert torch.equal(reconstructions["labels"], labels)
    assert clean.metrics("loot") == {"num_images": len(labels), "rows_halved": 0}


def test_paper_reconstructions_are_the_unclipped_image_at_every_judges_size_under_its_own_label(paper):
    images, labels = synthesised_of_reconstructions(paper)
    names = sorted(path.name for path in paper.folder("loot").glob("*.safetensors"))
    assert names == ["images.safetensors", "images_32.safetensors"]  # the embedder resizes by itself
    for size, side in ((None, 28), (32, 32)):
        reconstructions = reconstructed_images(paper.folder("loot"), size)
        assert reconstructions["images"].dtype == torch.float16 and torch.equal(reconstructions["labels"], labels)
        torch.testing.assert_close(reconstructions["images"].float(), resized(images, side), rtol=1e-3, atol=2e-3)


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


def test_more_images_than_a_batch_lie_in_the_order_of_the_latents(clean, tmp_path, monkeypatch):
    monkeypatch.setattr(reconstructions, "BATCH", 4)
    stage = clean.stage("loot")
    inputs = {"prior": clean.folder("loot.prior"), "attack": clean.folder("attack")}
    made("loot", stage.config, inputs, tmp_path / "again")
    before, again = (reconstructed_images(folder, None) for folder in (clean.folder("loot"), tmp_path / "again"))
    assert len(before["labels"]) > 2 * 4 and torch.equal(again["labels"], before["labels"])
    assert (again["images"].int() - before["images"].int()).abs().max() <= 1
    assert len(torch.unique(again["images"].flatten(1), dim=0)) == len(torch.unique(before["images"].flatten(1), dim=0))


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
