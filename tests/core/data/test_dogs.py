import shutil
import struct
import zlib

import numpy as np
import pytest
import torch
from published_trees import (
    annotation,
    matlab_list,
    picture,
    pixels,
    put,
    stanford_dogs,
)

from smoothsweep.core.data.published import list_published, write_published
from smoothsweep.core.data.splits import paper_split
from smoothsweep.core.errors import InputError


def zeros(mebibytes=257):
    """A MATLAB file of some hundred kilobytes that decompresses to more than is read."""
    packer = zlib.compressobj()
    content = b"".join(packer.compress(bytes(2**20)) for _ in range(mebibytes)) + packer.flush()
    head = b"MATLAB 5.0".ljust(124) + struct.pack("<H", 0x0100) + b"IM"
    return head + struct.pack("<II", 15, len(content)) + content


def test_dogs_are_the_training_list_then_the_test_list_with_a_new_split(tmp_path):
    listing = list_published("stanford_dogs", stanford_dogs(tmp_path), classes=2)
    assert listing.files[:2] == ("Images/n1-Chihuahua/n1_0.jpg", "Images/n1-Chihuahua/n1_1.jpg")
    assert listing.files[8] == "Images/n1-Chihuahua/n1_4.jpg"
    assert listing.labels.tolist() == [0] * 4 + [1] * 4 + [0] * 3 + [1] * 3
    assert listing.names == ("Chihuahua", "toy-poodle")
    assert torch.equal(listing.train, paper_split(14)[0])
    assert torch.equal(listing.test, paper_split(14)[1])


def test_dogs_are_shown_whole_or_by_their_first_box(tmp_path):
    root = stanford_dogs(tmp_path)
    whole, cropped = (list_published(kind, root, classes=2) for kind in ("stanford_dogs", "stanford_dogs_cropped"))
    assert picture(whole, 0).size == (12, 8)
    np.testing.assert_array_equal(np.asarray(picture(cropped, 0)), pixels(100, 12, 8)[1:7, 2:8])
    assert whole.fit == cropped.fit == "stretch"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "no bounding box: Annotation/n1-Chihuahua/n1_0 is missing"),
        ("<annotation></annotation>", "no bounding box in"),
        ("<annotation", "no bounding box in"),
        ("<object><bndbox><xmin>1</xmin></bndbox></object>", "no bounding box in"),
        ('<!DOCTYPE a [<!ENTITY b "c">]>' + annotation((2, 1, 8, 7)), "no bounding box in"),
        (annotation((8, 1, 2, 7)), "box 8 1 2 7 in 12 x 8"),
        (annotation((0, 0, 10**9, 10**9)), "box 0 0 1000000000 1000000000 in 12 x 8"),
    ],
)
def test_a_dog_without_a_usable_box_is_named(tmp_path, content, reason):
    root = stanford_dogs(tmp_path / "in")
    file = root / "Annotation" / "n1-Chihuahua" / "n1_0"
    if content is None:
        file.unlink()
    else:
        put(file, content)
    with pytest.raises(InputError, match=rf"got Images/n1-Chihuahua/n1_0.jpg \(.*{reason}"):
        write_published("stanford_dogs_cropped", root, tmp_path / "out", size=8, classes=2)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda root: (root / "test_list.mat").unlink(), "with a file test_list.mat, got nothing there"),
        (lambda root: put(root / "test_list.mat", b"junk" * 99), "expected a MATLAB file .* in test_list.mat"),
        (lambda root: put(root / "test_list.mat", zeros()), "expected a MATLAB file .* in test_list.mat"),
        (
            lambda root: matlab_list(root / "test_list.mat", [("../a.jpg", 1)]),
            r"test_list.mat row 1: expected <folder>/",
        ),
        (
            lambda root: matlab_list(root / "test_list.mat", [("a/b.jpg", 3)]),
            "row 1: expected a label from 1 to 2, got 3",
        ),
        (lambda root: matlab_list(root / "test_list.mat", [("n9-x/b.jpg", 1)]), "one folder for label 1, got n1-Chi"),
        (lambda root: shutil.rmtree(root / "Images"), "with a folder Images, got nothing there"),
    ],
)
def test_dog_lists_that_are_wrong_are_named(tmp_path, damage, message):
    root = stanford_dogs(tmp_path)
    damage(root)
    with pytest.raises(InputError, match=message):
        list_published("stanford_dogs", root, classes=2)
