"""Plug & Play: its stages one by one, swapped, adapted to a target; what it refuses."""

import pytest
import torch
from hypothesis import given as drawn
from hypothesis import strategies as st
from torch import nn

from smoothsweep.core.attacks.optimisation.crops import Preprocess
from smoothsweep.core.attacks.optimisation.descent import LatentObjective, logit_loss
from smoothsweep.core.attacks.ppa.config import (
    Averaging,
    CandidateConfig,
    OptimiseConfig,
    Restarts,
    SelectConfig,
    TemperatureScaling,
)
from smoothsweep.core.attacks.ppa.inversion import batches_of, invert_classes, optimise, row_neighbours
from smoothsweep.core.attacks.ppa.pool import around, best_first, fitted_temperature, mean_confidence
from smoothsweep.core.attacks.ppa.selection import select, select_by_confidence, select_by_margin
from smoothsweep.core.attacks.registry import make_attack
from smoothsweep.core.attacks.shared.base import AttackInputs
from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.errors import InputError
from smoothsweep.core.seeds import generator
from tests.core.attacks.examples import EXAMPLES
from tests.core.attacks.looking import Counted, look, recognised

SIDE, CLASSES, PLACES = 8, 3, 2
STILL = {"crop_scale": (1.0, 1.0), "crop_ratio": (1.0, 1.0), "hflip": 0.0, "degrees": 0.0}
BOTH = pytest.mark.parametrize("protocol", ["paper", "clean"])


class Linear(nn.Module):
    """A prior whose images are a smooth map of two places of w; and a target that tells red, green and blue apart."""

    z_dim = w_dim = 6
    num_ws, resolution = PLACES, SIDE

    def __init__(self):
        super().__init__()
        source = torch.Generator().manual_seed(3)
        coarse = torch.randn(6 * PLACES, 3, 2, 2, generator=source) / 4
        self.weight = nn.Parameter(coarse.repeat_interleave(4, 2).repeat_interleave(4, 3).flatten(1))
        self.w0, self.pool = (torch.randn(n, PLACES, 6, generator=source) for n in (7, 40))
        head = nn.Linear(3, CLASSES, bias=False)
        head.weight.data = 6 * torch.eye(3)
        self.target = nn.Sequential(nn.BatchNorm2d(3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), head)
        self.target.eval()

    def synthesize(self, w):
        return (w.expand(-1, PLACES, -1).flatten(1) @ self.weight).tanh().view(-1, 3, SIDE, SIDE)


WORLD = Linear()


def common(protocol="clean", rows=None, **more):
    run = Execution(ExecutionConfig(rows_per_batch=rows), "cpu")
    return {"seed": 5, "transform": Preprocess(size=SIDE), "protocol": protocol, "run": run, **more}


def moved(protocol, *, batch_size=4, rows=None, w0=None, **changes):
    config = OptimiseConfig(**{"steps": 4, "lr": 0.05, "batch_size": batch_size, **changes})
    start = WORLD.w0[:, :1] if w0 is None else w0
    return optimise(WORLD, WORLD.target, [start], [1], config, **common(protocol, rows))[0]


def inverted(target_class, protocol="clean", target=WORLD.target, **changes):
    candidates = CandidateConfig(candidates=7, **{k: changes.pop(k) for k in ("single_w",) if k in changes})
    confidences = WORLD.target(WORLD.synthesize(WORLD.pool)).softmax(1).detach()
    (found,) = invert_classes(
        WORLD,
        target,
        confidences,
        WORLD.pool,
        [target_class],
        candidates=candidates,
        descent=OptimiseConfig(**{"steps": 10, "lr": 0.1, "batch_size": 3, **changes}),
        selection=SelectConfig(selected=4, selection_repeats=5),
        **common(protocol),
    )
    return found, confidences


def test_networks_are_used_frozen_and_given_back_as_they_were():
    target, seen = Linear().target.train(), []
    statistics = target[0].running_mean.clone()
    target.register_forward_hook(lambda m, *_: seen.append(m.training or m[3].weight.requires_grad))
    found, _ = inverted(0, target=target)
    assert seen and not any(seen) and not found.w.requires_grad
    assert target.training and target[3].weight.requires_grad and WORLD.weight.requires_grad
    assert target[3].weight.grad is None and WORLD.weight.grad is None
    assert torch.equal(statistics, target[0].running_mean)


@drawn(scores=st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, float("nan")]), min_size=1, max_size=30))
def test_equal_scores_keep_their_order_and_nan_comes_last(scores):
    key = [(1, 0.0, i) if s != s else (0, -s, i) for i, s in enumerate(scores)]
    assert best_first(torch.tensor(scores)).tolist() == [i for _, _, i in sorted(key)]


