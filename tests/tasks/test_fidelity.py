"""The judges of fidelity in the features of a small network in the place of Inception's: which images, and when none.

What published networks are shown is held against the official code in tests/core/models/test_lowres.py.
"""

import numpy as np
import pandas as pd
import pytest
import scipy.linalg
import torch
import torch.nn.functional as F

from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.models.fid import PUBLISHED_FIDS
from smoothsweep.tasks import judges
from smoothsweep.tasks.context import TaskContext
from smoothsweep.tasks.files import load_tensors, save_images, save_rows, save_tensors

NAMES, SIDE = ("fid_lomma", "fid_plg"), 16


class Pooled(torch.nn.Module):
    """[N, 3, 299, 299] -> the means of its four quarters, [N, 12]."""

    def forward(self, images):
        assert images.shape[1:] == (3, 299, 299)
        return F.adaptive_avg_pool2d(images, 2).flatten(1)


@pytest.fixture(autouse=True)
def network(monkeypatch):
    monkeypatch.setattr(judges, "load_network", lambda config, device: Pooled().to(device))


def noise(count, classes, seed):
    """Images whose quarters differ, and labels that go round."""
    random = torch.Generator().manual_seed(seed)
    coarse = torch.randint(0, 256, (count, 3, 2, 2), generator=random, dtype=torch.uint8)
    return F.interpolate(coarse, size=(299, 299)), torch.arange(count) % classes


def features(images, protocol):
    """At 299 pixels neither protocol resizes: paper shows 2x - 1 of [-1, 1], clean (bytes - 128) / 128."""
    shown = 2 * (images.float() / 127.5 - 1) - 1 if protocol == "paper" else (images.float() - 128) / 128
    return F.adaptive_avg_pool2d(shown, 2).flatten(1).double()


def frechet(a, b):
    means, covariances = [x.mean(0).numpy() for x in (a, b)], [np.cov(x.numpy().T) for x in (a, b)]
    root = scipy.linalg.sqrtm(covariances[0] @ covariances[1]).real
    return ((means[0] - means[1]) ** 2).sum() + np.trace(covariances[0] + covariances[1] - 2 * root)


def kernel_distance(a, b):
    """The unbiased estimate over all rows: of two sets of one size every subset is the whole."""
    within = []
    for x in (a, b):
        k = (x @ x.T / x.shape[1] + 1) ** 3
        within.append((k.sum() - k.diagonal().sum()) / (len(x) * (len(x) - 1)))
    return (sum(within) - 2 * ((a @ b.T / a.shape[1] + 1) ** 3).mean()).item()


def shares(real, fake, k, protocol):
    """Precision, recall, density, coverage of one class."""
    between, inner = torch.cdist(fake, real), {"real": torch.cdist(real, real), "fake": torch.cdist(fake, fake)}
    radius = {name: distances.sort(1).values[:, k] for name, distances in inner.items()}
    inside = between <= radius["real"]
    if protocol == "paper":  # the ball of the nearest neighbour only; density by the number of reals
        precision = inside.gather(1, between.argmin(1, keepdim=True)).double().mean()
        recall = (between.min(0).values <= radius["fake"][between.argmin(0)]).double().mean()
        density = inside.double().sum() / (k * len(real))
    else:
        precision = inside.any(1).double().mean()
        recall = (between <= radius["fake"][:, None]).any(0).double().mean()
        density = inside.double().sum() / (k * len(fake))
    return torch.stack([precision, recall, density, inside.any(0).double().mean()])


def judged(folder, protocol, fake, fake_labels, real, real_labels):
    save_tensors(folder / "loot" / "images.safetensors", {"images": fake, "labels": fake_labels})
    tensors = {"train_features": features(real, protocol).float(), "train_labels": real_labels}
    save_tensors(folder / "real" / "features.safetensors", tensors)
    inputs = {name: folder / name for name in ("loot", "real")}
    config = {"protocol": protocol, "neighbours": 2}
    return judges.judge_by_fidelity(config, inputs, folder / "out", TaskContext(work=folder))


@pytest.mark.parametrize("protocol", ["paper", "clean"])
def test_the_reconstructions_are_measured_against_the_training_images_of_the_attacked_classes(tmp_path, protocol):
    real, real_labels = noise(24, 3, 0)
    fake, fake_labels = noise(16, 2, 1)  # of the third class nothing was reconstructed
    metrics = judged(tmp_path, protocol, fake, fake_labels, real, real_labels)
    labels = real_labels[real_labels < 2]
    a, b = features(real, protocol)[real_labels < 2], features(fake, protocol)
    torch.testing.assert_close(
        load_tensors(tmp_path / "out" / "features.safetensors")["features"].double(), b, rtol=1e-4, atol=1e-5
    )
    assert metrics["fid"] == pytest.approx(frechet(a, b), rel=1e-3)
    assert metrics["kid"] == pytest.approx(kernel_distance(a, b), rel=1e-3, abs=1e-6) and metrics["kid_std"] is None
    each = [shares(a[labels == c], b[fake_labels == c], 2, protocol) for c in range(2)]
    found = [metrics[name] for name in ("precision", "recall", "density", "coverage")]
    assert found == pytest.approx(torch.stack(each).mean(0).tolist())
    assert metrics["classes_too_small"] == 0


