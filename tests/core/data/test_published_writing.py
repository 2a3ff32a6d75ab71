"""Published sets on disk: what is written, packed row by row, and that a fault leaves nothing behind."""

import json
import os
import re
import shutil

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from published_trees import (
    encoded,
    facescrub,
    picture,
    pixels,
    put,
    written,
)
from safetensors.torch import load_file

from smoothsweep.core.data.images import pack_images, packed_bytes
from smoothsweep.core.data.published import PUBLISHED, list_published, write_published
from smoothsweep.core.errors import InputError


@pytest.fixture(scope="module")
def faces(tmp_path_factory):
    return facescrub(tmp_path_factory.mktemp("facescrub"))


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


def test_samples_per_class_are_nested_and_leave_the_test_part(faces, tmp_path):
    parts = {}
    for count in (2, 4):
        write_published("facescrub", faces, tmp_path / str(count), size=8, classes=5, samples_per_class=count)
        images, labels = written(tmp_path / str(count), "train")
        assert torch.bincount(labels).tolist() == [count] * 5
        parts[count] = {image.numpy().tobytes() for image in images}
    assert parts[2] < parts[4]
    write_published("facescrub", faces, tmp_path / "all", size=8, classes=5)
    assert torch.equal(written(tmp_path / "2", "test")[0], written(tmp_path / "all", "test")[0])
    with pytest.raises(InputError, match=r"at least 9 training images of class Cy_Roe, got 6"):
        write_published("facescrub", faces, tmp_path / "much", size=8, classes=5, samples_per_class=9)


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
        ("facescrub", {"samples_per_class": 0, "classes": 5}, "samples_per_class: expected at least 1, got 0"),
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


def test_half_precision_goes_through_unrounded(tmp_path):
    images = torch.randn(3, 3, 5, 5).half()
    with pack_images(tmp_path / "x.safetensors", torch.arange(3), 5, torch.float16) as put:
        for row, image in enumerate(images.numpy()):
            put(row, image)
        with pytest.raises(ValueError, match="row 0"):
            put(0, images[0].float().numpy())
    found = load_file(tmp_path / "x.safetensors")
    assert torch.equal(found["images"], images) and found["labels"].tolist() == [0, 1, 2]
    assert (tmp_path / "x.safetensors").stat().st_size == packed_bytes(3, 5, torch.float16)