ADAPTED = {
    "logit, averaged over changed views": {"loss": "logit", "average": {"views": 3}},
    "margin, averaged over noise": {"loss": "max_margin", "average": {"views": 2, "kind": "noise"}},
    "tempered, by margin": {"loss": "cross_entropy", "temperature": {}, "select": {"kind": "augmented_margin"}},
    "restarted": {"restarts": {"count": 2}},
}


@pytest.mark.parametrize("what", list(ADAPTED))
def test_plug_and_play_adapted_to_a_target_leaks_and_is_counted_and_depends_on_the_class_alone(
    what, target, judge, given
):
    adapted = ADAPTED[what]
    attack, own = make_attack("ppa", **{**EXAMPLES["ppa"], "steps": 12, **adapted}), given("ppa")
    if "temperature" in adapted:
        own = AttackInputs(**{**vars(own), "parts": {**own.parts, "temperature": {"temperature": torch.tensor([2.0])}}})
    counted = Counted(target)
    view = look(counted)
    found = {c: attack.invert(view, own, c, seed=7) for c in (3, 1)}
    latents = 8 * adapted.get("restarts", {}).get("count", 1)
    exact = 2 * latents * (12 * adapted.get("average", {}).get("views", 1) + 6)
    assert view.queries == exact and 0 <= sum(counted.shown) - exact <= 4 + 2  # what measures the batch is no query
    alone = attack.invert(look(Counted(target)), own, 1, seed=7)
    assert torch.equal(alone.w, found[1].w) and torch.equal(alone.scores, found[1].scores)
    hits = [recognised(judge, own.prior, one.w, c) for c, one in found.items()]
    assert sum(hits) / len(hits) >= 0.5
    assert ("margin" in alone.rows) == ("select" in adapted)


def test_a_discriminator_comes_with_a_folder_alone():
    attack = make_attack("ppa", steps=1, discriminator_weight=0.1, pool={"crop": None})
    attack.check(image_size=64, prior_kind="folder", has_public=False)
    with pytest.raises(InputError, match=r"^attack\.discriminator_weight: expected a prior of kind folder.* shipped$"):
        attack.check(image_size=64, prior_kind="shipped", has_public=False)


def test_without_augmentation_the_surest_images_come_first():
    w, config = WORLD.pool[:, :1], SelectConfig(selected=4, selection_repeats=1)
    (found,) = select_by_confidence(WORLD, WORLD.target, [w], [1], config, **common())
    expected = WORLD.target(WORLD.synthesize(w)).softmax(1)[:, 1].detach()
    torch.testing.assert_close(found.all_scores, expected)
    order = expected.argsort(descending=True)[:4]
    assert torch.equal(found.order, order) and torch.equal(found.w, w[order])


@pytest.mark.parametrize("kind", ["transforms", "noise"])
@BOTH
def test_averaged_steps_do_not_depend_on_what_is_computed_together(protocol, kind):
    runs = [moved(protocol, rows=rows, average=Averaging(views=3, kind=kind)) for rows in (1, 3)]
    for other in runs[1:]:
        torch.testing.assert_close(runs[0].w, other.w, rtol=0, atol=1e-4)
    again = moved(protocol, rows=3, average=Averaging(views=3, kind=kind))
    assert torch.equal(runs[1].w, again.w) and not torch.equal(runs[1].w, moved(protocol, rows=3).w)


def neighbours(protocol, count=4, **averaging):
    return row_neighbours(Averaging(**averaging), batches_of(0, (1, 2), count, count), protocol)


def gradient_of(target, images, around_them):
    """The image gradient of one step with a linear loss: minus the logit of class 0."""
    objective = LatentObjective(
        synthesize=lambda w: w,
        target=target,
        transform=lambda x: x,
        labels=torch.zeros(len(images), dtype=torch.int64),
        loss=logit_loss,
        views=None,
        scale=torch.ones(len(images)),
        batch=None,
        neighbours=around_them,
    )
    return objective(images, 0).image


def test_gradients_of_mirrored_neighbours_are_brought_back_before_they_are_averaged():
    """Pairs of one image and its mirror: exactly half of each, in the frame of the image itself."""
    direction, images = torch.randn(1, 3, SIDE, SIDE), torch.randn(4, 3, SIDE, SIDE)

    def target(shown):
        logit = (shown * direction).flatten(1).sum(1)
        return torch.stack([logit, -logit], 1)

    flips = neighbours("clean", views=2, **{**STILL, "hflip": 0.5})
    expected = -(direction + direction.flip(3)) / 2
    torch.testing.assert_close(gradient_of(target, images, flips), expected.expand_as(images))


