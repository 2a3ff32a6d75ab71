"""CelebA at its sizes: choice, split, crops, and lists that are wrong."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from published_trees import celeba, celeba64_lists, encoded, landmark_list, picture, pixels, put, written

from smoothsweep.core.data.celeba import (
    STANDARD_5,
    align_crop,
    aligned_cut,
    central_face,
    crop_target,
    load_celeba64_public,
    similarity,
)
from smoothsweep.core.data.decoding import UnreadablePicture, strict_pillow
from smoothsweep.core.data.published import list_published, write_published
from smoothsweep.core.errors import InputError
from tests.lowres import golden, whole_bytes

GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.fixture(scope="module")
def golden_of_celeba():
    with np.load(GOLDEN / "published.npz", allow_pickle=False) as orders, np.load(GOLDEN / "data.npz") as images:
        return {**orders, **images}


def test_celeba_has_the_official_choice_labels_and_split(tmp_path, golden_of_celeba):
    identities = golden_of_celeba["celeba_identity_per_file"].tolist()
    ends = {part: golden_of_celeba[f"celeba_{part}_seed42_fileindex_label"] for part in ("train", "test")}
    classes = 1 + max(int(rows[:, 1].max()) for rows in ends.values())
    listing = list_published("celeba", celeba(tmp_path, identities), classes=classes)
    for part, expected in ends.items():
        index = getattr(listing, part)
        files = [int(listing.files[i].split("/")[1].removesuffix(".png")) - 1 for i in index.tolist()]
        np.testing.assert_array_equal(np.stack([files, listing.labels[index]], axis=1), expected)
    assert listing.names[0] == "5"


def test_celeba_takes_the_largest_and_falls_back_to_png(tmp_path):
    root = celeba(tmp_path, [3, 9, 9, 4, 4, 4, 1])
    put(root / "img_align_celeba" / "000004.jpg", encoded(pixels(4), "JPEG"))
    listing = list_published("celeba", root, classes=2)
    assert listing.names == ("4", "9")
    stems = ["000002.png", "000003.png", "000004.jpg", "000005.png", "000006.png"]
    assert listing.files == tuple(f"img_align_celeba/{stem}" for stem in stems)
    assert listing.labels.tolist() == [1, 1, 0, 0, 0]


def test_celeba_crops_must_be_square_and_the_aligned_release_is_named_a_deviation(tmp_path):
    root = celeba(tmp_path / "in", [1, 1, 2, 2, 1, 2], width=18, height=22)
    with pytest.raises(InputError, match=r"img_align_celeba/00000.* \(18 x 22 pixels where a square is expected\)"):
        write_published("celeba", root, tmp_path / "out", size=8, classes=2)
    assert list((tmp_path / "out").iterdir()) == []
    notes = write_published("celeba", root, tmp_path / "out", size=8, classes=2, pictures="aligned").notes
    assert "a deviation" in notes[0] and "6 pictures are not square and were cut to their central square" in notes


def test_celeba_in_the_wild_is_cropped_here(tmp_path):
    identities = [1, 1, 2, 2]
    root = celeba(tmp_path / "in", identities, folder="img_celeba", width=90, height=110)
    face = np.array([[30, 40], [60, 40], [45, 60], [34, 75], [57, 75]])
    landmark_list(root, np.stack([face + i for i in range(4)]))
    notes = write_published("celeba", root, tmp_path / "out", size=64, classes=2, pictures="in_the_wild").notes
    assert "made here by the 5 landmarks of list_landmarks_celeba.txt" in notes[0]
    images, labels = written(tmp_path / "out", "train")
    listing = list_published("celeba", root, classes=2, pictures="in_the_wild")
    index = int(listing.train[0])
    crop = picture(listing, index)
    assert crop.size == (224, 224)
    expected = np.asarray(crop.resize((64, 64), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
    np.testing.assert_array_equal(images[0], expected)
    assert int(labels[0]) == identities[index] - 1


def test_celeba_with_68_landmarks_needs_the_tools_own_files(tmp_path):
    root = celeba(tmp_path, [1, 1, 2, 2], folder="img_celeba", width=60, height=60)
    with pytest.raises(InputError, match=r"with a file landmark.txt, got nothing there"):
        list_published("celeba", root, classes=2, pictures="in_the_wild_68")
    standard = np.random.default_rng(0).uniform(-0.5, 0.5, (68, 2))
    put(root / "standard_landmark_68pts.txt", " ".join(map(str, standard.ravel())))
    rows = [f"{i:06d}.jpg {' '.join(map(str, (standard * 40 + 30 + i).ravel()))}\n" for i in range(1, 5)]
    put(root / "landmark.txt", "".join(rows))
    listing = list_published("celeba", root, classes=2, pictures="in_the_wild_68")
    assert picture(listing, 3).size == (224, 224)
    put(root / "landmark.txt", "".join(rows[:3]) + "000004.jpg 1 2 3\n")
    with pytest.raises(InputError, match=r"landmark.txt line 4: expected 137 columns .*, got 4$"):
        list_published("celeba", root, classes=2, pictures="in_the_wild_68")
    put(root / "standard_landmark_68pts.txt", "1 2 3")
    with pytest.raises(InputError, match=r"expected 136 numbers in standard_landmark_68pts\.txt"):
        list_published("celeba", root, classes=2, pictures="in_the_wild_68")


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("identity_CelebA.txt", None, "with a file identity_CelebA.txt, got nothing there"),
        ("list_eval_partition.txt", None, "with a file list_eval_partition.txt, got nothing there"),
        ("identity_CelebA.txt", "000001.jpg 1 7\n", "identity_CelebA.txt line 1: expected 2 columns .*, got 3"),
        ("identity_CelebA.txt", "000001.jpg one\n", "expected a whole number for 000001.jpg, got 'one'"),
        ("identity_CelebA.txt", "000001.jpg 1\n", "the identity of every picture, got none for 000002.jpg, 000003.jpg"),
        ("identity_CelebA.txt", b"\xff\xfe\x00", "expected text in identity_CelebA.txt, got an unreadable file"),
        ("list_eval_partition.txt", "000001.jpg 0\n000001.jpg 0\n", "expected every picture once, got 1 again"),
        ("list_eval_partition.txt", "../x 0\n", "got none for ../x"),
        ("list_landmarks_celeba.txt", None, "with a file list_landmarks_celeba.txt, got nothing there"),
        ("list_landmarks_celeba.txt", "0\nx\n", "landmarks of every picture, got none for 000001.jpg, 000002.jpg"),
        ("list_landmarks_celeba.txt", "1\nx\n000001.jpg" + " nan" * 10, "expected 10 numbers for 000001.jpg"),
    ],
)
def test_celeba_lists_that_are_wrong_are_named(tmp_path, file, content, message):
    root = celeba(tmp_path, [1, 1, 2, 2], folder="img_celeba")
    landmark_list(root, np.zeros((4, 5, 2)))
    if content is None:
        (root / file).unlink()
    else:
        put(root / file, content)
    with pytest.raises(InputError, match=message) as error:
        list_published("celeba", root, classes=2, pictures="in_the_wild")
    assert "\n" not in str(error.value) and str(root) in str(error.value)


def test_a_list_cannot_lead_out_of_its_folder(tmp_path):
    root = celeba(tmp_path, [1, 2])
    put(root / "identity_CelebA.txt", "../a.jpg 1\n/b.jpg 2\n")
    put(root / "list_eval_partition.txt", "../a.jpg 0\n/b.jpg 0\n")
    with pytest.raises(InputError, match=r"expected file names, got \.\./a\.jpg, /b\.jpg"):
        list_published("celeba", root, classes=2)


TARGET = crop_target(STANDARD_5)
angles = st.floats(-np.pi, np.pi)
scales = st.floats(0.3, 3.0)
shifts = st.floats(-200, 200)


def turned(points, angle, scale, shift):
    c, s = scale * np.cos(angle), scale * np.sin(angle)
    return points @ np.array([[c, s], [-s, c]]) + shift


def cubic(distance):
    """Keys' kernel with a = -0.75, as OpenCV has it."""
    a, d = -0.75, abs(distance)
    if d < 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def sampled(picture, x, y):
    """Bicubic value at one place, edge pixels repeated: sixteen terms, written out."""
    height, width = picture.shape[:2]
    left, top = int(np.floor(x)), int(np.floor(y))
    total = np.zeros(3)
    for j in range(top - 1, top + 3):
        for i in range(left - 1, left + 3):
            value = picture[min(max(j, 0), height - 1), min(max(i, 0), width - 1)]
            total += cubic(x - i) * cubic(y - j) * value
    return total


