"""Published trees of pictures: labels, splits, what is written of them, and what is refused."""

import json
import os
import re
import shutil
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from published_trees import (
    GOLDEN_PEOPLE,
    annotation,
    encoded,
    facescrub,
    imagenette,
    matlab_list,
    picture,
    pixels,
    put,
    stanford_dogs,
    written,
)
from safetensors.torch import load_file
from torchvision import transforms as tv

from smoothsweep.core.data.images import pack_images, packed_bytes
from smoothsweep.core.data.layouts import fit_square
from smoothsweep.core.data.published import PUBLISHED, check_published, list_published, write_published
from smoothsweep.core.data.splits import paper_split
from smoothsweep.core.errors import InputError

GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.fixture(scope="module")
def golden():
    with np.load(GOLDEN / "published.npz", allow_pickle=False) as orders, np.load(GOLDEN / "data.npz") as images:
        return {**orders, **images}


def test_imagenette_keeps_its_own_split_and_sorts_synsets(tmp_path):
    listing = list_published("imagenette", imagenette(tmp_path), classes=3)
    assert listing.names == ("n01440764", "n02102040", "n02979186")
    assert [listing.files[i].split("/")[0] for i in listing.train.tolist()] == ["train"] * 9
    assert listing.labels[listing.test].tolist() == [0, 0, 1, 1, 2, 2]
    with pytest.raises(InputError, match="split_seed: expected 42"):
        list_published("imagenette", tmp_path, classes=3, split_seed=7)
    with pytest.raises(InputError, match="expected 10 synsets, got 3"):
        list_published("imagenette", tmp_path)
    shutil.rmtree(tmp_path / "val" / "n02102040")
    with pytest.raises(InputError, match="expected pictures in val/n02102040, got none"):
        list_published("imagenette", tmp_path, classes=3)


def test_squares_equal_the_official_test_transform(golden):
    image = Image.fromarray(golden["tf_input_uint8_hwc"])
    for fit, name in (("stretch", "tf_test_list16_dogs"), ("shorter_side", "tf_test_int16_celeba")):
        ours = np.asarray(fit_square(image, 16, fit)).transpose(2, 0, 1).astype(np.float32) / 255 * 2 - 1
        np.testing.assert_allclose(ours, golden[name], atol=1e-5)


@given(width=st.integers(1, 60), height=st.integers(1, 60), size=st.integers(1, 40))
def test_the_shorter_side_fits_as_in_torchvision(width, height, size):
    image = Image.fromarray(pixels(width * 100 + height, width, height))
    steps = tv.Compose([tv.Resize(size), tv.CenterCrop(size)])
    np.testing.assert_array_equal(np.asarray(fit_square(image, size, "shorter_side")), np.asarray(steps(image)))


def test_pictures_are_converted_as_pillow_does_without_turning(tmp_path):
    root = facescrub(tmp_path / "in", (("actors", "A", 2), ("actresses", "B", 1)))
    exif = Image.Exif()
    exif[0x0112] = 6
    grey = Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8))
    put(root / "actors" / "faces" / "A" / "0.png", encoded(grey, "PNG", exif=exif))
    image = picture(list_published("facescrub", root, classes=2), 0)
    np.testing.assert_array_equal(np.asarray(image), np.repeat(np.asarray(grey)[..., None], 3, axis=2))


@pytest.fixture(scope="module")
def faces(tmp_path_factory):
    return facescrub(tmp_path_factory.mktemp("facescrub"))


@pytest.mark.parametrize("seed", [42, 7])
def test_facescrub_has_the_official_order_labels_and_split(faces, golden, seed):
    listing = list_published("facescrub", faces, classes=5, split_seed=seed)
    code = {name: i for i, (_, name, _) in enumerate(GOLDEN_PEOPLE)}
    for part in ("train", "test"):
        rows = []
        for i in getattr(listing, part).tolist():
            *_, name, file = listing.files[i].split("/")
            rows.append((code[name], int(file.removesuffix(".png")), int(listing.labels[i])))
        np.testing.assert_array_equal(rows, golden[f"fs_{part}_seed{seed}_creationcode_filenum_label"])
    assert listing.names == ("Aa_Bee", "Cy_Roe", "J.K._Lo", "Olivia_d'Abo", "Zed_Ann")


def test_facescrub_without_an_identity_is_refused(faces, tmp_path):
    with pytest.raises(InputError, match=r"expected 530 identities, got 5 \(3 actors and 2 actresses\)$"):
        list_published("facescrub", faces)
    root = shutil.copytree(faces, tmp_path / "tree")
    (root / "actors" / "images" / "Ned_Absent").mkdir(parents=True)
    with pytest.raises(InputError, match="expected faces of Ned_Absent in actors/faces, got none"):
        list_published("facescrub", root, classes=5)
    (root / "actors" / "faces" / "Ned_Absent").mkdir()
    with pytest.raises(InputError, match="expected pictures in actors/faces/Ned_Absent, got none"):
        list_published("facescrub", root, classes=6)
    shutil.rmtree(root / "actresses")
    with pytest.raises(InputError, match=r"expected FaceScrub's layout .* with a folder actresses/faces, got nothing"):
        list_published("facescrub", root, classes=6)


