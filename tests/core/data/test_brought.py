"""What people bring: deep pictures, tables of Hugging Face, names in two Unicode forms, newer formats."""

import json
import struct
import unicodedata
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from smoothsweep.core.data.labelled import load_labelled, load_unlabelled, training_labels
from smoothsweep.core.data.own_check import check_own
from smoothsweep.core.data.sources import content_digest, count_labelled, list_unlabelled
from smoothsweep.core.errors import InputError
from tests.labelled_files import encoded, folders, pixels, png, refusal

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
