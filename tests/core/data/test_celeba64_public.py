"""The third list of the low-resolution attacks: which public pictures it gives, and that they are of other people."""

import numpy as np
import pytest
import torch
from published_trees import celeba64_lists, encoded, pixels, put

from smoothsweep.core.data.celeba64 import load_celeba64_public
from smoothsweep.core.data.decoding import strict_pillow
from smoothsweep.core.data.published import list_published
from smoothsweep.core.errors import InputError

PRIVATE, PUBLIC = [f"{i:06d}.jpg" for i in range(1, 5)], [f"{i:06d}.jpg" for i in range(5, 9)]


def tree(root, rows=None, name="celeba_ganset.txt"):
    for i, file in enumerate([*PRIVATE, *PUBLIC]):
        put(root / "img_align_celeba" / file.replace("jpg", "png"), encoded(pixels(i, 178, 218)))
    celeba64_lists(
        root,
        [(file, k % 2) for k, file in enumerate(PRIVATE[:2])],
        [(file, k % 2) for k, file in enumerate(PRIVATE[2:])],
    )
    put(root / name, "".join(f"{row}\n" for row in (PUBLIC if rows is None else rows)))
    return root


@pytest.mark.parametrize(
    ("rows", "name"),
    [
        (PUBLIC[::-1], "celeba_ganset.txt"),
        ([f"{file} 7" for file in PUBLIC[::-1]], "data_files/ganset.txt"),
    ],
)
def test_the_pictures_are_those_of_the_list_cut_as_the_private_ones(tmp_path, rows, name):
    images = load_celeba64_public(tree(tmp_path, rows, name), size=64)
    assert images.shape == (4, 3, 64, 64) and images.dtype == torch.uint8
    celeba64_lists(tmp_path, [(file, 0) for file in PUBLIC[::-1]], [(PRIVATE[0], 1)])
    listing = list_published("celeba64", tmp_path, classes=2)
    with strict_pillow():
        for row in range(4):
            cut = listing.decode(row, listing.read(row))
            assert cut.size == (108, 108)
            assert np.array_equal(np.asarray(cut.resize((64, 64), 2)).transpose(2, 0, 1), images[row].numpy())


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [*PUBLIC, PRIVATE[3]],
            "expected other people in celeba_ganset.txt than in celeba_testset.txt, got 1 pictures in both: 000004.jpg",
        ),
        ([*PUBLIC, PUBLIC[0]], "celeba_ganset.txt: expected every picture once, got 1 again"),
        ([], "expected public pictures in celeba_ganset.txt, got none"),
        (["../x.jpg"], "celeba_ganset.txt: expected file names, got ../x.jpg"),
        (["000005.jpg 1 2"], "celeba_ganset.txt line 1: expected 1 columns (file), got 3"),
        (["000009.jpg"], "expected a readable picture, got img_align_celeba/000009.jpg (no such file)"),
    ],
)
def test_a_wrong_list_is_one_line(tmp_path, rows, message):
    with pytest.raises(InputError) as refusal:
        load_celeba64_public(tree(tmp_path, rows), size=64)
    assert str(refusal.value) == f"data {tmp_path}: {message}"


@pytest.mark.parametrize("gone", ["celeba_ganset.txt", "celeba_trainset.txt", "celeba_testset.txt"])
def test_the_three_lists_go_together(tmp_path, gone):
    (tree(tmp_path) / gone).unlink()
    with pytest.raises(InputError, match=f"expected the published list {gone} or .*, got nothing there"):
        load_celeba64_public(tmp_path, size=64)


def test_a_picture_of_another_size_is_named(tmp_path):
    put(tree(tmp_path) / "img_align_celeba" / "000006.png", encoded(pixels(1, 64, 64)))
    with pytest.raises(InputError, match=r"got img_align_celeba/000006.png \(64 x 64 pixels where"):
        load_celeba64_public(tmp_path, size=32)
