"""Pictures that users bring: tables, folders, shards, arrow; labels, splits, and what is refused."""

import json
import os
import re
import struct
import unicodedata
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from smoothsweep.core.data import decoding
from smoothsweep.core.data.labelled import load_labelled, load_unlabelled, training_labels
from smoothsweep.core.data.own_check import check_own
from smoothsweep.core.data.sources import content_digest, count_labelled, list_unlabelled
from smoothsweep.core.data.splits import largest_classes
from smoothsweep.core.errors import InputError
from tests.labelled_files import encoded, folders, parquet, people, pixels, png, refusal, regular_folders


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


def test_validation_images_are_left_out_and_noted(table):
    people(table, per_class=4, split=["train", "Train", "valid", "test"] * 3)
    data = load_labelled(table, size=8)
    assert (len(data.train), len(data.test)) == (6, 3)
    assert "3 validation images are not used" in data.notes


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


# Folders


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


def test_damaged_pictures_are_refused_or_left_out(table):
    damaged = [png(i) for i in range(12)]
    damaged[1] = b"no picture"
    damaged[5] = encoded(pixels(5, 40, 40))[:-500]
    people(table, image=damaged)
    message = refusal(load_labelled, table, size=8)
    assert "got 2 that are not: row 1 (not a picture in a known format), row 5 (" in message
    data = load_labelled(table, size=8, on_corrupt="skip")
    assert data.train.labels.tolist() == [0, 0, 1, 1, 2, 2, 2]
    assert any(note.startswith("2 unreadable pictures were left out: row 1 (") for note in data.notes)
    people(table, image=[b""] * 12)
    assert "got 12 that are not: row 0" in refusal(load_labelled, table, size=8, on_corrupt="skip")


def test_a_decompression_bomb_is_refused(table, monkeypatch):
    monkeypatch.setattr(decoding, "MOST_PIXELS", 100)
    for side in (12, 30):  # beyond our limit, and beyond that at which Pillow itself raises
        people(table, image=[encoded(pixels(0, side, side))] + [png(i) for i in range(1, 12)])
        assert "row 0 (more than 100 pixels)" in refusal(load_labelled, table, size=8)


def test_the_same_picture_in_training_and_test(table):
    images = [png(i) for i in range(12)]
    images[0] = encoded(pixels(3), compress_level=1)  # other bytes, same pixels as the test picture in row 3
    people(table, image=images)
    assert "got 1 in both: row 0 = row 3" in refusal(load_labelled, table, size=4)
    data = load_labelled(table, size=4, on_corrupt="skip")
    assert (len(data.train), len(data.test)) == (8, 3)
    assert "1 training pictures that the test part holds too were left out: row 0 = row 3" in data.notes


# Kinds of pictures


def shown(table, data, size=8, crop="centre"):
    """The pixels [size, size, 3] that one encoded picture becomes."""
    parquet(table, image=[data])
    return load_unlabelled(table, size=size, crop=crop)[0].permute(1, 2, 0).numpy()


def palette():
    image = Image.new("P", (8, 8))
    image.putpalette([10, 20, 30, 200, 100, 50])
    image.putpixel((3, 2), 1)
    return image, image.convert("RGB")


