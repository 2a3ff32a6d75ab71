"""LOMMA's and PLG-MI's FID in the features of a small network: which images count, how they are shown, and when none.

What the networks are shown is held against the official code in tests/core/models/test_lowres_fid.py.
"""

import numpy as np
import pandas as pd
import pytest
import scipy.linalg
import torch
import torch.nn.functional as F

from smoothsweep.core.models.fid import PUBLISHED_FIDS
from smoothsweep.tasks import judges
from smoothsweep.tasks.context import TaskContext
from smoothsweep.tasks.files import load_tensors, save_rows, save_tensors

NAMES, SIDE = ("fid_lomma", "fid_plg"), 16


class Pooled(torch.nn.Module):
    """[N, 3, 299, 299] -> the means of its four quarters, [N, 12]."""

    def forward(self, images):
        assert images.shape[1:] == (3, 299, 299)
        return F.adaptive_avg_pool2d(images, 2).flatten(1)


@pytest.fixture(autouse=True)
def network(monkeypatch):
    monkeypatch.setattr(judges, "load_network", lambda config, device: Pooled().to(device))


def noise(count, classes, seed, side=SIDE):
    """Floats in [-1, 1] whose quarters differ, and labels that go round."""
    coarse = torch.rand(count, 3, 2, 2, generator=torch.Generator().manual_seed(seed)) * 2 - 1
    return F.interpolate(coarse, size=(side, side)), torch.arange(count) % classes


def frechet(a, b):
    means, covariances = [x.mean(0).numpy() for x in (a, b)], [np.cov(x.numpy().T) for x in (a, b)]
    root = scipy.linalg.sqrtm(covariances[0] @ covariances[1]).real
    return ((means[0] - means[1]) ** 2).sum() + np.trace(covariances[0] + covariances[1] - 2 * root)


def judged(folder, name, images, labels, hits, real, real_labels, file="images_decoded"):
    save_tensors(folder / "loot" / f"{file}.safetensors", {"images": images, "labels": labels})
    save_tensors(folder / "real" / "features.safetensors", {"train_features": real, "train_labels": real_labels})
    (folder / "verdicts").mkdir(parents=True)
    save_rows(folder / "verdicts" / "per_image.parquet", pd.DataFrame({"hit": hits}))
    inputs = {part: folder / part for part in ("loot", "real", "verdicts")}
    config = {"network": name, "side": SIDE}
    return judges.judge_by_published_fid(config, inputs, folder / "out", TaskContext(work=folder))


@pytest.mark.parametrize("name", NAMES)
def test_what_the_evaluator_recognises_is_compared_with_the_right_real_images(tmp_path, name):
    images, labels = noise(30, 2, 1)
    real, real_labels = torch.rand(40, 12, generator=torch.Generator().manual_seed(2)), torch.arange(40) % 4
    hits = [row % 3 != 0 for row in range(30)]
    metrics = judged(tmp_path, name, images, labels, hits, real, real_labels)
    shown = Pooled()(PUBLISHED_FIDS[name].made(images[torch.tensor(hits)]))
    kept = real[real_labels < 2] if name == "fid_lomma" else real  # LOMMA's: of the attacked classes
    assert metrics == {name: pytest.approx(frechet(kept.double(), shown.double()), rel=1e-3), f"{name}_images": 20}
    written = load_tensors(tmp_path / "out" / "features.safetensors")
    assert torch.equal(written["labels"], labels[torch.tensor(hits)])
    torch.testing.assert_close(written["features"], shown)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("recognised", [0, 1])
def test_with_fewer_than_two_hits_there_is_none_and_the_count_says_so(tmp_path, name, recognised):
    images, labels = noise(4, 2, 1)
    hits = [row < recognised for row in range(4)]
    metrics = judged(tmp_path, name, images, labels, hits, torch.rand(8, 12), torch.arange(8) % 2)
    assert metrics == {name: None, f"{name}_images": recognised}


def test_of_more_than_a_batch_plgs_rest_is_left_out(tmp_path):
    images, labels = noise(110, 2, 3)
    real, real_labels = torch.rand(230, 12, generator=torch.Generator().manual_seed(4)), torch.arange(230) % 2
    metrics = judged(tmp_path, "fid_plg", images, labels, [True] * 110, real, real_labels)
    shown = Pooled()(PUBLISHED_FIDS["fid_plg"].made(images))
    expected = frechet(real[:200].double(), shown[:100].double())
    assert metrics == {"fid_plg": pytest.approx(expected, rel=1e-3), "fid_plg_images": 110}


@pytest.mark.parametrize("name", NAMES)
def test_of_protocol_clean_the_bytes_are_judged_at_the_targets_size(tmp_path, name):
    images, labels = noise(12, 2, 5, side=2 * SIDE)
    steps = images.add(1).mul(127.5).round().to(torch.uint8)
    metrics = judged(tmp_path, name, steps, labels, [True] * 12, torch.rand(20, 12), torch.arange(20) % 2, "images")
    reduced = F.interpolate(steps.float(), size=(SIDE, SIDE), mode="bilinear", antialias=True).round().to(torch.uint8)
    written = load_tensors(tmp_path / "out" / "features.safetensors")["features"]
    torch.testing.assert_close(written, Pooled()(PUBLISHED_FIDS[name].made(reduced)))
    assert metrics[f"{name}_images"] == 12 and metrics[name] > 0
