"""Which classes are the largest, and under which labels: decided before anything of them is left out."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.data.labelled import load_labelled
from smoothsweep.core.data.splits import largest_classes
from smoothsweep.core.errors import InputError
from tests.labelled_files import parquet, png


@settings(max_examples=50)
@given(st.lists(st.integers(0, 5), max_size=40), st.integers(1, 6))
def test_the_largest_come_first_and_no_other_is_larger(labels, count):
    labels = torch.tensor(labels, dtype=torch.int64)
    sizes = torch.bincount(labels, minlength=6).tolist()
    kept = largest_classes(labels, count, num_classes=6).tolist()
    assert kept == sorted(range(6), key=lambda label: (-sizes[label], label))[:count]


@pytest.mark.parametrize("count", [0, 7])
def test_more_classes_than_there_are_are_refused(count):
    with pytest.raises(InputError, match=f"^largest_classes: expected 1 to 6 classes, got {count}$"):
        largest_classes(torch.arange(6), count, num_classes=6)


@settings(max_examples=8, deadline=None)
@given(st.permutations([3, 4, 5, 6, 8]), st.integers(2, 5), st.integers(1, 3), st.booleans())
def test_names_labels_and_test_images_do_not_depend_on_how_many_of_each_are_taken(
    tmp_path_factory, sizes, count, few, own_split
):
    labels = [label for label, size in enumerate(sizes) for _ in range(size)]
    columns = {"image": [png(i) for i in range(len(labels))], "label": labels}
    if own_split:  # by the data's own split two classes of equal size are common
        columns["split"] = ["test" if i == 0 or labels[i - 1] != label else "train" for i, label in enumerate(labels)]
    table = parquet(tmp_path_factory.mktemp("data") / "faces.parquet", **columns)
    few = min(few, sorted(sizes)[-count] - 1)
    thin, whole = (
        load_labelled(table, size=8, test_fraction=0.01, largest_classes=count, samples_per_class=taken)
        for taken in (few, None)
    )
    assert thin.train.names == whole.train.names and torch.bincount(thin.train.labels).tolist() == [few] * count
    assert torch.equal(thin.test.images, whole.test.images) and torch.equal(thin.test.labels, whole.test.labels)
