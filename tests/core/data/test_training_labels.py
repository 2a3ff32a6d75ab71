"""The training images by their labels alone, as the reader of pictures splits them."""

import pytest
from labelled_files import people, regular_folders

from smoothsweep.core.data.labelled import load_labelled, training_labels
from smoothsweep.core.data.sources import class_count
from smoothsweep.core.errors import InputError


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
        assert class_count(place) == len(load_labelled(place, size=8).train.names)
    nameless = people(tmp_path / "nameless.parquet", identity=None, label=None)
    with pytest.raises(InputError, match="expected a column 'label' or 'identity'"):
        class_count(nameless)