def test_other_files_are_passed_over_as_imagefolder_does_and_hidden_ones_do_not_count(faces, tmp_path):
    root = shutil.copytree(faces, tmp_path / "tree")
    put(root / "actors" / "faces" / "Aa_Bee" / "readme.txt", "x")
    put(root / "actors" / "faces" / "Aa_Bee" / "._0.png", "x")
    put(root / "actors" / "faces" / ".cache" / "0.png", "x")
    listing = list_published("facescrub", root, classes=5)
    assert listing.files == list_published("facescrub", faces, classes=5).files
    assert "1 files that are no pictures were passed over" in listing.notes


def test_facescrub_names_that_differ_from_the_published_map_are_doubted(tmp_path):
    names = [f"A{i:03d}" for i in range(264)] + ["Woody_Allen"]
    for group, folders in (("actors", names), ("actresses", [f"Z{i:03d}" for i in range(265)])):
        for name in folders:
            put(tmp_path / group / "faces" / name / "0.png", b"")
    doubts = list_published("facescrub", tmp_path).doubts
    assert "label 0: the published class map has Aaron_Eckhart, this tree A000" in doubts
    assert len(doubts) == 5  # Woody_Allen is where he should be


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
        ("<annotation", "no bounding box in"),
        ("<object><bndbox><xmin>1</xmin></bndbox></object>", "no bounding box in"),
        ('<!DOCTYPE a [<!ENTITY b "c">]>' + annotation((2, 1, 8, 7)), "no bounding box in"),
        (annotation((8, 1, 2, 7)), "box 8 1 2 7 in 12 x 8"),
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


def test_a_whole_tree_is_reported_file_by_file(tmp_path):
    root = facescrub(tmp_path)
    faces = root / "actors" / "faces"
    cut_short = (faces / "Aa_Bee" / "1.png").read_bytes()[:-60]
    put(faces / "Aa_Bee" / "1.png", cut_short)
    put(faces / "Cy_Roe" / "2.png", b"<html>")
    put(faces / "Cy_Roe" / "3.png", encoded(pixels(1, 9, 8)))
    (faces / "Empty_One").mkdir()
    (root / "actresses" / "images" / "Gone_Girl").mkdir(parents=True)
    check = check_published("facescrub", root)
    assert check.faults[:3] == (
        "expected faces of Gone_Girl in actresses/faces, got none (there is actresses/images/Gone_Girl)",
        "expected pictures in actors/faces/Empty_One, got none",
        "expected 530 identities, got 6 (4 actors and 2 actresses)",
    )
    assert check.faults[3].startswith("actors/faces/Aa_Bee/1.png: ")
    assert check.faults[4] == "actors/faces/Cy_Roe/2.png: not a picture in a known format"
    assert check.oddities == ("actors/faces/Cy_Roe/3.png: 9 x 8 pixels, will be stretched to a square",)
    assert [(count.what, count.found, count.paper) for count in check.counts] == [
        ("identities", 5, 530),
        ("readable images", 42, None),
    ]
    assert check.sides == (8, 9) and not check.is_complete


