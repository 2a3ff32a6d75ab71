"""The set judge in the features of a small network in the place of Inception's: which images, which definitions."""

import numpy as np
import pytest
import scipy.linalg
import torch
import torch.nn.functional as F

from smoothsweep.core.data.images import ImageSet
from smoothsweep.tasks import judges
from smoothsweep.tasks.context import TaskContext
from smoothsweep.tasks.files import load_tensors, save_images, save_tensors


class Pooled(torch.nn.Module):
    """[N, 3, 299, 299] -> the means of its four quarters, [N, 12]."""

    def forward(self, images):
        assert images.shape[1:] == (3, 299, 299)
        return F.adaptive_avg_pool2d(images, 2).flatten(1)


@pytest.fixture
def network(monkeypatch):
    def load(config, device):
        assert config["protocol"] in ("paper", "clean") and config.get("network", "fid_inception") == "fid_inception"
        return Pooled().to(device)

    monkeypatch.setattr(judges, "load_network", load)


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
def test_the_reconstructions_are_measured_against_the_training_images_of_the_attacked_classes(
    tmp_path, network, protocol
):
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


def test_a_class_with_too_few_images_is_counted(tmp_path, network):
    images, labels = noise(9, 2, 1)
    labels[1:] = 0
    labels[0] = 1
    assert judged(tmp_path, "clean", images, labels, images, labels)["classes_too_small"] == 1


def test_of_the_real_images_the_training_part_alone_is_embedded(tmp_path, network):
    images, labels = noise(6, 3, 2)
    for part, rows in (("train", slice(0, 4)), ("test", slice(4, 6))):
        save_images(tmp_path, part, ImageSet(images=images[rows], labels=labels[rows], names=("a", "b", "c")))
    config = {"network": "fid_inception", "protocol": "paper", "parts": ["train"]}
    metrics = judges.embed_real_images(config, {"data": tmp_path}, tmp_path / "out", TaskContext(work=tmp_path))
    found = load_tensors(tmp_path / "out" / "features.safetensors")
    assert metrics == {"feature_dim": 12} and set(found) == {"train_features", "train_labels"}
    torch.testing.assert_close(found["train_features"].double(), features(images[:4], "paper"), rtol=1e-4, atol=1e-5)
