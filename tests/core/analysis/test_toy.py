"""The toy of the paper, maps of embeddings, backdoors."""

from pathlib import Path

import numpy as np
import pytest
import torch

from smoothsweep.core.analysis import toy
from smoothsweep.core.analysis.backdoors import (
    PoisonSettings,
    backdoor_metrics,
    collapsed,
    make_trigger,
    poisoned_labels,
    poisoned_rows,
)
from smoothsweep.core.analysis.embeddings import BLOCK, feature_distances, map_features, mapped_rows
from smoothsweep.core.data.augmentation import draw_augmentation
from smoothsweep.core.data.augmentation_settings import Augmentation
from smoothsweep.core.errors import InputError, TrainingDiverged
from smoothsweep.core.judges.features import Features, spread_over
from smoothsweep.core.training.batches import Batch, Stamp, network_input
from tests.dear import SLOW

GOLDEN = np.load(Path(__file__).parents[2] / "golden" / "toy.npz")


def check_against_the_notebook(result: toy.ToyResult, suffix: str, stride: int) -> None:
    """Steps exactly; positions and confidences with room for another CPU's rounding (here they agree to 1e-6)."""
    steps, distance, loss = GOLDEN[f"toy_steps_distance_loss_{suffix}"]
    assert result.attack.steps == steps
    assert result.attack.distance == pytest.approx(distance, abs=1e-3)
    assert result.train_loss == pytest.approx(loss, abs=1e-5)
    assert result.attack.stopped
    path = result.attack.path.numpy()
    np.testing.assert_allclose(path[::stride], GOLDEN[f"toy_path_{suffix}"], rtol=0, atol=1e-3)
    np.testing.assert_allclose(path[-1], GOLDEN[f"toy_endpoint_{suffix}"], rtol=0, atol=1e-3)
    confidence = result.confidence[::5, ::5].numpy()
    np.testing.assert_allclose(confidence, GOLDEN[f"toy_conf_{suffix}"], rtol=0, atol=1e-3)
    if len(result.endless.path) == 5001:
        endless = GOLDEN[f"toy_nostop5000_distance_{suffix}"][0]
        assert result.endless.distance == pytest.approx(endless, abs=2e-3) and not result.endless.stopped


NOTEBOOK = [(-0.05, "am005", 1, 53, 6.75), (0.0, "a0", 12, 763, 3.23), (0.05, "a005", 51, 3113, 0.65)]


@pytest.mark.parametrize(
    ("endless_steps", "alpha", "suffix", "stride", "steps", "distance"),
    [(20, *NOTEBOOK[0]), *(pytest.param(5000, *row, marks=SLOW) for row in NOTEBOOK)],
)
def test_the_toy_equals_the_notebook(endless_steps, alpha, suffix, stride, steps, distance):
    result = toy.run_toy(alpha, endless_steps=endless_steps)
    check_against_the_notebook(result, suffix, stride)
    assert result.attack.steps == steps
    assert result.attack.distance == pytest.approx(distance, abs=0.006)


def test_training_that_blows_up_says_under_which_alpha():
    with pytest.raises(TrainingDiverged, match=r"after 5 steps under alpha -1e\+38"):
        toy.train_toy(-1e38, steps=5)
    with pytest.raises(InputError, match="at most 1"):
        toy.train_toy(1.1, steps=1)


@pytest.fixture(scope="module")
def clouds():
    """Three classes of 12 in ten dimensions, far apart; features float32, labels in no order."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(3).repeat_interleave(12)[torch.randperm(36, generator=generator)]
    centres = 20 * torch.eye(3, 10)
    return centres[labels] + torch.randn(36, 10, generator=generator), labels


def test_distances_are_those_of_every_pair():
    """Of more images than are looked at side by side."""
    source = torch.Generator().manual_seed(0)
    labels = torch.randint(3, (BLOCK + 30,), generator=source)
    features = torch.randn(len(labels), 2, generator=source) + 9 * labels[:, None]
    found, pairs = feature_distances(features, labels), torch.cdist(features.double(), features.double())
    alike = labels[:, None] == labels
    itself = torch.eye(len(labels), dtype=torch.bool)
    for name, counted in (("intra", alike & ~itself), ("inter", ~alike)):
        torch.testing.assert_close(found[name], (pairs * counted).sum(1) / counted.sum(1) / pairs.max())
        nearest = pairs.masked_fill(~counted, torch.inf).amin(1) / pairs.max()
        torch.testing.assert_close(found[f"{name}_nearest"], nearest)


def test_far_from_the_origin_no_digit_is_lost(clouds):
    features, labels = clouds
    moved = feature_distances(features.double() + 1e5, labels)
    torch.testing.assert_close(moved["intra"], feature_distances(features.double(), labels)["intra"], rtol=1e-9, atol=0)


def test_what_has_no_others_has_no_distance():
    features = torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]])
    found = feature_distances(features, torch.tensor([0, 0, 1]))
    assert (
        found["intra"][0] == found["intra_nearest"][1] == 1
        and found["intra"][2].isnan()
        and found["intra_nearest"][2].isnan()
    )
    alone = feature_distances(features, torch.zeros(3, dtype=torch.int64))
    assert alone["inter"].isnan().all() and alone["inter_nearest"].isnan().all()
    same = feature_distances(torch.ones(4, 2), torch.tensor([0, 0, 1, 1]))
    assert same["intra"].isnan().all()
    with pytest.raises(ValueError, match="at least 2 samples"):
        feature_distances(features[:1], torch.tensor([0]))


def test_a_map_keeps_classes_apart_and_follows_its_seed(clouds):
    features, labels = clouds
    settings = Features(perplexity=5.0, seed=1)
    found, again = map_features(features, settings), map_features(features, settings)
    assert all(map(torch.equal, found, again))
    for points in found:
        assert points.shape == (36, 2)
        placed = feature_distances(points, labels)
        assert (placed["intra_nearest"] < placed["inter_nearest"]).all()


@pytest.mark.parametrize(
    ("count", "most", "expected"),
    [(3, 5, [0, 1, 2]), (5, 5, [0, 1, 2, 3, 4]), (9, 3, [0, 4, 8]), (9, 1, [0]), (530, 2, [0, 529])],
)
def test_classes_are_spread_evenly(count, most, expected):
    assert spread_over(count, most) == expected


def test_all_samples_of_the_chosen_classes_are_mapped():
    labels = torch.tensor([4, 7, 4, 9, 11, 9, 4])
    assert mapped_rows(labels, 3).tolist() == [0, 2, 3, 4, 5, 6]  # 4, 9 and 11 of four classes
    assert mapped_rows(labels, 100).tolist() == list(range(7))


BADNETS, BLENDED = PoisonSettings(kind="badnets"), PoisonSettings(kind="blended")


def drawn(seed):
    return torch.Generator().manual_seed(seed)


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
