"""GMI's classes side by side: to the bit what each is by itself, with as many queries; and when they are not."""

import dataclasses
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from smoothsweep.core.attacks.distillation.config import Distillation
from smoothsweep.core.attacks.gan.parts import GENERAL
from smoothsweep.core.attacks.lowres.gmi import GMI
from smoothsweep.core.attacks.lowres.lomma import LommaGMI
from smoothsweep.core.attacks.lowres.lomma_parts import FEATURES, STUDENTS
from smoothsweep.core.attacks.shared.base import AttackInputs
from smoothsweep.core.attacks.shared.execution import Execution, PreparedTarget, same_bits
from smoothsweep.core.attacks.shared.view import view_of
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.models.classifiers import build_classifier
from tests.made_rows import Rows
from tests.official_gans import networks_of

CLASSES, SIDE, Z = 11, 16, 7
PLAIN = GMI(steps=4, lr=0.05, selected=3, reference_batch=2)


def seeded(seed):
    return torch.Generator().manual_seed(seed)


class Generator(nn.Module):
    """Pixels that are sums over the latent's numbers, row by row: no kernel knows of another row."""

    config = SimpleNamespace(z_dim=Z)

    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.randn(Z, 3, SIDE, SIDE, generator=seeded(0)))

    def synthesize(self, w):
        return (w[:, 0, :, None, None, None] * self.weight).sum(1).tanh()


class Critic(nn.Module):
    """As the generator."""

    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.randn(3 * SIDE * SIDE, generator=seeded(1)))

    def forward(self, images):
        return (images.contiguous().flatten(1) * self.weight).sum(1)


def rows(**changes):
    """The target that no class shares a kernel's row with."""
    return Rows(CLASSES, SIDE, seed=2, **changes)


GIVEN = AttackInputs(protocol="clean", networks={GENERAL: {"generator": Generator(), "discriminator": Critic()}})


def viewed(target, side=SIDE, **settings):
    answer = target if isinstance(target, nn.Module) else PreparedTarget(target)
    execution = Execution(ExecutionConfig(**settings), "cpu")
    return view_of(answer, "gradients", num_classes=CLASSES, image_size=side, execution=execution)


def numbers(found):
    """Everything that a class leaves, under names."""
    facts = torch.tensor(list(found.facts.values()))
    return {"w": found.w, "scores": found.scores, "facts": facts, **found.rows, **found.curves}


def check_same(one, other):
    mine, theirs = numbers(one), numbers(other)
    assert mine.keys() == theirs.keys() and all(same_bits(mine[name], theirs[name]) for name in mine)


@pytest.mark.parametrize("protocol", ["paper", "clean"])
@pytest.mark.parametrize("steps", [1, 4])
def test_side_by_side_every_class_has_the_bits_and_the_queries_that_it_has_by_itself(protocol, steps):
    inputs, classes = dataclasses.replace(GIVEN, protocol=protocol), [3, 0, 10, 7]
    attack, view, target = dataclasses.replace(PLAIN, steps=steps), viewed(rows()), rows()
    alone = [attack.invert(view, inputs, one, seed=5) for one in classes]
    beside_view = viewed(target)
    beside = attack.invert_batch(beside_view, inputs, classes, seed=5)
    for one, other in zip(alone, beside, strict=True):
        check_same(one, other)
    assert beside_view.queries == view.queries == 4 * 3 * (steps + 1)
    tried = min(2, steps)
    assert target.seen == [12] * tried + [3] * 3 * tried + [12] * steps + [3] * 4
    assert not torch.equal(alone[0].w, alone[1].w)


def test_a_row_that_breaks_is_stopped_and_the_other_classes_go_on():
    target, classes = rows(blind=lambda means: means <= -0.02), list(range(6))
    alone = [PLAIN.invert(viewed(target), GIVEN, one, seed=5) for one in classes]
    stopped = [one.facts["num_frozen"] for one in alone]
    assert 0 < sum(stopped) < 18 and min(stopped) < max(stopped)
    for one, other in zip(alone, PLAIN.invert_batch(viewed(target), GIVEN, classes, seed=5), strict=True):
        check_same(one, other)
    assert max(target.seen) == 18


def test_where_the_bits_would_differ_classes_are_computed_one_after_the_other():
    target, classes = rows(coupled=1e-3), [3, 0, 10]
    alone = [PLAIN.invert(viewed(rows(coupled=1e-3)), GIVEN, one, seed=5) for one in classes]
    view = viewed(target)
    for one, other in zip(alone, PLAIN.invert_batch(view, GIVEN, classes, seed=5), strict=True):
        check_same(one, other)
    assert target.seen.count(9) == 2, "what was tried"
    assert view.queries == 3 * 3 * (PLAIN.steps + 1)


@pytest.mark.parametrize("settings", [{"rows_per_batch": 3}, {"precision": "bf16"}])
def test_what_the_user_says_of_execution_is_left_alone(settings):
    target = rows()
    assert len(PLAIN.invert_batch(viewed(target, **settings), GIVEN, [0, 1], seed=5)) == 2
    assert set(target.seen) == {3}


@pytest.mark.parametrize(("selected", "together"), [(5, 4), (1, 20), (3, 6), (20, 1), (50, 1)])
def test_so_many_classes_that_their_restarts_fill_a_pass(selected, together):
    attack = dataclasses.replace(PLAIN, selected=selected)
    assert attack.side_by_side("cpu") == together
    assert attack.side_by_side("cuda") == 1


@pytest.mark.parametrize("kind", [GMI, LommaGMI])
def test_networks_of_convolutions_and_students_are_the_same_too(kind):
    """By whichever way: which one is the machine's to say."""
    side, classes = 32, [3, 0, 10, 7]
    target = build_classifier("resnet_small", CLASSES, seed=1, protocol="clean").eval()
    students = {"student0": build_classifier("resnet_small", CLASSES, seed=2, protocol="clean").eval()}
    mean = {"mean": torch.zeros(target.head.in_features)}
    general = networks_of("general_gan")
    for network in general.values():
        network.eval().requires_grad_(False)
    inputs = AttackInputs(protocol="clean", networks={GENERAL: general, STUDENTS: students}, parts={FEATURES: mean})
    own = {"students": Distillation(architectures=("resnet_small",))} if kind is LommaGMI else {}
    attack = kind(steps=3, selected=5, **own)
    view = viewed(target, side)
    alone = [attack.invert(view, inputs, one, seed=5) for one in classes]
    for one, other in zip(alone, attack.invert_batch(viewed(target, side), inputs, classes, seed=5), strict=True):
        check_same(one, other)