COLOUR, WIDE, TALL = pixels(0), pixels(0, 8, 14), pixels(0, 13, 8)
GREY, ALPHA = np.repeat(COLOUR[..., :1], 3, axis=2), np.repeat(np.arange(8)[:, None, None] > 3, 8, axis=1)
TURNED = Image.Exif()
TURNED[0x0112] = 6  # the camera was held upright: turn a quarter clockwise
KINDS = {
    "grey": (encoded(COLOUR[..., 0]), GREY),
    "16 bits": (encoded(Image.fromarray(COLOUR[..., 0].astype(np.uint16) * 257)), GREY),
    "transparent": (encoded(np.concatenate([COLOUR, 255 * ALPHA.astype(np.uint8)], 2)), np.where(ALPHA, COLOUR, 255)),
    "palette": (encoded(palette()[0]), np.asarray(palette()[1])),
    "turned": (encoded(COLOUR, exif=TURNED.tobytes()), np.rot90(COLOUR, -1)),
    "wide": (encoded(WIDE), WIDE[:, 3:11]),
    "tall": (encoded(TALL), TALL[2:10]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_of_any_kind_becomes_rgb_and_square(table, kind):
    data, expected = KINDS[kind]
    np.testing.assert_array_equal(shown(table, data), expected)


def test_other_ways_of_colour_and_crop(table):
    red = shown(table, encoded(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG", quality=95))
    assert np.abs(red.astype(int) - [255, 0, 0]).max() < 12
    clear = shown(table, encoded(palette()[0], transparency=0))
    assert clear[2, 3].tolist() == [200, 100, 50] and clear[0, 0].tolist() == [255, 255, 255]
    stretched = np.asarray(Image.fromarray(WIDE).resize((8, 8), Image.Resampling.BILINEAR))
    np.testing.assert_array_equal(shown(table, encoded(WIDE), crop="stretch"), stretched)
    for values, reason in (
        (np.full((8, 8), 1 << 20, dtype=np.int32), "integer pixels beyond 16 bits"),
        (np.ones((8, 8), dtype=np.float32), "floating-point pixels"),
    ):
        assert reason in refusal(shown, table, encoded(Image.fromarray(values), "TIFF"))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"test_fraction": 0.4, "split_seed": 3},
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
        assert count_labelled(place).classes == len(load_labelled(place, size=8).train.names)
    nameless = people(tmp_path / "nameless.parquet", identity=None, label=None)
    with pytest.raises(InputError, match="expected a column 'label' or 'identity'"):
        count_labelled(nameless)


@given(st.lists(st.integers(0, 5), max_size=40), st.integers(1, 6))
def test_the_largest_come_first_and_no_other_is_larger(labels, count):
    labels = torch.tensor(labels, dtype=torch.int64)
    sizes = torch.bincount(labels, minlength=6).tolist()
    kept = largest_classes(labels, count, num_classes=6).tolist()
    assert kept == sorted(range(6), key=lambda label: (-sizes[label], label))[:count]


@settings(max_examples=8, deadline=None)
@given(st.permutations([3, 4, 5, 6, 8]), st.integers(2, 5), st.integers(1, 3), st.booleans())
def test_names_labels_and_test_images_do_not_depend_on_how_many_of_each_are_taken(
    tmp_path_factory, sizes, count, few, own_split
):
    labels = [label for label, size in enumerate(sizes) for _ in range(size)]
    columns = {"image": [png(i) for i in range(len(labels))], "label": labels}
    if own_split:  # by the data's own split two classes of equal size are common
        columns["split"] = ["test" if i == 0 or labels[i - 1] != label else "train" for i, label in enumerate(labels)]
    table = parquet(tmp_path_factory.mktemp("data") / "faces.parquet", **columns)
    few = min(few, sorted(sizes)[-count] - 1)
    thin, whole = (
        load_labelled(table, size=8, test_fraction=0.01, largest_classes=count, samples_per_class=taken)
        for taken in (few, None)
    )
    assert thin.train.names == whole.train.names and torch.bincount(thin.train.labels).tolist() == [few] * count
    assert torch.equal(thin.test.images, whole.test.images) and torch.equal(thin.test.labels, whole.test.labels)


NAMES = ["zoe", "ann", "bob", "eve"]


def deep(bits, container="PNG", seed=0):
    """A grey picture whose white is 2^bits - 1, and what it should be of 8 bits."""
    values = np.random.default_rng(seed).integers(0, 1 << bits, (8, 8))
    values.flat[0] = (1 << bits) - 1
    kind = np.int32 if container == "TIFF" else np.uint16
    return encoded(Image.fromarray(values.astype(kind)), container), np.round(values * 255 / ((1 << bits) - 1))


def people_of(root, picture):
    return folders(
        root, {f"{who}/{i}.png": picture(4 * k + i) for k, who in enumerate(("ann", "bob")) for i in range(4)}
    )


@pytest.mark.parametrize("container", ["PNG", "TIFF"])
@pytest.mark.parametrize("bits", [8, 10, 12, 14, 16])
def test_deep_pictures_are_scaled_by_the_bits_that_are_stated(tmp_path, bits, container):
    root = people_of(tmp_path, lambda seed: deep(bits, container, seed)[0])
    loaded = load_labelled(root, size=8, bits=bits, test_fraction=0.25)
    got = {image[0].numpy().tobytes() for part in (loaded.train, loaded.test) for image in part.images}
    assert got == {deep(bits, container, seed)[1].astype(np.uint8).tobytes() for seed in range(8)}


@pytest.mark.parametrize(("bits", "ambiguous"), [(8, True), (10, True), (12, True), (14, True), (16, False)])
def test_unstated_bits_are_refused_where_they_are_ambiguous(tmp_path, bits, ambiguous):
    root = people_of(tmp_path, lambda seed: deep(bits, seed=seed)[0])
    check = check_own(root, root)
    assert (check.shapes.deep, check.shapes.peak, check.public.peak) == (8, (1 << bits) - 1, (1 << bits) - 1)
    assert any(f"expected bits ({bits}" in fault for fault in check.faults) == ambiguous
    if ambiguous:
        for read in (load_labelled, load_unlabelled):
            assert f"expected bits ({bits}, or 16" in refusal(read, root, size=8)
    assert load_unlabelled(root, size=8, bits=16).max() == round(255 * ((1 << bits) - 1) / 65535)


def of_16_bits(channels, value):
    """A PNG of 8 x 8 pixels of 16 bits a channel, grey with alpha (2), RGB (3) or RGBA (4)."""
    pixel = value.to_bytes(2, "big") * (channels - (channels != 3)) + (b"" if channels == 3 else b"\xff\xff")

    def chunk(name, body):
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    head = struct.pack(">IIBBBBB", 8, 8, 16, {2: 4, 3: 2, 4: 6}[channels], 0, 0, 0)
    rows = zlib.compress((b"\0" + pixel * 8) * 8)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


@pytest.mark.parametrize("channels", [2, 3, 4])
def test_dark_colour_of_16_bits_is_no_black_picture_without_a_word(tmp_path, channels):
    dark = folders(tmp_path / "dark", {f"{i}.png": of_16_bits(channels, 0x0FFF - 256 * i) for i in range(3)})
    assert "expected bits (12, or 16" in refusal(load_unlabelled, dark, size=8)
    assert "save it with 8" in refusal(load_unlabelled, dark, size=8, bits=12)
    assert load_unlabelled(dark, size=8, bits=16).max() == 0x0F
    assert load_unlabelled(folders(tmp_path / "light", {"0.png": of_16_bits(channels, 0x9FFF)}), size=8).max() == 0x9F


def test_a_value_beyond_the_stated_bits_is_refused(tmp_path):
    root = people_of(tmp_path, lambda seed: deep(12, seed=seed)[0])
    assert "a value of 4095, beyond the stated 10 bits" in refusal(load_unlabelled, root, size=8, bits=10)
    assert load_unlabelled(people_of(tmp_path / "plain", png), size=8, bits=12).max() > 12, "8 bits stay as they are"


def hugging_face(path, rows, *, names=NAMES, **columns):
    """Write rows (number of a picture, label) as `datasets` does, with the names of the classes in the schema."""
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    images = pa.array([{"bytes": png(number), "path": "x.png"} for number, _ in rows], kind)
    table = pa.table({"image": images, "label": pa.array([label for _, label in rows], pa.int64()), **columns})
    features = {"image": {"_type": "Image"}, "label": {"names": names, "_type": "ClassLabel"}}
    schema = {"huggingface": json.dumps({"info": {"features": features}})} if names else {}
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table.replace_schema_metadata(schema), path)
    return path


ROWS = [(number, number // 8 if number % 8 < 6 else -1) for number in range(32)]


@pytest.mark.parametrize("names", [NAMES, None])
def test_minus_one_is_no_label_and_names_come_from_the_schema(tmp_path, names):
    file = hugging_face(tmp_path / "x.parquet", ROWS, names=names)
    loaded = load_labelled(file, size=8)
    assert loaded.train.names == tuple(names or "0123") and len(loaded.train) + len(loaded.test) == 24
    assert any("8 rows" in note for note in loaded.notes) and any("8 rows" in note for note in check_own(file).notes)
    assert count_labelled(file).classes == 4 and len(training_labels(file)) == len(loaded.train)
    for part in (loaded.train, loaded.test):
        for image, label in zip(part.images, part.labels.tolist(), strict=True):
            assert any((pixels(n) == image.permute(1, 2, 0).numpy()).all() for n, known in ROWS if known == label)


def test_minus_one_beside_other_numbers_is_a_class(tmp_path):
    file = hugging_face(tmp_path / "x.parquet", [(n, (-1, 1)[n % 2]) for n in range(12)], names=None)
    assert load_labelled(file, size=8).train.names == ("-1", "1")


@pytest.mark.parametrize("place", ["", "data/", "split/"])
def test_a_folder_of_shards_is_one_set_split_by_its_names(tmp_path, place):
    of = {"train": ROWS[::2], "test": [(100 + n, label) for n, label in ROWS[1::2]]}
    for split, rows in of.items():
        for shard in range(2):
            folder = tmp_path / (split if place == "split/" else place)
            hugging_face(folder / f"{split}-0000{shard}-of-00002.parquet", rows[shard::2])
    (tmp_path / "README.md").write_text("a card")
    loaded = load_labelled(tmp_path, size=8)
    assert (len(loaded.train), len(loaded.test), loaded.train.names) == (12, 12, tuple(NAMES))
    assert len(list_unlabelled(tmp_path)) == 32 and count_labelled(tmp_path).classes == 4
    before = content_digest(tmp_path)
    hugging_face(next(tmp_path.rglob("train-00000*.parquet")), ROWS[1::4])
    assert content_digest(tmp_path) != before
    (tmp_path / "a.png").write_bytes(png(0))
    assert "expected Parquet files or pictures, got both, first a.png" in refusal(load_labelled, tmp_path, size=8)


def test_shards_of_one_name_are_one_set_that_we_split_and_null_is_no_label(tmp_path):
    rows = [(number, None if label == -1 else label) for number, label in ROWS]
    for shard in range(2):
        hugging_face(tmp_path / "data" / f"train-0000{shard}-of-00002.parquet", rows[shard::2])
    loaded = load_labelled(tmp_path, size=8)
    assert len(loaded.train) + len(loaded.test) == 24 and len(loaded.test) and loaded.train.names == tuple(NAMES)
    assert any("8 rows" in note for note in loaded.notes)
    unnamed = hugging_face(tmp_path / "unnamed.parquet", rows, names=None)
    assert "row 6: expected a number or a name in 'label', got null" in refusal(load_labelled, unnamed, size=8)


def test_paths_alone_are_said_to_be_no_pictures(tmp_path):
    rows = [{"bytes": None, "path": "/home/ann/1.png"}] * 2
    pq.write_table(pa.table({"image": rows, "label": [0, 1]}), tmp_path / "x.parquet")
    assert "row 0: expected a picture" in refusal(load_labelled, tmp_path / "x.parquet", size=8)


@pytest.mark.parametrize("split", [True, False])
def test_a_folder_of_save_to_disk_is_read_as_it_is_by_its_library(tmp_path, split):
    datasets = pytest.importorskip("datasets")
    whole = datasets.Dataset.from_parquet(
        str(hugging_face(tmp_path / "x.parquet", ROWS)), cache_dir=str(tmp_path / "c")
    )
    parts = {"train": whole.select(range(0, 32, 2)), "test": whole.select(range(1, 32, 2))}
    (datasets.DatasetDict(parts) if split else whole).save_to_disk(str(tmp_path / "saved"))
    loaded = load_labelled(tmp_path / "saved", size=8, test_fraction=0.5)
    assert (len(loaded.train), len(loaded.test), loaded.train.names) == (12, 12, tuple(NAMES))
    assert count_labelled(tmp_path / "saved").classes == 4 and len(list_unlabelled(tmp_path / "saved")) == 32


@pytest.mark.parametrize("kind", [pa.binary_view(), pa.large_binary()])
def test_arrow_s_other_types_of_bytes_and_text_are_read(tmp_path, kind):
    columns = {"image": pa.array([png(n) for n in range(8)], kind)}
    columns["identity"] = pa.array(["ann", "bob"] * 4, pa.string_view())
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    assert load_labelled(tmp_path / "x.parquet", size=8).train.names == ("ann", "bob")


def test_a_name_in_two_unicode_forms_is_one_person(tmp_path):
    layout = {
        f"{split}/{unicodedata.normalize(form, who)}/{i}.png": png(20 * k + 10 * s + i)
        for s, (split, form) in enumerate((("train", "NFD"), ("test", "NFC")))
        for k, who in enumerate(("Zoë", "Renée"))
        for i in range(3)
    }
    loaded = load_labelled(folders(tmp_path, layout), size=8)
    assert loaded.train.num_classes == 2 and (len(loaded.train), len(loaded.test)) == (6, 6)


def test_rows_with_and_without_a_split_are_refused(tmp_path):
    hugging_face(tmp_path / "train-0.parquet", ROWS)
    hugging_face(tmp_path / "more.parquet", ROWS)
    with pytest.raises(InputError, match="a split for every row or for none"):
        load_labelled(tmp_path, size=8)
