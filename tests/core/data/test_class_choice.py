"""Which classes and how many images a labelled set gives, without reading a picture."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from labelled_files import people, regular_folders

from smoothsweep.core.data.labelled import load_labelled, training_labels
from smoothsweep.core.data.sources import count_labelled
from smoothsweep.core.data.splits import largest_classes
from smoothsweep.core.errors import InputError
from tests.labelled_files import parquet, png


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"test_fraction": 0.4},
        {"split_seed": 3},
        {"largest_classes": 2},
        {"samples_per_class": 2},
        {"largest_classes": 2, "samples_per_class": 1},
    ],
)
def test_no_picture_is_read_and_the_labels_are_the_same(tmp_path, options):
    for place in (
        people(tmp_path / "own.parquet"),
        people(tmp_path / "drawn.parquet", per_class=5, split=None),
        regular_folders(tmp_path / "folders"),
    ):
        read = load_labelled(place, size=8, **options)
        assert training_labels(place, **options).tolist() == read.train.labels.tolist()
    broken = people(tmp_path / "broken.parquet", image=[b"no picture"] * 12)
    assert len(training_labels(broken)) == 9


def test_classes_are_counted_as_the_reader_numbers_them(tmp_path):
    by_label = people(tmp_path / "labels.parquet", identity=None, label=[n // 4 for n in range(12)])
    for place in (people(tmp_path / "own.parquet"), by_label, regular_folders(tmp_path / "folders")):
        assert count_labelled(place).classes == len(load_labelled(place, size=8).train.names)
    nameless = people(tmp_path / "nameless.parquet", identity=None, label=None)
    with pytest.raises(InputError, match="expected a column 'label' or 'identity'"):
        count_labelled(nameless)


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
