"""Every key of data sets and priors reaches the artifact: see tests/tasks/test_settings_travel.py."""

import numpy as np
import pytest
import torch
from PIL import Image

from smoothsweep.core.priors import eigenfaces
from smoothsweep.tasks.files import save_tensors
from tests.tasks.settings_tables import EIGENFACES, LABELLED, PRIVATE, PUBLIC, UNLABELLED


@pytest.mark.parametrize("key", PRIVATE)
def test_of_synthetic_people(key, travels):
    base = {
        "kind": "synthetic",
        "identities": 3,
        "train_per_class": 2,
        "test_per_class": 1,
        "size": 16,
        "spread": 0.4,
        "seed": 0,
    }
    travels("data", base, {**base, **PRIVATE[key]}, {})


@pytest.mark.parametrize("key", PUBLIC)
def test_of_synthetic_public_people(key, travels):
    base = {"kind": "synthetic", "identities": 3, "per_identity": 1, "size": 16, "spread": 0.6, "seed": 0}
    travels("public", base, {**base, **PUBLIC[key]}, {})


@pytest.fixture(scope="session")
def people(tmp_path_factory):
    """Three people with pictures that are not square; one picture is none, one uses 12 bits."""
    folder = tmp_path_factory.mktemp("people")
    for person, count in (("a", 6), ("b", 8), ("c", 7)):
        (folder / person).mkdir()
        for number in range(count):
            pixels = np.random.default_rng([ord(person), number]).integers(0, 256, (40, 30, 3))
            Image.fromarray(pixels.astype("uint8")).save(folder / person / f"{number}.png")
    deep = np.random.default_rng(0).integers(0, 1 << 12, (40, 30)).astype("uint16")
    Image.fromarray(deep).save(folder / "b" / "deep.png")
    (folder / "a" / "broken.png").write_bytes(b"no picture")
    return folder


@pytest.mark.parametrize("key", LABELLED)
def test_of_labelled_pictures(key, people, travels):
    base = {
        "kind": "labelled",
        "path": str(people),
        "size": 16,
        "crop": "centre",
        "test_fraction": 0.25,
        "split_seed": 1,
        "bits": 16,
        "on_corrupt": "skip",
    }
    travels("data", base, {**base, **LABELLED[key]}, {})


@pytest.mark.parametrize("key", UNLABELLED)
def test_of_unlabelled_pictures(key, people, travels):
    base = {"kind": "unlabelled", "path": str(people / "b"), "size": 16, "bits": 16, "seed": 1}
    given = {"limit": 4} if key == "seed" else {}  # which are left out
    travels("public", {**base, **given}, {**base, **given, **UNLABELLED[key]}, {})


@pytest.fixture(scope="session")
def few_faces(tmp_path_factory):
    folder = tmp_path_factory.mktemp("public")
    random = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (24, 3, 16, 16), generator=random, dtype=torch.uint8)
    save_tensors(folder / "images.safetensors", {"images": images})
    return {"public": folder}


@pytest.mark.parametrize("key", EIGENFACES)
def test_of_eigenfaces(key, few_faces, monkeypatch, travels):
    monkeypatch.setattr(eigenfaces, "EXACT_UP_TO", 8)  # above it components come from a seeded sketch
    monkeypatch.setattr(eigenfaces, "OVERSAMPLING", 0)
    base = {"kind": "eigenfaces", "components": 4, "seed": 0}
    travels("prior", base, {**base, **EIGENFACES[key]}, few_faces)
