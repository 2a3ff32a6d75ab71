"""The stages on one class: the first is Plug & Play's, each goes on where the last has ended, one of them counts."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.attacks.if_gmi.search import StagedSearch, StagePlan
from smoothsweep.core.attacks.optimisation.crops import Preprocess
from smoothsweep.core.attacks.optimisation.descent import StepGradient, descend
from smoothsweep.core.attacks.ppa.config import OptimiseConfig, SelectConfig
from smoothsweep.core.attacks.ppa.inversion import optimise
from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.priors.settings import StyleGAN2Config
from smoothsweep.core.priors.stylegan2 import StyleGAN2

PRIOR = StyleGAN2(
    StyleGAN2Config(resolution=16, z_dim=8, w_dim=8, mapping_layers=1, channel_base=64, channel_max=8), seed=3
).double()
WEIGHTS = torch.randn(12 * 12 * 3, 5, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
W0 = torch.randn(4, 1, 8, generator=torch.Generator().manual_seed(0)).double()
STEPS, FAR, CLASS, LR = (3, 2, 2), 1e9, 2, 0.05
SHOWN = Preprocess(size=12, crop=12)


def target(images):
    """A smooth classifier in double precision, so that only real differences show."""
    return torch.tanh(images.flatten(1) @ WEIGHTS * 0.1) * 3


def staged(protocol="clean", *, steps=STEPS, radius=FAR, rows=None, asked=target, rgb=None, **changes):
    selected, descent = changes.pop("selected", 3), {"lr": LR, "batch_size": 4, **changes}
    return StagedSearch(
        prior=PRIOR,
        target=asked,
        transform=SHOWN,
        protocol=protocol,
        rgb=protocol == "clean" if rgb is None else rgb,
        plans=[StagePlan(descent=OptimiseConfig(steps=one, **descent), radius=radius) for one in steps],
        select=SelectConfig(selected=selected, selection_repeats=3),
        run=Execution(ExecutionConfig(rows_per_batch=rows), "cpu"),
    )


def reached(search):
    """What each stage begins with, and what it comes to."""
    states, found = W0[:, 0], []
    for block in range(len(search.plans)):
        one = search.run_stage(block, states, CLASS, seed=5)
        found.append((states, one))
        states = search.next_states(one) if block + 1 < len(search.plans) else None
    return found


@pytest.mark.parametrize("protocol", ["clean", "paper"])
def test_the_first_stage_is_the_descent_of_plug_and_play(protocol):
    search = staged(protocol, batch_size=3)
    _, first = reached(search)[0]
    plain = optimise(
        PRIOR, target, W0, CLASS, search.plans[0].descent, seed=5, protocol=protocol, transform=SHOWN, device="cpu"
    )
    assert torch.equal(first.states, plain.w[:, 0]) and torch.equal(first.loss, plain.loss)
    assert torch.equal(first.image_cosine, plain.gradient_cosine)


@pytest.mark.parametrize(("rgb", "same"), [(True, True), (False, False)])
def test_a_stage_begins_with_the_last_image_of_the_one_before_where_the_skip_is_kept(rgb, same):
    found = reached(staged(rgb=rgb))
    with torch.no_grad():
        for (_, before), (begun, after) in itertools.pairwise(found):
            last, first = before.stage.images(before.states), after.stage.images(begun)
            assert torch.allclose(first, last, rtol=0, atol=1e-10) == same
            assert not torch.allclose(after.stage.images(after.states), first, rtol=0, atol=1e-3)  # and goes on


@settings(max_examples=25)
@given(st.lists(st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=3), min_size=1, max_size=12))
def test_with_both_betas_at_a_tenth_a_step_is_no_longer_than_the_learning_rate(gradients):
    """Whatever the gradients are: with equal betas the mean's square is at most the mean of the squares."""
    places = [torch.zeros(1, 3, dtype=torch.float64)]

    def gradient_at(w, step):
        own = torch.tensor([gradients[step]], dtype=torch.float64)
        return StepGradient(loss=own.sum(1), latent=own, image=own)

    def seen(w):
        places.append(w.detach().clone())
        return w

    descend(places[0], gradient_at, steps=len(gradients), lr_at=lambda step: 0.005, betas=(0.1, 0.1), project=seen)
    steps = torch.cat(places).diff(dim=0).abs()
    assert len(steps) == len(gradients) and steps.max() <= 0.005 * (1 + 1e-9)