def test_a_class_with_too_few_images_is_counted(tmp_path):
    images, labels = noise(9, 2, 1)
    labels[1:] = 0
    labels[0] = 1
    assert judged(tmp_path, "clean", images, labels, images, labels)["classes_too_small"] == 1


def test_of_the_real_images_the_training_part_alone_is_embedded(tmp_path):
    images, labels = noise(6, 3, 2)
    for part, rows in (("train", slice(0, 4)), ("test", slice(4, 6))):
        save_images(tmp_path, part, ImageSet(images=images[rows], labels=labels[rows], names=("a", "b", "c")))
    config = {"network": "fid_inception", "protocol": "paper", "parts": ["train"]}
    metrics = judges.embed_real_images(config, {"data": tmp_path}, tmp_path / "out", TaskContext(work=tmp_path))
    found = load_tensors(tmp_path / "out" / "features.safetensors")
    assert metrics == {"feature_dim": 12} and set(found) == {"train_features", "train_labels"}
    torch.testing.assert_close(found["train_features"].double(), features(images[:4], "paper"), rtol=1e-4, atol=1e-5)


def floats(count, classes, seed, side=SIDE):
    """Floats in [-1, 1] whose quarters differ, and labels that go round."""
    coarse = torch.rand(count, 3, 2, 2, generator=torch.Generator().manual_seed(seed)) * 2 - 1
    return F.interpolate(coarse, size=(side, side)), torch.arange(count) % classes


def judged_as_published(folder, name, images, labels, hits, real, real_labels, file="images_decoded"):
    save_tensors(folder / "loot" / f"{file}.safetensors", {"images": images, "labels": labels})
    save_tensors(folder / "real" / "features.safetensors", {"train_features": real, "train_labels": real_labels})
    (folder / "verdicts").mkdir(parents=True)
    save_rows(folder / "verdicts" / "per_image.parquet", pd.DataFrame({"hit": hits}))
    inputs = {part: folder / part for part in ("loot", "real", "verdicts")}
    config = {"network": name, "side": SIDE}
    return judges.judge_by_published_fid(config, inputs, folder / "out", TaskContext(work=folder))


@pytest.mark.parametrize("name", NAMES)
def test_what_the_evaluator_recognises_is_compared_with_the_right_real_images(tmp_path, name):
    images, labels = floats(30, 2, 1)
    real, real_labels = torch.rand(40, 12, generator=torch.Generator().manual_seed(2)), torch.arange(40) % 4
    hits = [row % 3 != 0 for row in range(30)]
    metrics = judged_as_published(tmp_path, name, images, labels, hits, real, real_labels)
    shown = Pooled()(PUBLISHED_FIDS[name].made(images[torch.tensor(hits)]))
    kept = real[real_labels < 2] if name == "fid_lomma" else real  # LOMMA's: of the attacked classes
    assert metrics == {name: pytest.approx(frechet(kept.double(), shown.double()), rel=1e-3), f"{name}_images": 20}
    written = load_tensors(tmp_path / "out" / "features.safetensors")
    assert torch.equal(written["labels"], labels[torch.tensor(hits)])
    torch.testing.assert_close(written["features"], shown)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("recognised", [0, 1])
def test_with_fewer_than_two_hits_there_is_none_and_the_count_says_so(tmp_path, name, recognised):
    images, labels = floats(4, 2, 1)
    hits = [row < recognised for row in range(4)]
    metrics = judged_as_published(tmp_path, name, images, labels, hits, torch.rand(8, 12), torch.arange(8) % 2)
    assert metrics == {name: None, f"{name}_images": recognised}


def test_of_more_than_a_batch_plgs_rest_is_left_out(tmp_path):
    images, labels = floats(110, 2, 3)
    real, real_labels = torch.rand(230, 12, generator=torch.Generator().manual_seed(4)), torch.arange(230) % 2
    metrics = judged_as_published(tmp_path, "fid_plg", images, labels, [True] * 110, real, real_labels)
    shown = Pooled()(PUBLISHED_FIDS["fid_plg"].made(images))
    expected = frechet(real[:200].double(), shown[:100].double())
    assert metrics == {"fid_plg": pytest.approx(expected, rel=1e-3), "fid_plg_images": 110}


@pytest.mark.parametrize("name", NAMES)
def test_of_protocol_clean_the_bytes_are_judged_at_the_targets_size(tmp_path, name):
    images, labels = floats(12, 2, 5, side=2 * SIDE)
    steps = images.add(1).mul(127.5).round().to(torch.uint8)
    metrics = judged_as_published(
        tmp_path, name, steps, labels, [True] * 12, torch.rand(20, 12), torch.arange(20) % 2, "images"
    )
    reduced = F.interpolate(steps.float(), size=(SIDE, SIDE), mode="bilinear", antialias=True).round().to(torch.uint8)
    written = load_tensors(tmp_path / "out" / "features.safetensors")["features"]
    torch.testing.assert_close(written, Pooled()(PUBLISHED_FIDS[name].made(reduced)))
    assert metrics[f"{name}_images"] == 12 and metrics[name] > 0
