"""What a check of data counts; copies and likenesses between pictures."""

import io

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

from smoothsweep.core.data.images import resize
from smoothsweep.core.data.labelled import load_labelled
from smoothsweep.core.data.likeness import ALIGNED, NEAR, fit_of, hashes, nearest, refuse_shared, same_photographs
from smoothsweep.core.data.own_check import check_own
from smoothsweep.core.data.synthetic import synthetic_faces
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


def small(picture):
    return np.asarray(picture.resize((32, 32), Image.Resampling.BILINEAR))


def distance(one, other):
    bits = hashes(np.stack([small(one), small(other)])).bits
    return int(np.bitwise_count(bits[0] ^ bits[1]))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "changed",
    [
        lambda picture: picture.resize((61, 61), Image.Resampling.LANCZOS),
        lambda picture: picture.point(lambda value: int(0.8 * value + 12)),
        lambda picture: picture.convert("L").convert("RGB"),
        lambda picture: Image.open(io.BytesIO(encoded(picture, "JPEG", quality=40))),
    ],
)
def test_a_resized_dimmed_grey_or_compressed_copy_is_near_and_another_picture_is_not(seed, changed):
    assert distance(scene(seed), changed(scene(seed))) <= NEAR < distance(scene(seed), scene(seed + 100))


def test_a_picture_of_one_shade_is_near_nothing():
    flat = np.full((3, 32, 32, 3), 120, dtype=np.uint8)
    index, apart = nearest(hashes(flat))
    assert index.tolist() == [-1, -1, -1] and apart.min() > NEAR


SIDE, COPIES = 64, 4


def drawn(population, people, seed):
    faces = synthetic_faces(population=population, identities=people, per_identity=1, size=SIDE, spread=0.6, seed=seed)
    return faces.images.float()


def shrunk(images):
    return resize(images.float(), 32).round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1).numpy()


def turned(images, degrees, scale=1.0):
    angle = torch.tensor(np.deg2rad(degrees))
    rows = scale * torch.tensor([[angle.cos(), -angle.sin(), 0], [angle.sin(), angle.cos(), 0]])
    grid = torch.nn.functional.affine_grid(
        rows.float().expand(len(images), 2, 3), list(images.shape), align_corners=False
    )
    return torch.nn.functional.grid_sample(images, grid, padding_mode="border", align_corners=False)


FRAMES = {
    "shifted by two pixels": lambda images: torch.roll(images, (2, -2), (2, 3)),
    "cropped": lambda images: images[..., 5:59, 5:59],
    "cropped at a corner": lambda images: images[..., :58, :58],
    "turned": lambda images: turned(images, 6),
    "mirrored": lambda images: images.flip(3),
    "mirrored, shifted and turned": lambda images: turned(torch.roll(images, (2, 1), (2, 3)), -5).flip(3),
    "brighter": lambda images: (images * 0.8 + 40).clamp(0, 255),
}


@pytest.fixture(scope="module")
def private():
    return drawn("private", COPIES, 1)


@pytest.fixture(scope="module")
def strangers():
    return shrunk(drawn("public", 24, 2))


@pytest.mark.parametrize("frame", FRAMES)
def test_a_copy_in_another_frame_is_found(frame, private, strangers):
    public = np.concatenate([strangers, shrunk(FRAMES[frame](private))])
    found, likeness = same_photographs(shrunk(private), public)
    assert found.tolist() == list(range(len(strangers), len(public)))
    assert (likeness >= ALIGNED).all()


def test_a_private_picture_that_was_cut_out_of_a_public_one_is_found(private, strangers):
    """Private faces are often framed more tightly than the photographs that they are from."""
    public = np.concatenate([strangers, shrunk(private)])
    for edge in (3, 6, 8):
        found, _ = same_photographs(shrunk(private[..., edge:-edge, edge:-edge]), public)
        assert found.tolist() == list(range(len(strangers), len(public)))


def test_other_faces_are_no_copies(private, strangers):
    found, likeness = same_photographs(shrunk(private), strangers)
    assert (found == -1).all() and (likeness < ALIGNED).all()


def several(population, people, each, seed):
    return synthetic_faces(population=population, identities=people, per_identity=each, size=48, spread=0.6, seed=seed)


@pytest.fixture(scope="module")
def faces():
    faces = several("private", 12, 8, 1)
    return shrunk(faces.images), faces.labels.numpy()


@pytest.fixture(scope="module")
def public():
    return several("public", 150, 1, 2).images


def test_other_drawn_people_fit_also_mirrored(faces, public):
    for images in (public, public.flip(3)):
        fit = fit_of(*faces, shrunk(images))
        assert fit.doubts == () and not fit.is_refused and fit.distance < 1.4


def test_digits_are_another_kind_of_thing(faces):
    digits = torch.from_numpy(load_digits().images[:300] * 15.9)[:, None].expand(-1, 3, -1, -1)
    fit = fit_of(*faces, shrunk(digits))
    assert fit.is_refused and "another kind of thing" in " ".join(fit.doubts)


def test_grey_images_are_said_to_be_grey(faces, public):
    [doubt] = fit_of(*faces, shrunk(public.float().mean(1, keepdim=True).expand(-1, 3, -1, -1))).doubts
    assert "100% of the private images are in colour, 0% of the public ones" in doubt


def test_a_shifted_frame_is_told_with_the_shift_that_would_fit(faces, public):
    moved = torch.roll(public, (6, -6), (2, 3))  # down by an eighth of the side, and to the left
    fit = fit_of(*faces, shrunk(moved))
    assert fit.shift == pytest.approx((-12.5, 12.5), abs=3.2) and fit.scale == pytest.approx(1, abs=0.11)
    assert "another frame" in " ".join(fit.doubts) and not fit.is_refused


def test_an_enlarged_frame_is_told_with_the_scale(faces, public):
    wide = torch.nn.functional.pad(public.float(), (10, 10, 10, 10), mode="replicate")
    fit = fit_of(*faces, shrunk(wide))
    assert fit.scale == pytest.approx(48 / 68, abs=0.11) and fit.distance > fit_of(*faces, shrunk(public)).distance


def test_nothing_is_said_of_few_images_or_one_person(faces, public):
    images, labels = faces
    assert fit_of(images, labels, shrunk(public[:19])) is None
    assert fit_of(images, np.zeros_like(labels), shrunk(public)) is None
