"""Classes side by side: to the bit what each is by itself, with as many queries; and when they are not."""

import dataclasses

import pytest
import torch
from torch import nn

from smoothsweep.core.attacks.ppa.attack import TEMPERATURE, Optimise, PlugAndPlay, Select
from smoothsweep.core.attacks.ppa.config import Averaging, Pool, Restarts, TemperatureScaling
from smoothsweep.core.attacks.shared.base import AttackInputs
from smoothsweep.core.attacks.shared.execution import Execution, PreparedTarget, same_bits
from smoothsweep.core.attacks.shared.view import view_of
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.models.classifiers import build_classifier
from tests.made_rows import Rows

CLASSES, SIDE, COMPONENTS, POOL = 11, 16, 12, 40
PLAIN = PlugAndPlay(
    candidates=4, steps=3, lr=0.05, batch_size=8, selected=2, selection_repeats=3, pool=Pool(size=POOL), loss="logit"
)


def changed(**settings):
    return dataclasses.replace(PLAIN, **settings)


class Prior(nn.Module):
    """Pixels [3, SIDE, SIDE] that are sums over the coordinates, row by row: no kernel knows of another row."""

    num_ws, w_dim, resolution = 1, COMPONENTS, SIDE

    def __init__(self):
        super().__init__()
        weight = torch.randn(COMPONENTS, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0)) / 8
        self.register_buffer("weight", weight)

    def synthesize(self, w):
        return (w[:, 0, :, None, None, None] * self.weight).sum(1)


def rows(**changes):
    """The target that no class shares a kernel's row with."""
    return Rows(CLASSES, SIDE, seed=1, **changes)


@pytest.fixture(scope="module")
def inputs():
    source = torch.Generator().manual_seed(2)
    parts = {"candidates": {"confidences": torch.rand(POOL, CLASSES, generator=source)}}
    parts["pool"] = {"w": torch.randn(POOL, 1, COMPONENTS, generator=source)}
    parts[TEMPERATURE] = {TEMPERATURE: torch.tensor([3.0])}
    return AttackInputs(protocol="clean", prior=Prior(), parts=parts)


def viewed(target, **settings):
    execution = Execution(ExecutionConfig(**settings), "cpu")
    answer = target if isinstance(target, nn.Module) else PreparedTarget(target)
    return view_of(answer, "gradients", num_classes=CLASSES, image_size=SIDE, execution=execution)


def both(attack, target, inputs, classes):
    """Each class by itself and all side by side, and how many images the target saw each time."""
    found = []
    for pieces in ([[c] for c in classes], [classes]):
        view = viewed(target)
        kept = [one for piece in pieces for one in attack.invert_batch(view, inputs, piece, seed=5)]
        found.append((kept, view.queries))
    return found


def same(one, other):
    for group in ("rows", "curves"):
        mine, theirs = getattr(one, group), getattr(other, group)
        assert mine.keys() == theirs.keys()
        assert all(same_bits(mine[name], theirs[name]) for name in mine)
    assert same_bits(one.w, other.w) and same_bits(one.scores, other.scores)
    mine, theirs = (torch.tensor(list(each.facts.values())) for each in (one, other))
    assert one.facts.keys() == other.facts.keys() and same_bits(mine, theirs)


CASES = {
    "poincare": changed(loss="poincare"),
    "cross entropy, by margin": changed(loss="cross_entropy", select=Select(kind="augmented_margin")),
    "logit, three batches": changed(candidates=5, batch_size=2),
    "tempered": changed(loss="cross_entropy", temperature=TemperatureScaling()),
    "without crops": changed(crop_scale=(1.0, 1.0), clip=True, selection_hflip=0.0),
    "restarts": changed(candidates=2, restarts=Restarts()),
}


@pytest.mark.parametrize("protocol", ["paper", "clean"])
@pytest.mark.parametrize("case", CASES)
def test_side_by_side_every_class_has_the_bits_and_the_queries_that_it_has_by_itself(inputs, case, protocol):
    attack, inputs, classes = CASES[case], dataclasses.replace(inputs, protocol=protocol), [3, 0, 10, 7]
    target = rows()
    (alone, queries), (beside, shown) = both(attack, target, inputs, classes)
    for one, other in zip(alone, beside, strict=True):
        same(one, other)
    assert shown == queries > 0 and max(target.seen) > 8, "no class has more than 8 candidates of its own"
    assert not torch.equal(alone[0].w, alone[1].w)


def test_networks_of_convolutions_are_the_same_too(inputs):
    target = build_classifier("resnet_small", CLASSES, seed=1, protocol="clean").eval()
    (alone, _), (beside, _) = both(changed(steps=2, selection_repeats=2), target, inputs, [3, 0, 10, 7])
    for one, other in zip(alone, beside, strict=True):
        same(one, other)


def test_a_row_that_breaks_is_stopped_and_the_other_classes_go_on(inputs):
    brightness = inputs.prior.synthesize(inputs.parts["pool"]["w"]).flatten(1).mean(1)
    bright = float(brightness.quantile(0.8))
    target = rows(blind=lambda means: means >= bright)
    (alone, _), (beside, _) = both(changed(loss="cross_entropy"), target, inputs, list(range(8)))
    stopped = [one.facts["num_frozen"] for one in alone]
    assert 0 < sum(stopped) < 32 and min(stopped) < max(stopped)
    for one, other in zip(alone, beside, strict=True):
        same(one, other)
    assert max(target.seen) == 32


def test_where_the_bits_would_differ_classes_are_computed_one_after_the_other(inputs):
    (alone, asked), (beside, shown) = both(PLAIN, rows(coupled=1e-5), inputs, [3, 0, 10])
    for one, other in zip(alone, beside, strict=True):
        same(one, other)
    assert asked == shown, "what was tried is not counted"


@pytest.mark.parametrize(
    ("settings", "together"),
    [
        ({}, 8),
        ({"candidates": 32}, 1),
        ({"candidates": 50, "pool": Pool(size=60)}, 1),
        ({"candidates": 10}, 3),
        ({"candidates": 4, "restarts": Restarts(count=4)}, 2),
        ({"select": Select(kind="augmented_margin")}, 8),
        ({"discriminator_weight": 0.1}, 1),
        ({"average": Averaging()}, 1),
        ({"feature_weight": 1.0}, 1),
        ({"optimise": Optimise(kind="none"), "steps": 50, "lr": 0.005, "batch_size": 25, "loss": "poincare"}, 1),
        (
            {
                "select": Select(kind="top_confidence"),
                "selection_repeats": 100,
            },
            1,
        ),
    ],
)
def test_classes_are_side_by_side_on_a_cpu_where_nothing_looks_at_more_than_a_row(settings, together):
    attack = changed(**{"pool": Pool(size=60), **settings})
    assert attack.side_by_side("cpu") == together
    assert attack.side_by_side("cuda") == 1


def test_another_trial_that_selects_is_asked_class_by_class(inputs):
    selector = viewed(rows())
    PLAIN.invert_batch(
        viewed(rows()), dataclasses.replace(inputs, targets={"selection_target": selector}), [0, 1], seed=5
    )
    assert selector.queries == 2 * PLAIN.candidates * PLAIN.selection_repeats