def test_paired_noise_gives_the_exact_gradient_of_a_quadratic():
    images = torch.randn(4, 3, SIDE, SIDE)

    def target(shown):
        return torch.stack([-shown.flatten(1).square().sum(1), shown.flatten(1).sum(1)], 1)

    pairs = neighbours("clean", views=2, kind="noise", noise=0.3)
    torch.testing.assert_close(gradient_of(target, images, pairs), 2 * images, rtol=1e-4, atol=1e-4)
    alone = neighbours("paper", views=2, kind="noise", noise=0.3)
    assert (gradient_of(target, images, alone) - 2 * images).abs().max() > 0.05


@BOTH
def test_a_batch_shares_its_transforms_under_paper_alone(protocol):
    same = torch.rand(1, 3, SIDE, SIDE).expand(4, -1, -1, -1)
    shown = neighbours(protocol, views=2).of(same, 0, 0, slice(0, 4))
    assert all(torch.equal(shown[0], other) for other in shown[1:]) == (protocol == "paper")
    later = neighbours(protocol, views=2).of(same, 0, 1, slice(0, 4))
    assert not torch.equal(shown, later)


@pytest.mark.parametrize(("wanted", "temperature"), [(0.5, 6.716788), (0.7, 2.720518), (0.9, 1.107368)])
def test_the_temperature_is_the_one_that_gives_the_wanted_confidence(wanted, temperature):
    logits = torch.tensor([[4.0, 0, 0], [2.0, 0, 0], [8.0, 0, 0]])
    found = fitted_temperature(logits, wanted)
    assert found == pytest.approx(temperature, abs=1e-6)
    assert mean_confidence(logits, found) == pytest.approx(wanted, abs=1e-12)
    assert fitted_temperature(1000 * logits - 7, wanted) == pytest.approx(1000 * temperature, rel=1e-6)


@pytest.mark.parametrize(
    ("logits", "wanted"),
    [
        (torch.tensor([[4.0, 0, 0]]), 1 / 3),
        (torch.tensor([[4.0, 0, 0]]), 0.2),
        (torch.zeros(2, 4), 0.5),
        (torch.tensor([[4.0, 4.0, 0]]), 0.6),
    ],
)
def test_a_confidence_that_no_temperature_gives_is_refused(logits, wanted):
    with pytest.raises(InputError, match=r"^attack\.temperature\.mean_confidence: expected more than [\d.]+ and less"):
        fitted_temperature(logits, wanted)


def test_a_temperature_divides_the_logits_before_the_loss():
    config = OptimiseConfig(steps=1, crop_scale=(1, 1), loss="cross_entropy", temperature=TemperatureScaling())
    (found,) = optimise(WORLD, WORLD.target, [WORLD.w0], [1], config, temperature=4.0, **common())
    logits = WORLD.target(WORLD.synthesize(WORLD.w0))
    torch.testing.assert_close(found.loss[0], -(logits / 4).log_softmax(1)[:, 1].detach())


def test_the_margin_tells_apart_what_saturated_confidences_do_not():
    config = SelectConfig(selected=7, selection_repeats=3)

    def sure(images):
        return 300 + torch.tensor([0.0, 500.0, 0.0]) + 40 * WORLD.target(images)

    (plain,), (found,) = (
        way(WORLD, sure, [WORLD.w0], [1], config, **common("paper")) for way in (select, select_by_margin)
    )
    assert plain.scores.tolist() == found.scores.tolist() == [1.0] * 7
    assert plain.order.tolist() == list(range(7)) and found.order.tolist() != list(range(7))
    margins = found.rows["margin"].tolist()
    assert margins == sorted(margins, reverse=True) and len(set(margins)) == 7


def test_restarts_begin_around_the_candidates_and_follow_from_seed_and_class():
    pool = torch.stack([torch.tensor([0.0, 1.0, 5.0]), torch.tensor([2.0, 1.0, 5.0])])[:, None].repeat(500, 2, 1)
    starts = pool[:300, :1], torch.arange(300), torch.rand(300)

    def begun(seed=1, target_class=2):
        return around(starts, pool, Restarts(count=3, spread=0.5), seed=seed, target_class=target_class)

    w, index, confidence = begun()
    assert torch.equal(w[:300], starts[0]) and torch.equal(index, starts[1].repeat(3))
    assert torch.equal(confidence[600:], starts[2])
    gaps = w[300:].view(2, 300, 3) - starts[0][None, :, 0]
    assert gaps[..., 0].std().item() == pytest.approx(0.5, rel=0.1) and not gaps[..., 1:].any()
    first = torch.randn(300, 1, 3, generator=generator(1, 2, "restart", 1))  # by which the first one is moved
    torch.testing.assert_close(gaps[0], 0.5 * first[:, 0] * torch.tensor([1.0, 0.0, 0.0]))
    assert not torch.equal(gaps[0], gaps[1]) and torch.equal(begun()[0], w)
    assert not torch.equal(begun(seed=2)[0], w) and not torch.equal(begun(target_class=0)[0], w)
