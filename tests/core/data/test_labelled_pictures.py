import numpy as np
import pytest
from PIL import Image

from smoothsweep.core.data import decoding
from smoothsweep.core.data.labelled import load_labelled, load_unlabelled
from tests.labelled_files import encoded, parquet, people, pixels, png, refusal


@pytest.fixture
def table(tmp_path):
    return tmp_path / "faces.parquet"


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


def test_leaving_out_can_make_a_class_too_small(table):
    people(table, image=[b""] * 3 + [png(i) for i in range(9)])
    message = refusal(load_labelled, table, size=8, on_corrupt="skip")
    assert "expected at least 2 images of class person 0, got 1" in message


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


def test_the_same_picture_in_two_classes_is_noted(table):
    images = [png(i) for i in range(12)]
    images[4] = images[0]
    people(table, image=images)
    assert "1 pictures appear in two classes: row 0 = row 4" in load_labelled(table, size=8).notes


# Kinds of pictures


def shown(table, data, size=8, crop="centre"):
    """The pixels [size, size, 3] that one encoded picture becomes."""
    parquet(table, image=[data])
    return load_unlabelled(table, size=size, crop=crop)[0].permute(1, 2, 0).numpy()


def test_grey_and_16_bit(table):
    grey = pixels(0)[..., 0]
    expected = np.repeat(grey[..., None], 3, axis=2)
    np.testing.assert_array_equal(shown(table, encoded(grey)), expected)
    deep = encoded(Image.fromarray(grey.astype(np.uint16) * 257))
    np.testing.assert_array_equal(shown(table, deep), expected)
    wide = Image.fromarray(np.full((8, 8), 1 << 20, dtype=np.int32))
    assert "integer pixels beyond 16 bits" in refusal(shown, table, encoded(wide, "TIFF"))
    floating = Image.fromarray(np.ones((8, 8), dtype=np.float32))
    assert "floating-point pixels" in refusal(shown, table, encoded(floating, "TIFF"))


def test_transparency_shows_white(table):
    colour = pixels(0)
    alpha = np.full((8, 8, 1), 255, dtype=np.uint8)
    alpha[:4] = 0
    got = shown(table, encoded(np.concatenate([colour, alpha], axis=2)))
    assert (got[:4] == 255).all()
    np.testing.assert_array_equal(got[4:], colour[4:])


def test_palettes(table):
    image = Image.new("P", (8, 8))
    image.putpalette([10, 20, 30, 200, 100, 50])
    image.putpixel((3, 2), 1)
    got = shown(table, encoded(image))
    assert got[2, 3].tolist() == [200, 100, 50] and got[0, 0].tolist() == [10, 20, 30]
    got = shown(table, encoded(image, transparency=0))
    assert got[2, 3].tolist() == [200, 100, 50] and got[0, 0].tolist() == [255, 255, 255]


def test_cmyk(table):
    got = shown(table, encoded(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG", quality=95))
    assert np.abs(got.astype(int) - [255, 0, 0]).max() < 12


def test_exif_orientation(table):
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held upright: turn a quarter clockwise
    got = shown(table, encoded(pixels(0), exif=exif.tobytes()))
    np.testing.assert_array_equal(got, np.rot90(pixels(0), -1))


def test_pictures_that_are_not_square(table):
    wide = pixels(0, 8, 14)
    np.testing.assert_array_equal(shown(table, encoded(wide)), wide[:, 3:11])
    tall = pixels(0, 13, 8)
    np.testing.assert_array_equal(shown(table, encoded(tall)), tall[2:10])
    stretched = np.asarray(Image.fromarray(wide).resize((8, 8), Image.Resampling.BILINEAR))
    np.testing.assert_array_equal(shown(table, encoded(wide), crop="stretch"), stretched)


def test_enlarging_is_noted(table):
    people(table, image=[png(i, 20, 20) for i in range(11)] + [png(11, 8, 30)])
    assert "1 pictures are smaller than 16 pixels and were enlarged" in load_labelled(table, size=16).notes
