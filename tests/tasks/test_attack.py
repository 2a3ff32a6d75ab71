"""The attack's stages against the method written out: pool, candidates, every class's descent and selection."""

import hashlib
import math

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torchvision.transforms import functional as tvf

from smoothsweep.core.attacks.optimisation.crops import CropRule, apply_crops, draw_crop_per_image, draw_shared_crop
from smoothsweep.core.attacks.ppa.attack import PlugAndPlay
from smoothsweep.core.seeds import generator
from smoothsweep.tasks.attack import invert_classes
from smoothsweep.tasks.context import MachineLeaving, TaskContext, ask_machine_leaving
from smoothsweep.tasks.training import load_classifier

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
