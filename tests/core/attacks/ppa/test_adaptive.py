"""What adapts Plug & Play to a target: averaged gradients, a fitted temperature, selection by margin, restarts."""

from types import SimpleNamespace

import pytest
import torch

from smoothsweep.core.attacks.optimisation.crops import Preprocess
from smoothsweep.core.attacks.optimisation.losses import logit_loss
from smoothsweep.core.attacks.optimisation.objective import LatentObjective
from smoothsweep.core.attacks.ppa.adaptive_config import Averaging, Restarts, TemperatureScaling
from smoothsweep.core.attacks.ppa.config import OptimiseConfig, SelectConfig
from smoothsweep.core.attacks.ppa.inversion import optimise
from smoothsweep.core.attacks.ppa.neighbours import group_neighbours
from smoothsweep.core.attacks.ppa.restarts import around
from smoothsweep.core.attacks.ppa.selection import select, select_by_margin
from smoothsweep.core.attacks.ppa.temperature import fitted_temperature, make_temperature, mean_confidence
from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.attacks.shared.view import view_of
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.errors import InputError
from smoothsweep.core.seeds import generator

SIDE, CLASSES = 8, 3
STILL = {"crop_scale": (1.0, 1.0), "crop_ratio": (1.0, 1.0), "hflip": 0.0, "degrees": 0.0}
COMMON = {"seed": 5, "transform": Preprocess(size=SIDE), "device": "cpu"}


class Linear:
    """A prior whose images are a linear map of w, and a target that is one of them."""

    z_dim = w_dim = 6
    num_ws, resolution = 1, SIDE

    def __init__(self):
        source = torch.Generator().manual_seed(3)
        self.weight = torch.randn(6, 3 * SIDE * SIDE, generator=source) / 4
        self.head = torch.randn(3 * SIDE * SIDE, CLASSES, generator=source) / 8
        self.w0 = torch.randn(7, 1, 6, generator=source)

    def synthesize(self, w):
        return (w[:, 0] @ self.weight).tanh().view(-1, 3, SIDE, SIDE)

    def target(self, images):
        return images.flatten(1) @ self.head


def moved(protocol, *, batch_size=4, rows=None, w0=None, **changes):
    world, config = Linear(), OptimiseConfig(**{"steps": 4, "lr": 0.05, "batch_size": batch_size, **changes})
    found = optimise(
        world,
        world.target,
        world.w0 if w0 is None else w0,
        1,
        config,
        protocol=protocol,
        **COMMON,
        execution=ExecutionConfig(rows_per_batch=rows),
    )
    return found


@pytest.mark.parametrize("protocol", ["paper", "clean"])
def test_one_neighbour_that_changes_nothing_is_the_plain_step_bit_for_bit(protocol):
    plain, averaged = moved(protocol), moved(protocol, average=Averaging(views=1, **STILL))
    assert torch.equal(plain.w, averaged.w) and torch.equal(plain.loss, averaged.loss)
    many = moved(protocol, average=Averaging(views=5, **STILL))
    torch.testing.assert_close(many.loss, plain.loss, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["transforms", "noise"])
@pytest.mark.parametrize("protocol", ["paper", "clean"])
def test_averaged_steps_do_not_depend_on_what_is_computed_together(protocol, kind):
    runs = [moved(protocol, rows=rows, average=Averaging(views=3, kind=kind)) for rows in (1, 3, 8)]
    for other in runs[1:]:
        torch.testing.assert_close(runs[0].w, other.w, rtol=0, atol=1e-4)
    again = moved(protocol, rows=3, average=Averaging(views=3, kind=kind))
    assert torch.equal(runs[1].w, again.w) and not torch.equal(runs[1].w, moved(protocol, rows=3).w)


def neighbours(protocol, count=4, **settings):
    return group_neighbours(Averaging(**settings), [slice(0, count)], count, count, (1, 2), protocol)