@given(angle=angles, scale=scales, x=shifts, y=shifts)
def test_a_similarity_is_recovered(angle, scale, x, y):
    matrix = similarity(TARGET, turned(TARGET, angle, scale, (x, y)))
    np.testing.assert_allclose(TARGET @ matrix[:, :2].T + matrix[:, 2], turned(TARGET, angle, scale, (x, y)), atol=1e-8)
    assert np.linalg.det(matrix[:, :2]) == pytest.approx(scale**2)


@settings(max_examples=15, deadline=None)
@given(angle=angles, scale=st.floats(0.05, 2.0), x=st.floats(-40, 60), y=st.floats(-40, 60), seed=st.integers(0, 99))
def test_pixels_are_opencvs_bicubic_with_edges_repeated(angle, scale, x, y, seed):
    """Also where the crop reaches far beyond the picture, or uses a small part of it."""
    rng = np.random.default_rng(seed)
    picture = rng.integers(0, 256, (37, 29, 3), dtype=np.uint8)
    target = crop_target(STANDARD_5, size=16)
    landmarks = turned(target, angle, scale, (x, y))
    crop = np.asarray(align_crop(Image.fromarray(picture), landmarks, target, size=16)).astype(int)
    matrix = similarity(target, landmarks)
    for u, v in rng.integers(0, 16, (12, 2)):
        place = matrix[:, :2] @ (u, v) + matrix[:, 2]
        expected = np.clip(sampled(picture.astype(float), *place), 0, 255)
        assert np.abs(crop[v, u] - expected).max() <= 0.51


def test_faces_without_a_size_or_landmarks_are_unreadable():
    image = Image.new("RGB", (50, 50))
    with pytest.raises(UnreadablePicture, match="no size of a face"):
        align_crop(image, np.full((5, 2), 7.0), TARGET)
    with pytest.raises(UnreadablePicture, match="1 x 50 pixels"):
        align_crop(Image.new("RGB", (1, 50)), TARGET, TARGET)
    with pytest.raises(UnreadablePicture, match="no landmarks"):
        aligned_cut([None], TARGET)(0, image)


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
    [(PUBLIC[::-1], "celeba_ganset.txt"), ([f"{file} 7" for file in PUBLIC[::-1]], "data_files/ganset.txt")],
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
