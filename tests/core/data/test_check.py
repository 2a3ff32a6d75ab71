"""A check of a user's own pictures: counts, what is there twice or looks it, and what loading would refuse."""

import pytest

from smoothsweep.core.data.labelled import load_labelled
from smoothsweep.core.data.likeness import refuse_shared
from smoothsweep.core.data.own_check import check_own
from smoothsweep.core.errors import InputError
from tests.labelled_files import encoded, folders, parquet, scene

JPEG = {"kind": "JPEG", "quality": 60}


def made(root, *, more=None, public=None):
    """Ann has five pictures and Bob three, each a scene of its own; and public pictures of others."""
    people = {f"ann/{i}.png": encoded(scene(i)) for i in range(5)} | {
        f"bob/{i}.png": encoded(scene(10 + i, side=64)) for i in range(3)
    }
    others = {f"{i}.png": encoded(scene(200 + i)) for i in range(4)}
    return folders(root / "own", people | (more or {})), folders(root / "public", others | (public or {}))


def test_counts_sizes_and_the_split_are_those_that_loading_gives(tmp_path):
    own, public = made(tmp_path)
    check, loaded = check_own(own, public), load_labelled(own, size=16)
    expected = {
        name: tuple(int((part.labels == label).sum()) for part in (loaded.train, loaded.test))
        for label, name in enumerate(loaded.train.names)
    }
    assert check.counts == expected == {"ann": (4, 1), "bob": (2, 1)}
    assert (check.shapes.images, check.shapes.shortest, check.shapes.longest) == (8, 64, 96)
    assert check.public.images == 4 and check.is_usable and not check.shared and not any(check.near.values())
    text = "\n".join(check.lines())
    assert "images per class: 3 to 5, median 4; the largest class has 1.7 times the smallest's" in text
    assert text.endswith("fine") and "not fine" not in text


def test_a_private_picture_that_is_public_is_named_however_it_is_encoded(tmp_path):
    own, public = made(tmp_path, public={"copy.bmp": encoded(scene(11, side=64), "BMP")})
    check = check_own(own, public)
    assert check.shared == (("bob/1.png", "copy.bmp"),) and not check.is_usable
    with pytest.raises(InputError, match=r"none of the pictures in .*own, got 1 of them: bob/1.png = copy.bmp"):
        refuse_shared(own, public)


def test_a_picture_that_only_looks_like_a_public_one_is_a_warning(tmp_path):
    own, public = made(tmp_path, public={"copy.jpg": encoded(scene(3).resize((70, 70)), **JPEG)})
    check = check_own(own, public)
    assert check.near["of private and public"] == (("ann/3.png", "copy.jpg"),)
    assert check.is_usable and not check.shared
    assert refuse_shared(own, public)[0] == check.near["of private and public"]


def test_near_duplicates_are_told_by_part_and_two_people_s_are_a_doubt(tmp_path):
    picture = scene(50)
    dimmed = picture.point(lambda value: int(0.9 * value))
    rows = [(scene(i), i % 2, "train") for i in range(6)] + [(scene(20 + i), i % 2, "test") for i in range(2)]
    rows += [(picture, 0, "train"), (dimmed, 1, "test"), (picture.resize((48, 48)), 0, "train")]
    table = parquet(
        tmp_path / "own.parquet",
        image=[encoded(image) for image, _, _ in rows],
        label=[who for _, who, _ in rows],
        split=[part for _, _, part in rows],
    )
    check = check_own(table)
    assert check.near["within training"] == (("row 10", "row 8"),)
    assert check.near["of test and training"] == (("row 9", "row 10"),)
    assert check.near["within test"] == () and "of private and public" not in check.near
    assert check.doubts == ("row 9 ~ row 10: alike, of 1 and 0",)


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ({"ann/bad.png": b"no picture"}, "unreadable: ann/bad.png (not a picture in a known format)"),
        ({"zoe/0.png": encoded(scene(77))}, "class zoe: 1 readable images, where a split needs 2"),
    ],
)
def test_what_loading_refuses_is_a_fault(tmp_path, more, fault):
    own, public = made(tmp_path, more=more)
    check = check_own(own, public)
    assert fault in check.faults and not check.is_usable
    with pytest.raises(InputError):
        load_labelled(own, size=16)


def test_a_picture_in_both_parts_is_a_fault_and_one_twice_in_a_part_a_doubt(tmp_path):
    image = [encoded(scene(i)) for i in (0, 0, 1, 2, 0, 3)]
    table = parquet(
        tmp_path / "own.parquet",
        image=image,
        label=[0, 0, 1, 1, 0, 1],
        split=["train", "train", "train", "train", "test", "test"],
    )
    check = check_own(table)
    assert check.faults == ("in training and test: row 4 = row 1",)
    assert check.doubts == ("row 1 = row 0: the same picture, of 0", "row 4 = row 0: the same picture, of 0")
    with pytest.raises(InputError, match="expected different pictures for training and test"):
        load_labelled(table, size=16)