def test_written_files_hold_the_split_in_order(faces, tmp_path):
    result = write_published("facescrub", faces, tmp_path, size=6, classes=5)
    listing = list_published("facescrub", faces, classes=5)
    for part in ("train", "test"):
        images, labels = written(tmp_path, part)
        index = getattr(listing, part)
        assert torch.equal(labels, listing.labels[index])
        for row, i in enumerate(index.tolist()):
            expected = np.asarray(picture(listing, i).resize((6, 6), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
            np.testing.assert_array_equal(images[row], expected)
    assert json.loads((tmp_path / "names.json").read_text()) == list(listing.names) == list(result.names)
    assert (result.num_classes, result.num_train, result.num_test) == (5, 39, 5)
    assert result.notes[-1] == "5 classes, 39 training and 5 test images"
    assert "split: published 90/10 shuffle, seed 42" in result.notes
    assert sorted(file.name for file in tmp_path.iterdir()) == ["names.json", "test.safetensors", "train.safetensors"]


@pytest.fixture
def threads():
    """Set the number of torch's threads, which decoding follows."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def test_threads_change_nothing(faces, tmp_path, threads):
    for workers in (1, 3):
        threads(workers)
        write_published("facescrub", faces, tmp_path / str(workers), size=5, classes=5)
    for name in ("train.safetensors", "test.safetensors", "names.json"):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "3" / name).read_bytes()


@pytest.mark.parametrize("damage", ["truncated", "empty", "text", "missing"])
@pytest.mark.parametrize("workers", [1, 2])
def test_an_unreadable_picture_is_named_and_nothing_is_written(faces, tmp_path, damage, workers, threads):
    threads(workers)
    root = shutil.copytree(faces, tmp_path / "tree")
    name = "actresses/faces/Zed_Ann/3.png"
    content = (root / name).read_bytes()
    put(root / name, {"truncated": content[:-60], "empty": b"", "text": "<html>", "missing": b""}[damage])
    if damage == "missing":
        (root / name).unlink()
        (root / name).symlink_to("nowhere")
    with pytest.raises(InputError, match=re.escape(name)) as error:
        write_published("facescrub", root, tmp_path / "out", size=8, classes=5)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists() or list((tmp_path / "out").iterdir()) == []


def test_skipping_leaves_the_others_where_they_were(faces, tmp_path):
    root = shutil.copytree(faces, tmp_path / "tree")
    listing = list_published("facescrub", root, classes=5)
    bad = [int(listing.train[3]), int(listing.test[1])]
    for i in bad:
        put(root / listing.files[i], b"junk")
    result = write_published("facescrub", root, tmp_path / "out", size=8, classes=5, on_corrupt="skip")
    write_published("facescrub", faces, tmp_path / "whole", size=8, classes=5)
    for part, hole in (("train", 3), ("test", 1)):
        (images, labels), (all_images, all_labels) = (written(tmp_path / f, part) for f in ("out", "whole"))
        kept = torch.arange(len(all_labels)) != hole
        assert torch.equal(images, all_images[kept]) and torch.equal(labels, all_labels[kept])
    assert any(note.startswith("2 pictures that cannot be read were left out") for note in result.notes)


def test_notes_tell_of_stretched_enlarged_and_doubled_pictures(faces, tmp_path):
    root = shutil.copytree(faces, tmp_path / "tree")
    listing = list_published("facescrub", root, classes=5)
    shutil.copy(root / listing.files[int(listing.test[0])], root / listing.files[int(listing.train[0])])
    put(root / listing.files[int(listing.train[1])], encoded(pixels(0, 9, 8)))
    notes = write_published("facescrub", root, tmp_path / "out", size=9, classes=5).notes
    assert "1 pictures are not square and were stretched" in notes
    assert "44 pictures are smaller than 9 pixels and were enlarged" in notes
    assert "1 training pictures are files that test as well; they were kept, as published" in notes


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("facescrub", {"pictures": "crops"}, "pictures: expected nothing, since facescrub has no choice, got 'crops'"),
        ("celeba", {"pictures": "photos"}, "pictures: expected one of crops, aligned, in_the_wild, in_the_wild_68"),
        ("facescrub", {"classes": 1}, "classes: expected at least 2, got 1"),
    ],
)
def test_options_that_cannot_take_effect_are_refused(faces, tmp_path, kind, options, message):
    with pytest.raises(InputError, match=message):
        write_published(kind, faces, tmp_path / "out", **{"size": 8, **options})
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", PUBLISHED)
def test_a_folder_that_is_not_there_or_not_of_this_layout(kind, tmp_path):
    with pytest.raises(InputError, match=r"expected a folder in .* layout.*, got no folder"):
        list_published(kind, tmp_path / "nothing")
    with pytest.raises(InputError, match=r"expected .*layout.*, with a folder .*, got nothing there") as error:
        list_published(kind, tmp_path)
    assert "\n" not in str(error.value)


def test_too_little_room_is_said_before_anything_is_decoded(faces, tmp_path):
    with pytest.raises(InputError, match="of free space, got"):
        write_published("facescrub", faces, tmp_path, size=2_000_000, classes=5)
    assert list(tmp_path.iterdir()) == []


def test_names_in_another_encoding_are_refused(faces, tmp_path):
    root = shutil.copytree(faces, tmp_path / "tree")
    os.rename(root / "actors/faces/Aa_Bee", os.fsencode(root / "actors/faces") + b"/Le\xf3n")
    with pytest.raises(InputError, match=r"expected printable names of classes in UTF-8, got 'Le\\udcf3n'"):
        write_published("facescrub", root, tmp_path / "out", size=8, classes=5)


@settings(max_examples=25, deadline=None)
@given(count=st.integers(0, 7), size=st.integers(1, 6), seed=st.integers(0, 99))
def test_a_packed_file_is_an_ordinary_safetensors_file(tmp_path_factory, count, size, seed):
    folder = tmp_path_factory.mktemp("packed")
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (count, 3, size, size), dtype=np.uint8)
    labels = torch.from_numpy(rng.integers(0, 9, count))
    with pack_images(folder / "a.safetensors", labels, size) as put:
        for i in rng.permutation(count).tolist():
            put(i, images[i])
    tensors = load_file(folder / "a.safetensors")
    assert torch.equal(tensors["labels"], labels) and np.array_equal(tensors["images"], images)
    assert (folder / "a.safetensors").stat().st_size == packed_bytes(count, size)
    assert [file.name for file in folder.iterdir()] == ["a.safetensors"]


def test_nothing_stays_behind_an_error_and_what_was_there_is_kept(tmp_path):
    file = tmp_path / "a.safetensors"
    file.write_bytes(b"before")
    with pytest.raises(RuntimeError, match="stop"), pack_images(file, torch.arange(2), 4) as put:
        put(0, np.zeros((3, 4, 4), dtype=np.uint8))
        raise RuntimeError("stop")
    assert file.read_bytes() == b"before" and len(os.listdir(tmp_path)) == 1