def gradient_of(target, images, around_them):
    """The image gradient of one step with a linear loss: minus the logit of class 0."""
    objective = LatentObjective(
        synthesize=lambda w: w,
        target=target,
        transform=lambda x: x,
        target_class=0,
        loss=logit_loss,
        views=None,
        first=0,
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


@pytest.mark.parametrize("protocol", ["paper", "clean"])
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
    world = Linear()
    config = OptimiseConfig(steps=1, crop_scale=(1, 1), loss="cross_entropy", temperature=TemperatureScaling())
    found = optimise(world, world.target, world.w0, 1, config, protocol="clean", temperature=4.0, **COMMON)
    logits = world.target(world.synthesize(world.w0))
    torch.testing.assert_close(found.loss[0], -(logits / 4).log_softmax(1)[:, 1])
    for settings, given in ((config, None), (OptimiseConfig(steps=1), 4.0)):
        with pytest.raises(InputError, match="temperature: expected one where the settings ask for it alone"):
            optimise(world, world.target, world.w0, 1, settings, protocol="clean", temperature=given, **COMMON)


def test_the_margin_tells_apart_what_saturated_confidences_do_not():
    world = Linear()
    config = SelectConfig(selected=7, selection_repeats=3)

    def sure(images):
        return 300 + torch.tensor([0.0, 500.0, 0.0]) + 40 * world.target(images)

    arguments = (world, sure, world.w0, 1, config)
    plain, found = (one(*arguments, protocol="paper", **COMMON) for one in (select, select_by_margin))
    assert plain.scores.tolist() == found.scores.tolist() == [1.0] * 7
    assert plain.order.tolist() == list(range(7)) and found.order.tolist() != list(range(7))
    margins = found.rows["margin"].tolist()
    assert margins == sorted(margins, reverse=True) and len(set(margins)) == 7


def test_restarts_begin_around_the_candidates_and_follow_from_seed_and_class():
    pool = torch.stack([torch.tensor([0.0, 1.0, 5.0]), torch.tensor([2.0, 1.0, 5.0])])[:, None].repeat(500, 2, 1)
    starts = pool[:300, :1], torch.arange(300), torch.rand(300)

    def drawn(seed=1, target_class=2):
        return around(starts, pool, Restarts(count=3, spread=0.5), seed=seed, target_class=target_class)

    assert Restarts() == Restarts(count=2, spread=0.5)
    w, index, confidence = drawn()
    assert torch.equal(w[:300], starts[0]) and torch.equal(index, starts[1].repeat(3))
    assert torch.equal(confidence[600:], starts[2])
    gaps = w[300:].view(2, 300, 3) - starts[0][None, :, 0]
    assert gaps[..., 0].std().item() == pytest.approx(0.5, rel=0.1) and not gaps[..., 1:].any()
    first = torch.randn(300, 1, 3, generator=generator(1, 2, "restart", 1))  # by which the first one is moved
    torch.testing.assert_close(gaps[0], 0.5 * first[:, 0] * torch.tensor([1.0, 0.0, 0.0]))
    assert not torch.equal(gaps[0], gaps[1]) and torch.equal(drawn()[0], w)
    assert not torch.equal(drawn(seed=2)[0], w) and not torch.equal(drawn(target_class=0)[0], w)


def test_the_temperature_part_asks_once_for_every_image_of_the_pool():
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * SIDE * SIDE, CLASSES)).requires_grad_(False)
    images = torch.rand(9, 3, SIDE, SIDE)
    execution = Execution(ExecutionConfig(), "cpu")
    view = view_of(network, "gradients", num_classes=CLASSES, image_size=SIDE, execution=execution)
    made = make_temperature({"mean_confidence": 0.6}, SimpleNamespace(parts={"pool": {"images": images}}), view, None)
    temperature = made.tensors["temperature"]
    assert view.queries == 9 and made.facts["temperature"] == float(temperature)
    assert mean_confidence(network(images), float(temperature)) == pytest.approx(0.6, abs=1e-6)
