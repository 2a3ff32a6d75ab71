from __future__ import annotations

import torch

from smoothsweep.core.attacks.optimisation.descent import StepGradient, descend

SETTINGS = {"steps": 12, "lr_at": lambda step: 0.1, "betas": (0.1, 0.2)}


def quadratic(w, step):
    gradient = 2 * w.detach()
    return StepGradient(loss=w.detach().square().flatten(1).sum(1), latent=gradient, image=gradient[:, :1])


def start():
    return torch.randn(3, 1, 4, generator=torch.Generator().manual_seed(0))


def test_it_is_adam():
    w = start().requires_grad_()
    adam = torch.optim.Adam([w], lr=0.1, betas=(0.1, 0.2), weight_decay=0.3)
    losses = []
    for _ in range(12):
        adam.zero_grad()
        loss = w.square().flatten(1).sum(1)
        loss.sum().backward()
        losses.append(loss.detach())
        adam.step()
    found = descend(start(), quadratic, **SETTINGS, weight_decay=0.3)
    torch.testing.assert_close(found.w, w.detach())
    torch.testing.assert_close(found.loss, torch.stack(losses))
    assert not found.frozen.any() and not found.w.requires_grad


def test_the_start_is_left_alone_and_rates_are_asked_for_each_step():
    w0 = start()
    rates = [0.1] * 4 + [0.0] * 8
    found = descend(w0, quadratic, steps=12, lr_at=lambda step: rates[step], betas=(0.1, 0.1))
    assert torch.equal(w0, start())
    torch.testing.assert_close(found.w, descend(w0, quadratic, **{**SETTINGS, "betas": (0.1, 0.1), "steps": 4}).w)


def test_a_broken_row_stops_where_all_was_finite_and_the_others_do_not_notice():
    def breaks(w, step):
        found = quadratic(w, step)
        latent, loss = found.latent.clone(), found.loss.clone()
        if step == 5:
            latent[1, 0, 2] = torch.nan
        if step == 0:
            loss[2] = torch.inf
        return StepGradient(loss=loss, latent=latent, image=found.image)

    healthy, found = (descend(start(), f, **SETTINGS, weight_decay=0.1) for f in (quadratic, breaks))
    assert found.frozen.tolist() == [False, True, True]
    assert torch.equal(found.w[0], healthy.w[0])
    # the iterate of step 5 was the one that broke: the last good one is that of step 4
    assert torch.equal(found.w[1], descend(start(), quadratic, **{**SETTINGS, "steps": 4}, weight_decay=0.1).w[1])
    assert torch.equal(found.w[2], start()[2])
    assert found.loss.isnan().sum(0).tolist() == [0, 7, 12]
    assert found.latent_cosine.isnan().sum(0).tolist() == [0, 7, 11]


def test_cosines_compare_neighbouring_steps():
    directions = torch.tensor([[1.0, 0.0], [1.0, 1.0], [-1.0, -1.0], [0.0, 0.0], [1e-30, 0.0]])

    def turning(w, step):
        gradient = directions[step].view(1, 1, 2)
        return StepGradient(loss=torch.zeros(1), latent=gradient, image=-3 * gradient)

    found = descend(torch.zeros(1, 1, 2), turning, **{**SETTINGS, "steps": 5})
    expected = torch.tensor([[0.5**0.5], [-1.0], [torch.nan], [torch.nan]])
    torch.testing.assert_close(found.latent_cosine, expected, equal_nan=True)
    torch.testing.assert_close(found.image_cosine, expected, equal_nan=True)
