"""IF-GMI: the stages of a class, the L1 balls that they stay in, and which priors have blocks enough."""

import itertools
import math
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.attacks.if_gmi_search import StagedSearch, l1_balls, make_stage, on_l1_ball
from smoothsweep.core.attacks.optimisation.crops import Preprocess
from smoothsweep.core.attacks.ppa.config import OptimiseConfig, SelectConfig
from smoothsweep.core.attacks.registry import make_attack
from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.cards import NetworkCard
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.errors import InputError
from smoothsweep.core.priors.base import PriorNetwork
from smoothsweep.core.priors.registry import card_of
from smoothsweep.core.priors.settings import EigenfacesConfig, StyleGAN2Config
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
        descents=[OptimiseConfig(steps=one, **descent) for one in steps],
        radii=[radius] * len(steps),
        select=SelectConfig(selected=selected, selection_repeats=3),
        run=Execution(ExecutionConfig(rows_per_batch=rows), "cpu"),
    )


def reached(search):
    """What each stage begins with, and what it comes to."""
    states, found = W0[:, 0], []
    for block in range(len(search.descents)):
        one = search.run_stage(block, states, CLASS, seed=5)
        found.append((states, one))
        states = search.next_states(one) if block + 1 < len(search.descents) else None
    return found


@pytest.mark.parametrize("radius", [0.05, 0.3])
def test_no_stage_leaves_the_balls_around_where_it_began(radius):
    for begun, one in reached(staged(radius=radius)):
        for span in one.stage.optimised_columns:
            reach = (one.descent.w - begun)[:, span].abs().sum(1)
            assert (reach <= radius * (1 + 1e-9)).all() and (reach > 0.99 * radius).any()


@pytest.mark.parametrize("protocol", ["clean", "paper"])
def test_results_do_not_depend_on_what_is_computed_together(protocol):
    whole = staged(protocol).invert(W0, torch.arange(4), CLASS, seed=5)
    cut = staged(protocol, rows=1).invert(W0, torch.arange(4), CLASS, seed=5)
    assert torch.equal(cut.rows["pool_index"], whole.rows["pool_index"])
    torch.testing.assert_close(cut.w, whole.w, rtol=0, atol=1e-8)
    if protocol == "clean":  # nor on the batch
        apart = staged(batch_size=1).invert(W0, torch.arange(4), CLASS, seed=5)
        torch.testing.assert_close(apart.w, whole.w, rtol=0, atol=1e-8)


def test_candidates_of_which_the_target_says_no_number_stay_where_they_are():
    def half_blind(images):
        logits = target(images)
        return logits.masked_fill((torch.arange(len(images)) % 2 == 1)[:, None], math.nan)

    found = staged(asked=half_blind, selected=2).invert(W0, torch.arange(4), CLASS, seed=5)
    assert found.facts["num_frozen"] == 2 and found.rows["pool_index"].tolist() in ([0, 2], [2, 0])
    blind = staged(asked=lambda images: target(images) * math.nan, selected=2).invert(
        W0, torch.arange(4), CLASS, seed=5
    )
    assert blind.facts["chosen_stage"] == 0 and blind.curves["stage_margin"].tolist() == [-math.inf] * 3
    assert blind.images.isfinite().all()


WIDE = StyleGAN2(
    StyleGAN2Config(resolution=32, z_dim=8, w_dim=8, mapping_layers=1, channel_base=128, channel_max=16), seed=3
).double()
BLOCKS = len(WIDE.config.sides)
RUN = Execution(ExecutionConfig(), "cpu")


@pytest.fixture(scope="module")
def w():
    return torch.randn(3, 8, generator=torch.Generator().manual_seed(0)).double()


def chain(w, crop, rgb):
    """The stages, and the states with which each begins where none has moved anything."""
    stages, states = [make_stage(RUN, WIDE, crop, block=block, rgb=rgb)[0] for block in range(BLOCKS)], [w]
    for stage in stages[:-1]:
        states.append(stage.next_states(states[-1]))
    return stages, states


