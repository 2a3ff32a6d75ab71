import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.defenses.information import identity_batches, shuffled_batches
from smoothsweep.core.errors import InputError


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@settings(deadline=None, max_examples=40)
@given(
    counts=st.lists(st.integers(1, 15), min_size=4, max_size=12),
    per_class=st.integers(2, 5),
    seed=st.integers(0, 99),
)
def test_every_batch_has_as_many_classes_and_images_of_each_as_promised(counts, per_class, seed):
    labels = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    labels = labels[torch.randperm(len(labels), generator=generator(seed))]
    batches = identity_batches(labels, 4 * per_class, per_class, generator(seed))
    assert batches
    seen = torch.cat(batches)
    for batch in batches:
        assert labels[batch].view(4, per_class).unique(dim=1).shape == (4, 1)
        assert len(labels[batch].unique()) == 4
    for label, count in enumerate(counts):
        used = seen[labels[seen] == label]
        if count >= per_class:
            assert len(used.unique()) == len(used)  # nothing twice in an epoch
        else:
            assert len(used) <= per_class and len(used.unique()) in (0, count)


def test_an_epoch_of_equal_classes_leaves_nothing_out():
    labels = torch.arange(20).repeat(8)
    batches = identity_batches(labels, 64, 4, generator(1))
    assert len(batches) == 2 and len(torch.cat(batches).unique()) == 128
    even = identity_batches(torch.arange(16).repeat(8), 32, 4, generator(1))
    assert torch.equal(torch.cat(even).sort().values, torch.arange(128))


def test_batches_that_cannot_be_filled_are_refused():
    with pytest.raises(InputError, match="at least 16 classes for batches of 64 with 4 images per class, got 10"):
        identity_batches(torch.arange(10).repeat(8), 64, 4, generator())
    with pytest.raises(InputError, match=r"a multiple of images_per_class \(4\), got 30"):
        identity_batches(torch.arange(10).repeat(8), 30, 4, generator())


def test_shuffled_batches_are_whole():
    batches = shuffled_batches(35, 16, generator())
    assert [len(batch) for batch in batches] == [16, 16] and len(torch.cat(batches).unique()) == 32
    assert torch.equal(shuffled_batches(5, 16, generator())[0].sort().values, torch.arange(5))
