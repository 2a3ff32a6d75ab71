import os
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from smoothsweep.core.data.labelled import load_labelled, load_unlabelled
from smoothsweep.core.data.sources import content_digest
from tests.labelled_files import folders, parquet, people, pixels, png, refusal, regular_folders


@pytest.fixture
def table(tmp_path):
    return tmp_path / "faces.parquet"


# Folders


def test_a_folder_per_class(tmp_path):
    regular_folders(tmp_path)
    (tmp_path / "ann" / ".DS_Store").write_bytes(b"x")
    (tmp_path / "Thumbs.db").write_bytes(b"x")
    data = load_labelled(tmp_path, size=8, test_fraction=0.2)
    assert data.train.names == ("ann", "bob")
    assert torch.bincount(data.train.labels).tolist() == [4, 4]
    assert torch.bincount(data.test.labels).tolist() == [1, 1]


def test_split_folders(tmp_path):
    layout = {
        f"{split}/{c}/{i}.png": png(100 * s + 10 * k + i)
        for s, (split, n) in enumerate((("train", 3), ("test", 1)))
        for k, c in enumerate(("ann", "bob"))
        for i in range(n)
    }
    data = load_labelled(folders(tmp_path, layout), size=8)
    assert (len(data.train), len(data.test)) == (6, 2)
    np.testing.assert_array_equal(data.test.images[1].permute(1, 2, 0), pixels(110))


def test_classes_may_be_called_like_splits(tmp_path):
    data = load_labelled(
        folders(tmp_path, {f"{c}/{i}.png": png(10 * k + i) for k, c in enumerate(("test", "train")) for i in range(3)}),
        size=8,
    )
    assert data.train.names == ("test", "train")


def test_a_linked_picture_and_class_are_followed(tmp_path):
    regular_folders(tmp_path / "all")
    chosen = tmp_path / "chosen"
    (chosen / "bob").mkdir(parents=True)
    (chosen / "ann").symlink_to(tmp_path / "all" / "ann")
    for i in range(5):
        (chosen / "bob" / f"{i}.png").symlink_to(tmp_path / "all" / "bob" / f"{i}.png")
    linked, direct = load_labelled(chosen, size=8), load_labelled(tmp_path / "all", size=8)
    assert torch.equal(linked.train.images, direct.train.images)
    assert content_digest(chosen) == content_digest(tmp_path / "all")


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ({"ann/1.png": png(0), "notes.txt": b"x"}, "expected a folder per class, got the file notes.txt"),
        ({"ann/1.png": png(0), "ann/notes.txt": b"x"}, "expected pictures only, got ann/notes.txt"),
        ({"ann/1.png": png(0), "bob/old/1.png": png(1)}, "expected pictures in bob, got the folder bob/old"),
        ({"ann/1.png": png(0), "ann/2.png": png(1), "bob/.keep": b""}, "at least 2 images of class bob, got 0"),
        ({"ann/1.png": png(0)}, "expected at least 2 classes, got 1"),
        ({"train/a/1.png": png(0), "train/b/1.png": png(1)}, "expected at least 2 images of class a, got 1"),
        (
            {f"train/{c}/{i}.png": png(10 * k + i) for k, c in enumerate("ab") for i in range(2)},
            "expected images of the splits train and test, got none of test",
        ),
        ({"ann/1.png": png(0), "ann/2.png": b"x", "bob/1.png": png(1)}, "got 1 that are not: ann/2.png (not a picture"),
        ({".hidden": b""}, "expected a folder per class, got an empty folder"),
    ],
)
def test_folders_that_are_refused(tmp_path, layout, message):
    text = refusal(load_labelled, folders(tmp_path, layout), size=8)
    assert message in text, text


def test_dangling_links_and_special_files_are_refused(tmp_path):
    regular_folders(tmp_path)
    link = tmp_path / "ann" / "9.png"
    link.symlink_to(tmp_path / "nowhere.png")
    assert "expected a picture at ann/9.png, got a link that leads nowhere" in refusal(load_labelled, tmp_path, size=8)
    link.unlink()
    os.mkfifo(link)
    assert "expected a picture at ann/9.png, got something that is no file" in refusal(load_labelled, tmp_path, size=8)


# Without labels


def test_unlabelled_pictures_from_any_depth(tmp_path):
    folders(tmp_path, {"b.png": png(1), "a/c.png": png(0), "c/d/e.png": png(2), ".hidden/x.txt": b"x"})
    images = load_unlabelled(tmp_path, size=8)
    for i in range(3):
        np.testing.assert_array_equal(images[i].permute(1, 2, 0), pixels(i))


def test_a_limit_draws_a_seeded_choice_in_order(table):
    parquet(table, image=[png(i) for i in range(30)])
    everything = load_unlabelled(table, size=8)
    assert torch.equal(load_unlabelled(table, size=8, limit=30), everything)
    some, again, other = (load_unlabelled(table, size=8, limit=10, seed=s) for s in (0, 0, 1))
    assert torch.equal(some, again) and not torch.equal(some, other)
    rows = [int((everything == image).all(dim=(1, 2, 3)).nonzero()) for image in some]
    assert rows == sorted(set(rows)) and len(rows) == 10
    assert "limit: expected at least 1, got 0" in refusal(load_unlabelled, table, size=8, limit=0)


def test_unlabelled_folders_that_are_refused(tmp_path):
    assert "expected pictures, got none" in refusal(load_unlabelled, tmp_path, size=8)
    (tmp_path / "again").symlink_to(tmp_path)
    assert "again through a link" in refusal(load_unlabelled, tmp_path, size=8)


# Digest


def test_the_digest_follows_content_and_names_only(tmp_path, table):
    first, second = regular_folders(tmp_path / "a"), regular_folders(tmp_path / "b")
    (second / ".DS_Store").write_bytes(b"x")
    digest = content_digest(first)
    assert re.fullmatch("[0-9a-f]{64}", digest) and digest == content_digest(second)
    (second / "ann" / "0.png").rename(second / "ann" / "7.png")
    assert content_digest(second) != digest
    people(table)
    before = content_digest(table)
    moved = table.rename(tmp_path / "moved.parquet")
    assert content_digest(moved) == before
    people(moved, per_class=5)
    assert content_digest(moved) != before
    assert "got nothing at this path" in refusal(content_digest, tmp_path / "none")


# The real sets, where they lie beside the repository


@pytest.mark.parametrize(("name", "expected"), [("orl-faces", (40, 320, 80))])
def test_a_real_set(name, expected):
    path = Path(__file__).parents[4] / "shared" / "data" / name / "faces.parquet"
    if not path.exists():
        pytest.skip("no real faces beside the repository")
    data = load_labelled(path, size=64)
    assert (data.train.num_classes, len(data.train), len(data.test)) == expected
