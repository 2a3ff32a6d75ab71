"""Which classes of a pass are tried, and what counts as the same."""

import pytest
import torch

from smoothsweep.core.attacks.optimisation.descent import StepGradient, descend
from smoothsweep.core.attacks.shared.together import (
    descent_rows,
    same_bits,
    same_tensors,
)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ([1.0, float("nan")], [1.0, float("nan")], True),
        ([0.0], [-0.0], False),
        ([1.0], [1.0 + 2**-23], False),
        ([1.0], [1.0, 1.0], False),
    ],
)
def test_bits_are_compared_not_values(one, other, expected):
    assert same_bits(torch.tensor(one), torch.tensor(other)) is expected


def descent(w):
    def gradient(w, step):
        return StepGradient(loss=w.detach().sum(1), latent=w.detach() * (step + 1), image=w.detach()[:, :2] + step)

    return descend(w, gradient, steps=3, lr_at=lambda step: 0.1, betas=(0.9, 0.9))


def test_rows_of_a_descent_are_the_descent_of_these_rows():
    w = torch.randn(6, 8, generator=torch.Generator().manual_seed(0))
    whole, middle = descent(w), descent(w[2:4])
    assert same_tensors(descent_rows(whole, slice(2, 4)), middle)
    assert not same_tensors(descent_rows(whole, slice(1, 3)), middle)
