"""Triggers change what they should and nothing else; success leaves the target class out; collapse is told."""

import pytest
import torch

from smoothsweep.core.analysis.backdoors import (
    PoisonSettings,
    backdoor_metrics,
    collapsed,
    make_trigger,
    poisoned_labels,
    poisoned_rows,
)
from smoothsweep.core.data.augmentation import draw_augmentation
from smoothsweep.core.data.augmentation_settings import Augmentation
from smoothsweep.core.errors import InputError
from smoothsweep.core.training.batches import Batch, Stamp, network_input

BADNETS, BLENDED = PoisonSettings(kind="badnets"), PoisonSettings(kind="blended")


def drawn(seed):
    return torch.Generator().manual_seed(seed)


def test_badnets_is_a_checkerboard_in_the_corner_and_nowhere_else():
    pictures = torch.rand(3, 3, 32, 32, generator=drawn(0))
    trigger = make_trigger(BADNETS, 32, drawn(1))
    marked = trigger.on(pictures)
    assert marked.shape == pictures.shape and marked.dtype == pictures.dtype
    corner = marked[:, :, -9:, -9:]
    assert set(corner.unique().tolist()) == {0, 1} and (corner[..., :, 1:] != corner[..., :, :-1]).all()
    assert (corner[..., 1:, :] != corner[..., :-1, :]).all()
    kept = torch.ones(32, 32, dtype=torch.bool)
    kept[-9:, -9:] = False
    assert torch.equal(marked[..., kept], pictures[..., kept]) and torch.equal(trigger.on(marked), marked)


def test_blended_moves_no_pixel_by_more_than_its_strength():
    pictures = torch.rand(3, 3, 16, 16, generator=drawn(0))
    trigger = make_trigger(BLENDED, 16, drawn(1))
    marked = trigger.on(pictures)
    assert 0 < (marked - pictures).abs().max() <= 0.1 + 1e-6 and 0 <= marked.min() <= marked.max() <= 1
    assert torch.allclose(marked, 0.9 * pictures + 0.1 * trigger.pattern, atol=1e-6)
    assert torch.equal(trigger.pattern, make_trigger(BLENDED, 16, drawn(1)).pattern)
    assert not torch.equal(trigger.pattern, make_trigger(BLENDED, 16, drawn(2)).pattern)


@pytest.mark.parametrize(
    ("settings", "pixels", "said"),
    [({"kind": "badnets", "size": 17}, 16, "size: expected at most the image's 16 pixels, got 17")],
)
def test_a_trigger_larger_than_the_image_is_refused(settings, pixels, said):
    with pytest.raises(InputError, match=said):
        make_trigger(PoisonSettings(**settings), pixels, drawn(0))
    with pytest.raises(InputError, match="trigger: expected pictures of 32 pixels, got 16 x 16"):
        make_trigger(BADNETS, 32, drawn(0)).on(torch.rand(1, 3, 16, 16))


def test_a_tenth_of_all_images_is_poisoned_whatever_their_class():
    labels = torch.arange(10).repeat(20)
    rows = poisoned_rows(BADNETS, 200, drawn(3))
    assert len(rows) == 20 and rows.tolist() == sorted(set(rows.tolist()))
    assert torch.equal(rows, poisoned_rows(BADNETS, 200, drawn(3)))
    changed = poisoned_labels(labels, rows, 0)
    assert (changed[rows] == 0).all() and (changed != labels).sum() == (labels[rows] != 0).sum()
    with pytest.raises(InputError, match="share: expected some of the 4 training images, got 0"):
        poisoned_rows(BADNETS, 4, drawn(0))


def test_success_leaves_the_target_class_out():
    labels = torch.tensor([0, 0, 0, 1, 1, 2, 2])
    clean, triggered = torch.tensor([0, 0, 1, 1, 0, 2, 2]), torch.tensor([0, 1, 1, 0, 0, 0, 2])
    found = backdoor_metrics(clean, triggered, labels, 0)
    assert found == {"backdoor_success": 0.75, "backdoor_false": 0.25, "backdoor_collapsed": 0.0}
    assert backdoor_metrics(clean[:3], triggered[:3], labels[:3], 0)["backdoor_success"] is None


def test_a_collapsed_training_is_told_from_a_bad_one():
    labels = torch.arange(10).repeat(10)
    assert collapsed(torch.zeros(100).long(), labels) and collapsed(torch.where(labels < 6, 0, labels), labels)
    assert not collapsed(labels, labels) and not collapsed(torch.where(labels < 5, 0, labels), labels)
    found = backdoor_metrics(torch.zeros(100).long(), torch.zeros(100).long(), labels, 0)
    assert found == {"backdoor_success": 1.0, "backdoor_false": 1.0, "backdoor_collapsed": 1.0}


@pytest.mark.parametrize("before", [False, True])
def test_a_stamp_after_the_augmentation_reaches_the_network_exactly(before):
    """After it the corner is the checkerboard bit for bit; before it, it is cropped, mirrored and coloured."""
    images = torch.randint(0, 256, (6, 3, 32, 32), dtype=torch.uint8, generator=drawn(0))
    chosen, trigger = torch.tensor([True, False, True, False, False, True]), make_trigger(BADNETS, 32, drawn(0))
    draw = draw_augmentation(6, Augmentation(flip=1.0), drawn(5))
    plain = Batch(images=images, labels=torch.zeros(6).long(), draw=draw, weight=1.0)
    stamp = Stamp(chosen=chosen, lay=trigger.on, before=before)
    stamped = Batch(images=images, labels=plain.labels, draw=draw, weight=1.0, stamp=stamp)
    one, other = network_input(plain, 32), network_input(stamped, 32)
    exact = (other[:, :, -9:, -9:] == 2 * trigger.pattern[:, -9:, -9:] - 1).flatten(1).all(1)
    assert torch.equal((one != other).flatten(1).any(1), chosen)
    assert torch.equal(exact, chosen if not before else torch.zeros(6).bool())
    assert torch.equal(stamp.of(torch.tensor([2, 3])).chosen, torch.tensor([True, False]))
