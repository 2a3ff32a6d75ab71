import shutil
from pathlib import Path

import numpy as np
import pytest
from published_trees import (
    GOLDEN_PEOPLE,
    facescrub,
    put,
)

from smoothsweep.core.data.published import list_published
from smoothsweep.core.errors import InputError

GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.fixture(scope="module")
def golden():
    with np.load(GOLDEN / "published.npz", allow_pickle=False) as orders, np.load(GOLDEN / "data.npz") as images:
        return {**orders, **images}


@pytest.fixture(scope="module")
def faces(tmp_path_factory):
    return facescrub(tmp_path_factory.mktemp("facescrub"))


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
