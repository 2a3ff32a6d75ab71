from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.data.splits import (
    frequency_ranks,
    paper_shuffle,
    samples_per_class,
    stratified_split,
)
from smoothsweep.core.errors import InputError

GOLDEN = Path(__file__).parents[2] / "golden" / "data.npz"
NAMES = ("ann", "bob", "cleo")

class_sizes = st.lists(st.integers(2, 30), min_size=1, max_size=6)


@pytest.fixture(scope="module")
def golden():
    with np.load(GOLDEN, allow_pickle=False) as arrays:
        return dict(arrays)


def labels_of(sizes, seed=0):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    np.random.default_rng(seed).shuffle(labels)
    return torch.from_numpy(labels)


def names_of(sizes):
    return tuple(f"class {i}" for i in range(len(sizes)))


def test_published_shuffle(golden):
    np.testing.assert_array_equal(paper_shuffle(20), golden["split_seed42_n20_full"])
    for n in (20, 1000, 37878):
        head = golden[f"split_seed42_perm_n{n}_head"]
        np.testing.assert_array_equal(paper_shuffle(n)[: len(head)], head)
    np.testing.assert_array_equal(paper_shuffle(50), golden["trainset_reshuffle_seed42_n50"])


def test_frequency_ranks_break_ties_by_first_appearance():
    assert frequency_ranks(["b", "a", "c", "c", "a", "d"], 3).tolist() == [2, 0, 1, 1, 0, -1]
    with pytest.raises(InputError, match="at most the 2 identities there are, got 3"):
        frequency_ranks([1, 2], 3)


@settings(max_examples=40, deadline=None)
@given(sizes=class_sizes, fraction=st.floats(0.05, 0.95), seed=st.integers(0, 1000))
def test_stratified_split_is_a_partition_with_the_share_of_every_class(sizes, fraction, seed):
    labels, names = labels_of(sizes), names_of(sizes)
    train, test = stratified_split(labels, test_fraction=fraction, seed=seed, names=names)
    assert sorted(train.tolist() + test.tolist()) == list(range(len(labels)))
    for label, size in enumerate(sizes):
        in_test = int((labels[test] == label).sum())
        assert in_test == min(max(round(fraction * size), 1), size - 1)
    again = stratified_split(labels, test_fraction=fraction, seed=seed, names=names)
    assert torch.equal(again[0], train) and torch.equal(again[1], test)


@settings(max_examples=40, deadline=None)
@given(sizes=st.lists(st.integers(8, 30), min_size=1, max_size=6), seed=st.integers(0, 1000), data=st.data())
def test_samples_per_class_are_nested(sizes, seed, data):
    labels, names = labels_of(sizes), names_of(sizes)
    more = data.draw(st.integers(2, 8))
    fewer = data.draw(st.integers(1, more))
    large = samples_per_class(labels, more, seed=seed, names=names)
    small = samples_per_class(labels, fewer, seed=seed, names=names)
    assert torch.bincount(labels[large]).tolist() == [more] * len(sizes)
    assert torch.bincount(labels[small]).tolist() == [fewer] * len(sizes)
    assert set(small.tolist()) <= set(large.tolist())


def test_too_few_images_name_the_class():
    labels = torch.tensor([0, 0, 0, 1, 2, 2])
    with pytest.raises(InputError, match="at least 2 images of class bob, got 1"):
        stratified_split(labels, test_fraction=0.1, seed=0, names=NAMES)
    with pytest.raises(InputError, match="at least 3 training images of class bob, got 1"):
        samples_per_class(labels, 3, seed=0, names=NAMES)
    with pytest.raises(InputError, match="at least 1 training images of class dan, got 0"):
        samples_per_class(labels, 1, seed=0, names=(*NAMES, "dan"))
    with pytest.raises(InputError, match="samples_per_class: expected at least 1, got 0"):
        samples_per_class(labels, 0, seed=0, names=NAMES)
