from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from smoothsweep.core.attacks.optimisation.losses import (
    ATTACK_LOSSES,
    attack_loss,
    cross_entropy_loss,
    logit_loss,
    max_margin_loss,
    poincare_loss,
)
from smoothsweep.core.errors import InputError

GOLDEN = np.load(Path(__file__).parents[3] / "golden" / "ppa.npz")
NORMS = ("computed", "analytic")


def golden(name):
    return torch.from_numpy(GOLDEN[name])


@pytest.mark.parametrize(("norm", "tolerance"), [("computed", 1e-4), ("analytic", 1e-3)])
def test_poincare_matches_the_official_values_and_gradient(norm, tolerance):
    logits = golden("poincare_logits").requires_grad_()
    loss = poincare_loss(logits, golden("poincare_targets"), norm=norm)
    torch.testing.assert_close(loss, golden("poincare_loss"), atol=tolerance, rtol=0)
    loss.mean().backward()
    torch.testing.assert_close(logits.grad, golden("poincare_grad_of_mean"), rtol=1e-3, atol=1e-9)


def test_the_analytic_form_is_exact_in_double_precision():
    loss = poincare_loss(golden("poincare_logits").double(), golden("poincare_targets"), norm="analytic")
    torch.testing.assert_close(loss, golden("poincare_loss_float64_exact"), atol=1e-9, rtol=0)


@pytest.mark.parametrize("norm", NORMS)
def test_poincare_matches_for_other_xi(norm):
    for xi, expected in zip(GOLDEN["poincare_xi_values"], golden("poincare_xi_loss"), strict=True):
        loss = poincare_loss(golden("poincare_logits"), golden("poincare_targets"), xi=float(xi), norm=norm)
        torch.testing.assert_close(loss, expected, atol=1e-2 if xi < 5e-5 else 1e-3, rtol=0)


@pytest.mark.parametrize("norm", NORMS)
def test_poincare_is_finite_where_the_official_code_is_not(norm):
    logits = golden("poincare_edge_logits").requires_grad_()
    loss = poincare_loss(logits, golden("poincare_edge_targets"), norm=norm)
    loss.sum().backward()
    assert loss.isfinite().all() and logits.grad.isfinite().all()
    tolerance = torch.tensor([1e-3, 1e-3, 1e-3, 5e-2, 5e-2, 1e-3])
    assert ((loss - golden("poincare_edge_loss"))[3:].abs() <= tolerance).all()
    # a saturated wrong answer is further from the target than a saturated right one
    assert loss[0] < loss[2] < loss[1]
    assert loss[2].item() == pytest.approx(math.acosh(9999.5), abs=1e-3)
    assert (logits.grad[1:3].abs().amax(1) > 0).all()


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("scale", [1e-44, 1e-25, 1.0, 1e30])
def test_poincare_stays_finite_at_extreme_scales(norm, scale):
    logits = (golden("poincare_logits") * scale).requires_grad_()
    loss = poincare_loss(logits, golden("poincare_targets"), norm=norm)
    loss.sum().backward()
    assert loss.isfinite().all() and logits.grad.isfinite().all()


@pytest.mark.parametrize("norm", NORMS)
@settings(deadline=None)
@given(
    logits=hnp.arrays(np.float32, (3, 6), elements=st.integers(-160, 160).map(lambda i: i / 8)),
    scale=st.floats(1e-3, 1e3),
    target=st.integers(0, 5),
)
def test_poincare_is_finite_and_ignores_the_scale(norm, logits, scale, target):
    x = torch.from_numpy(logits).double().requires_grad_()
    labels = torch.full((3,), target)
    loss = poincare_loss(x, labels, norm=norm)
    loss.sum().backward()
    assert loss.isfinite().all() and (loss >= 0).all() and x.grad.isfinite().all()
    torch.testing.assert_close(
        poincare_loss(x.detach() * scale, labels, norm=norm), loss.detach(), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("name", sorted(ATTACK_LOSSES))
@pytest.mark.parametrize("protocol", ["paper", "clean"])
def test_every_loss_is_per_sample_and_lower_for_the_right_class(name, protocol):
    logits = torch.tensor([[4.0, 1.0, 0.5], [1.0, 4.0, 0.5]])
    loss = attack_loss(name, protocol)(logits, torch.tensor([0, 0]))
    assert loss.shape == (2,) and loss[0] < loss[1]


def test_the_paper_protocol_keeps_the_rounding_of_the_official_loss():
    logits, targets = golden("poincare_logits"), golden("poincare_targets")
    paper, clean = (attack_loss("poincare", protocol)(logits, targets) for protocol in ("paper", "clean"))
    gap = (paper - clean).abs()
    assert (gap > 1e-5).all() and (gap < 3e-4).all()


def test_losses_that_do_not_saturate_at_values_worked_out_by_hand():
    """At 40 logits ahead float32 gives cross-entropy 0 and no gradient of the class; margin and logit go on."""
    logits, targets = torch.tensor([[2, 0.5, -1]] * 3), torch.arange(3)
    assert logit_loss(logits, targets).tolist() == [-2, -0.5, 1]
    assert max_margin_loss(logits, targets).tolist() == [-1.5, 1.5, 3]
    tempered = cross_entropy_loss(logits / 4, targets)
    torch.testing.assert_close(tempered, torch.tensor([0.769949, 1.144949, 1.519949]))
    for loss, ahead in ((logit_loss, 1), (max_margin_loss, 1), (cross_entropy_loss, 0)):
        sure = torch.tensor([[40.0, 0, 0]], requires_grad=True)
        loss(sure, torch.tensor([0])).sum().backward()
        assert sure.grad[0, 0] == -ahead


def test_wrong_input_is_named():
    with pytest.raises(InputError, match="expected one of cross_entropy, logit, max_margin, poincare"):
        attack_loss("hinge", "clean")
    with pytest.raises(InputError, match=r"targets: expected int64 \[2\]"):
        poincare_loss(torch.zeros(2, 3), torch.zeros(3, dtype=torch.int64))
    with pytest.raises(InputError, match="logits"):
        cross_entropy_loss(torch.zeros(2, 3, 1), torch.zeros(2, dtype=torch.int64))
    with pytest.raises(InputError, match="xi"):
        poincare_loss(torch.zeros(2, 3), torch.zeros(2, dtype=torch.int64), xi=0.0)
