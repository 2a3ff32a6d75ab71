import numpy as np
import pytest
import torch
from PIL import Image
from published_trees import (
    celeba,
    celeba64_lists,
    pixels,
    put,
    written,
)

from smoothsweep.core.data.published import list_published, write_published
from smoothsweep.core.errors import InputError


def aligned(root, identities):
    return celeba(root, identities, width=178, height=218)


def test_celeba64_follows_the_published_lists(tmp_path):
    root = aligned(tmp_path / "in", [1, 1, 1, 2])
    train = [("000003.jpg", 1), ("000001.png", 0)]
    celeba64_lists(root, train, [("000002.jpg", 0), ("000004.jpg", 1)])
    listing = list_published("celeba64", root, classes=2)
    assert [file.split("/")[1] for file in listing.files] == ["000003.png", "000001.png", "000002.png", "000004.png"]
    assert listing.labels.tolist() == [1, 0, 0, 1]
    assert (listing.train.tolist(), listing.test.tolist()) == ([0, 1], [2, 3])
    assert listing.doubts == (
        "celeba_trainset.txt: not the published training list (by its checksum)",
        "celeba_testset.txt: not the published test list (by its checksum)",
    )
    write_published("celeba64", root, tmp_path / "out", size=64, classes=2)
    images, _ = written(tmp_path / "out", "train")
    face = pixels(2, 178, 218)[55:163, 35:143]
    expected = np.asarray(Image.fromarray(face).resize((64, 64), Image.Resampling.BILINEAR))
    np.testing.assert_array_equal(images[0].permute(1, 2, 0), expected)


def test_celeba64_without_lists_makes_a_split_of_its_own_and_says_so(tmp_path):
    root = aligned(tmp_path, [5] * 20 + [6] * 10 + [7] * 3)
    listing = list_published("celeba64", root, classes=2)
    assert listing.names == ("5", "6")
    assert torch.bincount(listing.labels[listing.test]).tolist() == [2, 1]
    assert sorted([*listing.train.tolist(), *listing.test.tolist()]) == list(range(30))
    assert "a deviation" in listing.notes[0]
    again = list_published("celeba64", root, classes=2, split_seed=3)
    assert again.test.tolist() != listing.test.tolist()


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        ("000001.jpg 0\n", None, "expected celeba_testset.txt or testset.txt beside celeba_trainset.txt, got nothing"),
        ("000001.jpg 0\n000002.jpg 1\n", "000001.jpg 0\n", "expected different pictures .*, got 1 in both: 000001.jpg"),
        ("000001.jpg 0\n000002.jpg 2\n", "", "expected a label from 0 to 1 for 000002.jpg, got '2'"),
        ("000001.jpg 0\n000002.jpg\n", "", "celeba_trainset.txt line 2: expected 2 columns .*, got 1"),
        ("000001.jpg 0\n000001.jpg 1\n", "", "expected every picture once, got 000001.jpg again"),
        ("000001.jpg 0\n", "000002.jpg 0\n", "expected 2 identities in the lists, got 1"),
        ("../1.jpg 0\n", "", "expected a file name, got '../1.jpg'"),
    ],
)
def test_celeba64_lists_that_are_wrong_are_named(tmp_path, train, test, message):
    root = aligned(tmp_path, [1, 2])
    put(root / "celeba_trainset.txt", train)
    if test is not None:
        put(root / "celeba_testset.txt", test)
    with pytest.raises(InputError, match=message):
        list_published("celeba64", root, classes=2)


def test_celeba64_refuses_pictures_that_are_not_the_aligned_release_and_seeds_for_a_given_split(tmp_path):
    root = celeba(tmp_path / "in", [1, 1, 2, 2])
    celeba64_lists(root, [("000001.jpg", 0), ("000003.jpg", 1)], [("000002.jpg", 0), ("000004.jpg", 1)])
    with pytest.raises(InputError, match="8 x 8 pixels where CelebA's aligned 178 x 218 are expected"):
        write_published("celeba64", root, tmp_path / "out", size=64, classes=2)
    with pytest.raises(InputError, match="split_seed: expected 42 for a set with a split of its own, got 1"):
        list_published("celeba64", root, classes=2, split_seed=1)
