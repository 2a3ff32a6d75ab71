import shutil

import pytest
from published_trees import (
    celeba,
    celeba64_lists,
    encoded,
    facescrub,
    imagenette,
    landmark_list,
    matlab_list,
    pixels,
    put,
    stanford_dogs,
)

from smoothsweep.core.data.published import check_published, check_text
from smoothsweep.core.errors import InputError


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
        "expected pictures in actors/faces/Empty_One, got none",
        "expected faces of Gone_Girl in actresses/faces, got none (there is actresses/images/Gone_Girl)",
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


def test_a_tree_with_the_right_number_of_classes_is_fine(tmp_path):
    check = check_published("facescrub", facescrub(tmp_path), classes=5)
    assert not check.faults and not check.oddities
    assert not check.is_complete  # readable, but not the paper's 530 identities
    assert check_text(check)[-1].startswith("  not fine") and check.counts[0].paper == 530


def test_celeba_faults_of_lists_and_pictures_are_all_found(tmp_path):
    root = celeba(tmp_path, [1, 1, 2, 2, 1], folder="img_celeba", width=60, height=60)
    landmark_list(root, pixels(0, 10, 3)[:, :, 0].reshape(3, 5, 2))
    (root / "img_celeba" / "000002.png").unlink()
    with (root / "identity_CelebA.txt").open("a") as file:
        file.write("three words here\n")
    check = check_published("celeba", root, classes=2, pictures="in_the_wild")
    assert check.faults == (
        "identity_CelebA.txt line 6: expected 2 columns (file identity), got 3",
        "list_landmarks_celeba.txt: expected landmarks of every picture, got none for 000004.jpg, 000005.jpg",
        "img_celeba/000002.jpg: no such file",
        "img_celeba/000004.png: no landmarks",
        "img_celeba/000005.png: no landmarks",
    )
    assert check.counts[1].found == 2


def test_celeba_crops_that_are_not_square_are_faults(tmp_path):
    check = check_published("celeba", celeba(tmp_path, [1, 1, 2], width=178, height=218), classes=2)
    assert check.faults[0] == "img_align_celeba/000001.png: 178 x 218 pixels where a square is expected"
    assert len(check.faults) == 3 and check.sides is None


def test_celeba64_lists_with_another_checksum_are_an_oddity(tmp_path):
    root = celeba(tmp_path, [1, 1, 2, 2], width=178, height=218)
    celeba64_lists(root, [("000001.jpg", 0), ("000003.jpg", 1)], [("000002.jpg", 0), ("000009.jpg", 1)])
    check = check_published("celeba64", root, classes=2)
    assert check.faults == ("img_align_celeba/000009.jpg: no such file",)
    assert len(check.oddities) == 2 and "not the published training list" in check.oddities[0]
    assert [(count.found, count.paper) for count in check.counts] == [(2, 1000), (3, 30_027), (2, 27_018)]


def test_dogs_missing_from_the_disk_or_without_a_box(tmp_path):
    root = stanford_dogs(tmp_path)
    (root / "Images" / "n1-Chihuahua" / "n1_2.jpg").unlink()
    (root / "Annotation" / "n2-toy-poodle" / "n2_0").unlink()
    whole = check_published("stanford_dogs", root, classes=2)
    assert whole.faults == ("Images/n1-Chihuahua/n1_2.jpg: no such file",)
    assert whole.oddities == ()  # photographs need not be square
    cropped = check_published("stanford_dogs_cropped", root, classes=2)
    assert cropped.faults[1] == (
        "Images/n2-toy-poodle/n2_0.jpg: no bounding box: Annotation/n2-toy-poodle/n2_0 is missing"
    )
    matlab_list(root / "test_list.mat", [("n1-Chihuahua/n1_4.jpg", 1), ("n2-toy-poodle/n2_4.jpg", 9)])
    assert check_published("stanford_dogs", root, classes=2).faults[0] == (
        "test_list.mat row 2: expected a label from 1 to 2, got 9"
    )


@pytest.mark.parametrize("kind", ["facescrub", "imagenette"])
def test_a_tree_without_a_single_picture_is_still_reported(kind, tmp_path):
    root = facescrub(tmp_path, people=()) if kind == "facescrub" else tmp_path
    for folder in ("actors/faces/A", "actresses/faces/B", "train/n1", "val/n2"):
        (root / folder).mkdir(parents=True)
    check = check_published(kind, root)
    assert check.counts[0].found == 0 and check.sides is None and not check.is_complete
    assert any("expected pictures in" in fault for fault in check.faults)
    assert check_text(check)[-1].startswith("  not fine")


def test_a_tree_of_another_layout_is_one_line(tmp_path):
    root = imagenette(tmp_path)
    with pytest.raises(InputError, match=r"with a folder actors/faces, got nothing there$") as error:
        check_published("facescrub", root)
    assert "\n" not in str(error.value)
    shutil.rmtree(root / "val")
    with pytest.raises(InputError, match=r"with a folder val, got nothing there$"):
        check_published("imagenette", root)
    with pytest.raises(InputError, match="pictures: expected nothing, since imagenette has no choice"):
        check_published("imagenette", root, pictures="crops")