@pytest.mark.parametrize("crop", [None, 20, 21])
def test_with_the_skip_kept_every_stage_begins_with_the_image_of_the_one_before(w, crop):
    with torch.no_grad():
        whole = RUN.synthesizer(WIDE, crop)(w[:, None])
        for stage, states in zip(*chain(w, crop, rgb=True), strict=True):
            torch.testing.assert_close(stage.images(states), whole, rtol=0, atol=1e-12)
    assert whole.shape[-1] == {None: 32, 20: 20, 21: 32}[crop]  # no window is centred in an odd distance


def nearest_by_trying(change, radius):
    """Of every choice of entries that are not 0, the nearest point of the face; the nearest of these."""
    best = None
    for kept in itertools.product((False, True), repeat=len(change)):
        rows = torch.tensor(kept)
        if not rows.any() or (change[rows] == 0).any():
            continue
        point = torch.zeros_like(change)
        point[rows] = change[rows] - change[rows].sign() * (change[rows].abs().sum() - radius) / rows.sum()
        allowed = bool((point * change >= 0).all())
        distance = float((point - change).norm())
        if allowed and (best is None or distance < best[0]):
            best = distance, point
    return best


entries = st.lists(st.floats(-4, 4, allow_subnormal=False).map(lambda x: round(x, 3)), min_size=1, max_size=4)


@given(entries, st.floats(0.01, 0.99))
def test_it_is_the_nearest_point_of_the_ball(values, share):
    change = torch.tensor(values, dtype=torch.float64)
    radius = share * float(change.abs().sum())
    if not radius:
        return
    found = on_l1_ball(change, radius)
    distance, point = nearest_by_trying(change, radius)
    assert float(found.abs().sum()) == pytest.approx(radius, rel=1e-9)
    assert float((found - change).norm()) == pytest.approx(distance, rel=1e-9, abs=1e-12)
    torch.testing.assert_close(found, point, rtol=0, atol=1e-9)


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.floats(0.05, 3.0))
def test_every_row_and_span_has_a_ball_of_its_own_and_what_is_inside_stays_bit_for_bit(seed, count, radius):
    source = torch.Generator().manual_seed(seed)
    start, rows = (torch.randn(count, 9, generator=source) for _ in range(2))
    spans = slice(0, 2), slice(2, 7)  # the last two columns belong to no class
    found = l1_balls(start, spans, radius)(rows)
    assert torch.equal(found[:, 7:], rows[:, 7:])
    for span in spans:
        moved = (rows - start)[:, span]
        inside = moved.abs().sum(1, dtype=torch.float64) <= radius
        assert torch.equal(found[inside, span], rows[inside, span])
        for row in torch.nonzero(~inside)[:, 0]:
            torch.testing.assert_close((found - start)[row, span], on_l1_ball(moved[row], radius), rtol=0, atol=1e-6)
    alone = torch.cat([l1_balls(start[i : i + 1], spans, radius)(rows[i : i + 1]) for i in range(count)])
    assert torch.equal(found, alone)


TINY = StyleGAN2Config(resolution=16, z_dim=8, w_dim=8, mapping_layers=1, channel_base=64, channel_max=8)


class Foreign(PriorNetwork):
    """A prior that a user has written."""


@pytest.mark.parametrize(
    ("card", "stages", "words"),
    [
        (card_of(StyleGAN2(TINY)), 3, None),
        (
            card_of(StyleGAN2(TINY)),
            4,
            "attack.stage_steps: expected at most 3 stages, as many as a prior of 16 pixels has blocks, got 4",
        ),
        (card_of(Foreign(TINY)), 1, "prior: expected a StyleGAN2, whose feature maps this attack moves, got 'Foreign'"),
        (NetworkCard(kind="eigenfaces", config=EigenfacesConfig(resolution=64, components=3)), 1, "got 'eigenfaces'"),
    ],
)
def test_a_prior_must_have_a_block_for_every_stage(card, stages, words):
    attack = make_attack("if_gmi", stage_steps=[1] * stages)
    if words is None:
        return attack.check_prior(lambda: card)
    with pytest.raises(InputError, match=f"{re.escape(words)}$"):
        attack.check_prior(lambda: card)
    return None
