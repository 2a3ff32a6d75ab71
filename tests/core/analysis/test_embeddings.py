"""Maps and distances of features, against clouds whose geometry is known."""

import pytest
import torch

from smoothsweep.core.analysis.embeddings import feature_distances, map_features, mapped_rows
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.features import Features, spread_over


@pytest.fixture(scope="module")
def clouds():
    """Three classes of 12 in ten dimensions, far apart; features float32, labels in no order."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(3).repeat_interleave(12)[torch.randperm(36, generator=generator)]
    centres = 20 * torch.eye(3, 10)
    return centres[labels] + torch.randn(36, 10, generator=generator), labels


def by_hand(features, labels):
    """The same distances, one pair at a time."""
    found = {"intra": [], "inter": [], "intra_nearest": [], "inter_nearest": []}
    pairs = [[(one - other).norm().item() for other in features.double()] for one in features.double()]
    for i, row in enumerate(pairs):
        alike = [value for j, value in enumerate(row) if labels[j] == labels[i] and j != i]
        others = [value for j, value in enumerate(row) if labels[j] != labels[i]]
        for name, values in (("intra", alike), ("inter", others)):
            found[name].append(sum(values) / len(values) if values else float("nan"))
            found[f"{name}_nearest"].append(min(values, default=float("nan")))
    scale = max(map(max, pairs))
    return {name: torch.tensor(values) / scale for name, values in found.items()}


def test_distances_are_those_of_every_pair(clouds, monkeypatch):
    monkeypatch.setattr("smoothsweep.core.analysis.embeddings.BLOCK", 7)  # rows that fill no block too
    features, labels = clouds
    found, expected = feature_distances(features, labels), by_hand(features, labels)
    for name, values in expected.items():
        torch.testing.assert_close(found[name], values.double(), rtol=1e-5, atol=1e-7)
    assert found["intra"].max() < 0.4 < found["inter"].min() <= 1


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


@pytest.mark.parametrize(("perplexity", "count", "fits"), [(5.0, 6, True), (5.0, 5, False), (30.0, 30, False)])
def test_a_perplexity_needs_more_samples(clouds, perplexity, count, fits):
    settings = Features(perplexity=perplexity)
    if fits:
        assert map_features(clouds[0][:count], settings)[0].isfinite().all()
    else:
        with pytest.raises(InputError, match=f"perplexity: expected less than the {count} training images to map"):
            map_features(clouds[0][:count], settings)


@pytest.mark.parametrize(
    ("count", "most", "expected"),
    [
        (3, 5, [0, 1, 2]),
        (5, 5, [0, 1, 2, 3, 4]),
        (9, 3, [0, 4, 8]),
        (9, 1, [0]),
        (530, 2, [0, 529]),
    ],
)
def test_classes_are_spread_evenly(count, most, expected):
    assert spread_over(count, most) == expected


def test_all_samples_of_the_chosen_classes_are_mapped():
    labels = torch.tensor([4, 7, 4, 9, 11, 9, 4])
    assert mapped_rows(labels, 3).tolist() == [0, 2, 3, 4, 5, 6]  # 4, 9 and 11 of four classes
    assert mapped_rows(labels, 100).tolist() == list(range(7))
