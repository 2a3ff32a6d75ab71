"""CelebA at 64 pixels: the published lists, the public pictures, and bytes as the official loaders make them."""

import numpy as np
import pytest
import torch
from PIL import Image
from published_trees import (
    celeba,
    celeba64_lists,
    encoded,
    pixels,
    put,
    written,
)

from smoothsweep.core.data.celeba import central_face, load_celeba64_public
from smoothsweep.core.data.decoding import strict_pillow
from smoothsweep.core.data.labelled import load_unlabelled
from smoothsweep.core.data.published import list_published, write_published
from smoothsweep.core.errors import InputError
from tests.lowres import golden, whole_bytes


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


ALIGNED = whole_bytes("prep_celeba", (218, 178, 3))


def golden_tree(root):
    """Private people of four pictures and a public one; the first of both is the golden picture."""
    celeba(root, [1, 1, 2, 2, 3], width=178, height=218)
    for name in ("000001", "000005"):
        put(root / "img_align_celeba" / f"{name}.png", encoded(ALIGNED))
    celeba64_lists(root, [("000001.jpg", 0), ("000003.jpg", 1)], [("000002.jpg", 0), ("000004.jpg", 1)])
    put(root / "celeba_ganset.txt", "000005.jpg\n")
    return root


def test_private_faces_are_cut_and_reduced_as_officially(tmp_path):
    assert np.array_equal(ALIGNED[:2, :4], golden("prep_celeba_crop_head"))
    assert central_face(0, Image.fromarray(ALIGNED)).size == (108, 108)
    root = golden_tree(tmp_path / "in")
    for size in (64, 112):
        write_published("celeba64", root, tmp_path / str(size), size=size, classes=2)
        images, _ = written(tmp_path / str(size), "train")
        assert torch.equal(images[0], golden(f"prep_celeba_{size}_uint8"))


def test_public_faces_are_cut_and_reduced_as_officially(tmp_path):
    [image] = load_celeba64_public(golden_tree(tmp_path), size=64)
    for name in ("celeba_gan", "ffhq_test"):
        assert torch.equal(image, golden(f"prep_lomma_{name}_uint8"))


def test_other_public_pictures_need_the_official_crop_before_they_come_here(tmp_path):
    """A folder's pictures are reduced whole: FaceScrub's of 64 pixels stay, FFHQ's have to be cut to 88 before."""
    scrubbed, thumbnail = whole_bytes("prep_facescrub", (64, 64, 3)), whole_bytes("prep_ffhq", (128, 128, 3))
    put(tmp_path / "facescrub" / "0.png", encoded(scrubbed))
    put(tmp_path / "ffhq" / "0.png", encoded(thumbnail[20:108, 20:108]))
    for name in ("facescrub", "ffhq"):
        [image] = load_unlabelled(tmp_path / name, size=64)
        assert torch.equal(image, golden(f"prep_lomma_{name}_gan_uint8"))
