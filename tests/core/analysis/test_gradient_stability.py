"""Gradient stability on targets whose gradients are known: recomputed, saturated, and with nothing to follow."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from smoothsweep.core.analysis.gradients import band_over_classes, follow_gradients, random_starts
from smoothsweep.core.attacks.ppa.config import Averaging
from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.gradients import Gradients

SIZE, CLASSES = 4, 3
STILL = {"crop_scale": (1.0, 1.0), "truncation_cutoff": None, "steps": 4, "per_class": 3, "lr": 0.1}


class Linear:
    """A prior of images that are the latents themselves: w [N, 1, 48] -> [N, 3, 4, 4]."""

    num_ws, w_dim, z_dim, resolution = 1, 3 * SIZE * SIZE, 3 * SIZE * SIZE, SIZE

    def sample_z(self, n, seed):
        return torch.randn(n, self.z_dim, generator=torch.Generator().manual_seed(seed)).double().numpy()

    def map(self, z, *, psi=1.0, cutoff=None):
        return psi * z[:, None]

    def synthesize(self, w):
        return w[:, 0].reshape(-1, 3, SIZE, SIZE)


class Head(nn.Module):
    """Logits that are linear in the pixels, times a scale: the larger, the sooner the softmax is saturated."""

    def __init__(self, scale):
        super().__init__()
        self.register_buffer("weight", torch.randn(CLASSES, 48, generator=torch.Generator().manual_seed(5)))
        self.scale = scale

    def forward(self, images):
        return self.scale * images.flatten(1) @ self.weight.T


def followed(scale, loss, **changes):
    settings = Gradients(**{**STILL, **changes})
    return settings, follow_gradients(
        Linear(),
        Head(scale),
        1,
        settings,
        loss,
        protocol="clean",
        image_size=SIZE,
        execution=Execution(ExecutionConfig(), "cpu"),
    )


def test_every_number_is_that_of_the_descent_written_out():
    settings, path = followed(0.3, "cross_entropy")
    w = random_starts(Linear(), settings, 1, "cpu")[:, 0].clone().requires_grad_(True)
    adam, before, head = torch.optim.Adam([w], lr=0.1, betas=(0.1, 0.1)), None, Head(0.3)
    for step in range(4):
        logits = head(w.view(-1, 3, SIZE, SIZE))
        adam.zero_grad()
        F.cross_entropy(logits, torch.full((3,), 1), reduction="sum").backward()
        others = (logits[:, 0] + logits[:, 2]) / 2
        assert torch.allclose(path["logit_gap"][step], (logits[:, 1] - others).detach(), atol=1e-4)
        if before is not None:
            assert torch.allclose(path["cosine"][step], F.cosine_similarity(w.grad, before), atol=1e-5)
        before = w.grad.clone()
        adam.step()
    assert path["cosine"][0].isnan().all() and (path["zero"] == 0).all() and (path["saturated"] == 0).all()


def test_a_saturated_target_shows_as_zero_gradients_of_cross_entropy_but_not_of_poincare():
    _, path = followed(1e4, "cross_entropy", per_class=12, truncation_psi=1.0)
    assert (path["saturated"] == 1).all()
    settled = path["zero"] == 1  # where the class itself has probability 1
    assert settled.any() and not settled.all()
    assert (path["logit_gap"][settled] > 0).all()
    assert path["cosine"][1:][settled[1:]].isnan().all()
    _, other = followed(1e4, "poincare", per_class=12, truncation_psi=1.0)
    assert (other["zero"] == 0).all() and (other["saturated"] == 1).all()


def test_the_band_is_students_t_over_the_classes_that_have_a_value():
    curves = torch.tensor([[math.nan, 0.2], [math.nan, 0.4], [0.5, 0.9]])
    (first, second) = band_over_classes(curves, "cosine")
    assert first[0] == 0.5 and math.isnan(first[1]) and first[3] == 1
    values = torch.tensor([0.2, 0.4, 0.9])
    half = 4.302653 * float(values.std()) / 3**0.5
    assert second[0] == pytest.approx(0.5) and second[3] == 3
    assert second[1] == pytest.approx(max(-1, 0.5 - half), abs=1e-5) and second[2] == 1.0  # a cosine is no more
    assert band_over_classes(torch.full((2, 1), math.nan), "zero")[0][3] == 0


@pytest.mark.parametrize("wrong", [{"crop_scale": (0.5, 0.2)}, {"crop_scale": (0.0, 1.5)}])
def test_impossible_crops_are_refused(wrong):
    with pytest.raises(InputError, match=r"judges\.gradients\.crop_scale"):
        Gradients(**wrong)


def test_an_averaged_gradient_is_followed_too():
    _, plain = followed(0.3, "cross_entropy")
    _, averaged = followed(0.3, "cross_entropy", average=Averaging(views=3))
    assert averaged["cosine"].shape == plain["cosine"].shape and not torch.allclose(
        averaged["cosine"][1:], plain["cosine"][1:]
    )
    assert torch.allclose(averaged["saturated"], plain["saturated"])
