"""A judge's word about real pictures comes from those it did not learn, whichever judge it is."""

import numpy as np
import pytest
import torch
from torch import nn

from smoothsweep.core.audit import judging
from smoothsweep.core.audit.judging import fit_embedder, train_evaluator
from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.data.labelled import SplitImages

SIZE, CLASSES = 32, 3
NAMES = ("Zoe", "Ann", "Bob")


def shades(labels, seed):
    """Pictures whose shade says the class."""
    draw = np.random.default_rng(seed)
    levels = np.array([30, 120, 220])[labels][:, None, None, None]
    pixels = draw.normal(levels, 6, (len(labels), 3, SIZE, SIZE)).clip(0, 255).astype(np.uint8)
    return torch.from_numpy(pixels)


@pytest.fixture(scope="module")
def people():
    """All training labels are right; of the 30 test labels a third are wrong, unevenly by class, in no order."""
    draw = np.random.default_rng(4)
    true = draw.permutation(np.repeat([0, 1, 2], 40))
    shown = draw.permutation(np.repeat([0, 1, 2], [15, 9, 6]))
    said = shown.copy()
    said[:10] = (said[:10] + 1) % CLASSES
    train = ImageSet(images=shades(true, 1), labels=torch.from_numpy(true), names=NAMES)
    test = ImageSet(images=shades(shown, 2), labels=torch.from_numpy(said), names=NAMES)
    return SplitImages(train=train, test=test, notes=())


class Shade(nn.Module):
    """An embedder that sees the mean shade."""

    def forward(self, images):
        shade = images.flatten(1).mean(1, keepdim=True)
        return nn.functional.normalize(torch.cat([shade, shade**2, torch.ones_like(shade)], 1), dim=1)


@pytest.fixture(scope="module", params=["evaluator", "embedder", "general"])
def judge(request, people):
    if request.param == "evaluator":
        training = {"epochs": 12, "batch_size": 24}
        return train_evaluator(people, architecture="resnet_small", seed=1, device="cpu", training=training)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judging, "load_embedder", lambda name, weights: Shade())
        patch.setattr(judging, "GENERAL", {"shade": Shade} if request.param == "general" else {})
        return fit_embedder(people, "shade", weights=None, device="cpu")


def test_sensitivity_is_measured_on_test_images(judge, people):
    """It has learnt the training images without error, and must not say so."""
    told, hits = judge.hits(people.train.images, people.train.labels)
    assert hits.all() and torch.equal(told, people.train.labels)
    right = (judge.logits(people.test.images).argmax(1) == people.test.labels).double().mean().item()
    assert judge.sensitivity.share == pytest.approx(right) == pytest.approx(20 / 30)
    assert judge.sensitivity.trials == len(people.test) == 30


def test_hits_are_the_label_that_it_sees(judge, people):
    """Under labels that are wrong on purpose: what it sees and what was asked for are two things."""
    images, labels = people.test.images, people.test.labels
    seen, hits = judge.hits(images, labels)
    assert torch.equal(hits, seen == labels) and 0 < hits.double().mean() < 1
