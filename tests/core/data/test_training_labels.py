"""The training images by their labels alone, as the reader of pictures splits them."""

import pytest
from labelled_files import people, regular_folders

from core.data.labelled import load_labelled, training_labels


@pytest.mark.parametrize("options", [
    {}, {"test_fraction": 0.4}, {"split_seed": 3}, {"largest_classes": 2}, {"samples_per_class": 2},
    {"largest_classes": 2, "samples_per_class": 1},
])  # fmt: skip
def test_no_picture_is_read_and_the_labels_are_the_same(tmp_path, options):
    for place in (people(tmp_path / "own.parquet"), people(tmp_path / "drawn.parquet", per_class=5, split=None),
                  regular_folders(tmp_path / "folders")):  # fmt: skip
        read = load_labelled(place, size=8, **options)
        assert training_labels(place, **options).tolist() == read.train.labels.tolist()
    broken = people(tmp_path / "broken.parquet", image=[b"no picture"] * 12)
    assert len(training_labels(broken)) == 9