@pytest.mark.parametrize("radius", [0.05, 0.3])
def test_no_stage_leaves_the_balls_around_where_it_began(radius):
    for begun, one in reached(staged(radius=radius)):
        for span in one.stage.optimised_columns:
            reach = (one.states - begun)[:, span].abs().sum(1)
            assert (reach <= radius * (1 + 1e-9)).all() and (reach > 0.99 * radius).any()


def test_under_paper_the_images_are_those_before_the_last_step_and_the_state_is_behind_it():
    [(_, one)], [(_, shorter)] = reached(staged("paper", steps=(3,))), reached(staged("paper", steps=(2,)))
    assert torch.equal(one.selectable, shorter.states) and not torch.equal(one.selectable, one.states)
    assert all(torch.equal(one.selectable, one.states) for _, one in reached(staged("clean")))


@pytest.mark.parametrize("protocol", ["clean", "paper"])
def test_the_stage_that_the_target_grades_best_is_kept_and_nothing_of_the_others(protocol):
    search = staged(protocol, loss="max_margin")
    found = search.invert(W0, CLASS, seed=5)
    grades = [search.select_best(one, CLASS, seed=5) for _, one in reached(search)]
    worth = [one.mean_margin for one in grades]
    assert found.worth.tolist() == pytest.approx(worth) and len(set(worth)) == 3
    assert found.chosen == max(range(3), key=worth.__getitem__)
    best = grades[found.chosen]
    assert all(torch.equal(getattr(found.best, name), getattr(best, name)) for name in vars(best))
    assert best.margins.tolist() == sorted(best.margins.tolist(), reverse=True) and len(best.order) == 3
    _, one = reached(search)[found.chosen]
    with torch.no_grad():
        images = one.stage.images(one.selectable)[best.order]
    assert best.images.dtype == torch.float16 and best.images.shape == (3, 3, 12, 12)
    torch.testing.assert_close(best.images.double(), images, rtol=1e-3, atol=1e-3)
    assert torch.equal(best.w[:, 0], one.selectable[best.order, :8])


@pytest.mark.parametrize("protocol", ["clean", "paper"])
def test_results_do_not_depend_on_what_is_computed_together(protocol):
    whole = staged(protocol).invert(W0, CLASS, seed=5)
    cut = staged(protocol, rows=1).invert(W0, CLASS, seed=5)
    assert cut.chosen == whole.chosen and torch.equal(cut.best.order, whole.best.order)
    torch.testing.assert_close(cut.best.w, whole.best.w, rtol=0, atol=1e-8)
    if protocol == "clean":  # nor on the batch
        apart = staged(batch_size=1).invert(W0, CLASS, seed=5)
        torch.testing.assert_close(apart.best.w, whole.best.w, rtol=0, atol=1e-8)


def test_candidates_of_which_the_target_says_no_number_stay_where_they_are():
    def half_blind(images):
        logits = target(images)
        return logits.masked_fill((torch.arange(len(images)) % 2 == 1)[:, None], math.nan)

    found = staged(asked=half_blind, selected=2).invert(W0, CLASS, seed=5)
    assert found.frozen.tolist() == [False, True, False, True] and found.best.order.tolist() in ([0, 2], [2, 0])
    blind = staged(asked=lambda images: target(images) * math.nan, selected=2).invert(W0, CLASS, seed=5)
    assert blind.chosen == 0 and blind.worth.tolist() == [-math.inf] * 3 and blind.best.images.isfinite().all()
