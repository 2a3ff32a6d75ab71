import re

import numpy as np
import pyarrow as pa
import pytest
import torch

from smoothsweep.core.data.labelled import load_labelled, load_unlabelled
from tests.labelled_files import parquet, people, pixels, png, refusal


@pytest.fixture
def table(tmp_path):
    return tmp_path / "faces.parquet"


def test_a_regular_table(table):
    people(table)
    data = load_labelled(table, size=8)
    assert data.train.names == data.test.names == ("person 0", "person 1", "person 2")
    assert data.train.labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert data.test.labels.tolist() == [0, 1, 2]
    assert data.train.images.dtype == torch.uint8 and data.train.images.shape == (9, 3, 8, 8)
    np.testing.assert_array_equal(data.test.images[0].permute(1, 2, 0), pixels(3))
    assert data.notes == ("split: the one that came with the data", "3 classes, 9 training and 3 test images")


def test_threads_do_not_change_the_result(table):
    people(table, per_class=50)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    one = load_labelled(table, size=6)
    torch.set_num_threads(3)
    three = load_labelled(table, size=6)
    torch.set_num_threads(before)
    assert torch.equal(one.train.images, three.train.images) and torch.equal(one.test.images, three.test.images)


@pytest.mark.parametrize(
    ("label", "identity", "names"),
    [
        ([7, 7, 3, 3, 12, 12], None, ("3", "7", "12")),
        ([7, 7, 3, 3, 12, 12], list("aabbcc"), ("b", "a", "c")),
        (None, ["zoe", "zoe", "ann", "ann", "mia", "mia"], ("ann", "mia", "zoe")),
        (["zoe", "zoe", "ann", "ann", "mia", "mia"], None, ("ann", "mia", "zoe")),
        ([7.0, 7.0, 3.0, 3.0, 12.0, 12.0], None, ("3", "7", "12")),
    ],
)
def test_labels_become_contiguous(table, label, identity, names):
    people(table, per_class=2, label=label, identity=identity, split=None)
    data = load_labelled(table, size=8, test_fraction=0.5)
    assert data.train.names == names
    name_of_row = [str(int(x)) if isinstance(x, float) else str(x) for x in (identity or label)]
    for part in (data.train, data.test):
        for image, label_now in zip(part.images, part.labels.tolist(), strict=True):
            row = next(i for i in range(6) if (pixels(i) == image.permute(1, 2, 0).numpy()).all())
            assert part.names[label_now] == name_of_row[row]
    renumbered = "labels 3, 7, 12 were renumbered 0 to 2 in this order" in data.notes
    assert renumbered == (label is not None and not isinstance(label[0], str))


def test_without_a_split_every_class_is_split_and_the_seed_counts(table):
    people(table, per_class=10, split=None)
    first, again, other = (load_labelled(table, size=8, test_fraction=0.2, split_seed=s) for s in (1, 1, 2))
    assert torch.bincount(first.test.labels).tolist() == [2, 2, 2]
    assert torch.equal(first.test.images, again.test.images)
    assert not torch.equal(first.test.images, other.test.images)
    assert "split: 0.2 of every class for the test, seed 1" in first.notes


def test_samples_per_class_keeps_the_test_part(table):
    people(table, per_class=10)
    small, large = (load_labelled(table, size=8, samples_per_class=k) for k in (3, 6))
    assert torch.bincount(small.train.labels).tolist() == [3, 3, 3]
    held = {image.numpy().tobytes() for image in large.train.images}
    assert all(image.numpy().tobytes() in held for image in small.train.images)
    assert len(small.test) == len(large.test) == 3
    message = refusal(load_labelled, table, size=8, samples_per_class=10)
    assert "at least 10 training images of class person 0, got 9" in message


def test_validation_images_are_left_out_and_noted(table):
    people(table, per_class=4, split=["train", "Train", "valid", "test"] * 3)
    data = load_labelled(table, size=8)
    assert (len(data.train), len(data.test)) == (6, 3)
    assert "3 validation images are not used" in data.notes


def test_pictures_wrapped_in_a_struct(table):
    wrapped = [{"bytes": png(i), "path": f"{i}.png"} for i in range(8)]
    parquet(table, image=wrapped, label=[0] * 4 + [1] * 4)
    assert len(load_labelled(table, size=8).train) == 6


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"label": None, "identity": None}, "expected a column 'label' or 'identity', got image, split"),
        ({"label": [0] * 4 + [1] * 4 + [0] + [2] * 3}, "row 8: expected one identity for label 0, got 'person 0'"),
        (
            {"label": [0] * 4 + [1] * 4 + [2] * 3 + [3]},
            "row 11: expected one label for identity 'person 2', got 2 and 3",
        ),
        ({"label": [0] * 11 + [None]}, "row 11: expected a number or a name in 'label', got null"),
        ({"identity": ["a"] * 4 + [""] + ["b"] * 7}, "row 4: expected a number or a name in 'identity', got ''"),
        ({"label": [0.5] * 12}, "row 0: expected a number or a name in 'label', got 0.5"),
        ({"label": [0] * 12, "identity": None}, "expected at least 2 classes, got 1"),
        ({"split": ["train"] * 11 + ["dev"]}, "row 11: expected a split of train, test, .*got 'dev'"),
        ({"split": ["train"] * 12}, "expected images of the splits train and test, got none of test"),
        ({"split": ["test"] * 12}, "got none of train"),
        ({"split": ["train", "test"] * 4 + ["train"] * 4}, "test part: expected at least 1 images of class person 2"),
        (
            {"split": ["train", "test"] * 4 + ["test"] * 4},
            "training part: expected at least 1 images of class person 2",
        ),
        ({"image": list(range(12))}, "column 'image': expected encoded pictures \\(bytes\\), got int64"),
        ({"image": [png(i) for i in range(11)] + [None]}, "row 11: expected a picture in 'image', got null"),
        ({"image": [png(i) for i in range(11)] + [b""]}, "row 11 \\(not a picture in a known format\\)"),
    ],
)
def test_tables_that_are_refused(table, changes, message):
    people(table, **changes)
    text = refusal(load_labelled, table, size=8)
    assert re.search(message, text), text
    assert str(table) in text


def test_tables_without_pictures(table, tmp_path):
    parquet(table, picture=[b"x"], label=[0])
    assert "expected a column 'image', got picture, label" in refusal(load_labelled, table, size=8)
    parquet(table, image=pa.array([], pa.binary()), label=pa.array([], pa.int64()))
    assert "got an empty table" in refusal(load_labelled, table, size=8)
    table.write_bytes(b"")
    assert "expected a Parquet file or a folder per class" in refusal(load_labelled, table, size=8)
    table.write_bytes(b"PAR1 or not")
    assert "expected a Parquet file or a folder per class" in refusal(load_unlabelled, table, size=8)
    assert "got nothing at this path" in refusal(load_labelled, tmp_path / "none", size=8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"crop": "center"}, "crop: expected one of centre, stretch, got 'center'"),
        ({"on_corrupt": "ignore"}, "on_corrupt: expected one of refuse, skip, got 'ignore'"),
        ({"test_fraction": 1.0}, "test_fraction: expected a number between 0 and 1, got 1.0"),
        ({"size": 0}, "size: expected at least 1 pixel, got 0"),
    ],
)
def test_options_are_checked(table, options, message):
    people(table)
    assert message in refusal(load_labelled, table, **{"size": 8, **options})
