import shutil
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
    celeba,
    celeba64_lists,
    encoded,
    facescrub,
    imagenette,
    landmark_list,
    matlab_list,
    picture,
    pixels,
    put,
    stanford_dogs,
    written,
)
from torchvision import transforms as tv

from core.data.listing import fit_square
from core.data.published import list_published, write_published
from core.data.splits import paper_split
from core.errors import InputError

GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.fixture(scope="module")
def golden():
    with np.load(GOLDEN / "published.npz", allow_pickle=False) as orders, np.load(GOLDEN / "data.npz") as images:
        return {**orders, **images}


@pytest.fixture(scope="module")
def faces(tmp_path_factory):
    return facescrub(tmp_path_factory.mktemp("facescrub"))


# FaceScrub


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


# CelebA


def test_celeba_has_the_official_choice_labels_and_split(tmp_path, golden):
    identities = golden["celeba_identity_per_file"].tolist()
    ends = {part: golden[f"celeba_{part}_seed42_fileindex_label"] for part in ("train", "test")}
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


def test_too_few_celeba_identities(tmp_path):
    with pytest.raises(InputError, match="expected 1000 identities, got 2"):
        list_published("celeba", celeba(tmp_path, [1, 2, 1]))


def test_a_list_cannot_lead_out_of_its_folder(tmp_path):
    root = celeba(tmp_path, [1, 2])
    put(root / "identity_CelebA.txt", "../a.jpg 1\n/b.jpg 2\n")
    put(root / "list_eval_partition.txt", "../a.jpg 0\n/b.jpg 0\n")
    with pytest.raises(InputError, match=r"expected file names, got \.\./a\.jpg, /b\.jpg"):
        list_published("celeba", root, classes=2)


# CelebA at 64 pixels


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


# Stanford Dogs


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


# ImageNette


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


# Pixels


def test_squares_equal_the_official_test_transform(golden):
    image = Image.fromarray(golden["tf_input_uint8_hwc"])
    for fit, name in (("stretch", "tf_test_list16_dogs"), ("shorter_side", "tf_test_int16_celeba")):
        ours = np.asarray(fit_square(image, 16, fit)).transpose(2, 0, 1).astype(np.float32) / 255 * 2 - 1
        np.testing.assert_allclose(ours, golden[name], atol=1e-5)


@settings(max_examples=60, deadline=None)
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
