"""`smoothsweep audit`: refusals before anything runs, the portfolio by access, and one audit from model to pages."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from core.attacks.access import ACCESS_LEVELS
from core.attacks.registry import ATTACKS
from core.audit.portfolio import portfolio, spread
from orchestrator.cli import main
from orchestrator.doors.audit.rounds import rounds
from orchestrator.doors.audit.sweep_file import as_file, audit_sweep
from sweeps.imported import ImportedClassifier
from sweeps.load import load_sweep
from tests.foreign_classifier import IMAGENET_MEAN, IMAGENET_STD, PEOPLE, SIDE, trained_resnet, write_people

IMAGENET = ["--mean", *map(str, IMAGENET_MEAN), "--std", *map(str, IMAGENET_STD)]


def write_public(folder: Path, count: int = 300) -> Path:
    """Noisy squares of any shade."""
    generator = np.random.default_rng(5)
    folder.mkdir()
    for at in range(count):
        pixels = generator.normal(generator.uniform(0, 255), 12, (SIDE, SIDE, 3)).clip(0, 255).astype("uint8")
        Image.fromarray(pixels).save(folder / f"{at:04}.png")
    return folder


@pytest.fixture(scope="module")
def owned(tmp_path_factory):
    """Somebody's people, other people, and a ResNet-18 with ImageNet's normalisation and alphabetical classes."""
    root = tmp_path_factory.mktemp("owned")
    people, public = write_people(root / "people"), write_public(root / "public")
    torch.save(trained_resnet(people, sorted(PEOPLE)).state_dict(), root / "own.pth")
    return root, people, public


def audit(owned, *more, out: Path, public: bool = True) -> int:
    root, people, others = owned
    given = ["audit", str(root / "own.pth"), "--data", str(people), "--out", str(out)]
    return main([*given, *(["--public", str(others)] if public else []), *map(str, more)])


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (["--image-size", SIDE], "--architecture: expected the network that own.pth holds, e.g. resnet18, got none"),
        (["--architecture", "resnet18"], "--image-size: expected the side in pixels"),
        (["--minutes", "0"], "--minutes: expected more than 0, got 0"),
        (["--minutes", "nan"], "--minutes: expected more than 0, got nan"),
        (["--people", "1"], "--people: expected at least 2, got 1"),
        (["--judge", "eve"], "--judge: expected one of synthetic, facenet"),
        (["--judge", "facenet"], "--judge: expected facenet=FILE"),
        (["--architecture", "resnet18", "--image-size", SIDE], "as stated: import it again"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line_and_nothing_is_written(owned, tmp_path, capsys, more, line):
    assert audit(owned, *more, out=tmp_path / "out") == 2
    said = capsys.readouterr().err
    assert said.startswith("smoothsweep: ") and said.count("\n") == 1
    assert line in said
    assert not (tmp_path / "out").exists()


def test_without_public_images_one_line_says_what_to_bring(owned, tmp_path, capsys):
    assert audit(owned, out=tmp_path / "out", public=False) == 2
    assert "--public: expected images of the same kind that show none of these people" in capsys.readouterr().err


def test_a_person_s_picture_among_the_public_ones_is_refused_by_name_and_nothing_is_written(owned, tmp_path, capsys):
    root, people, public = owned
    picture, others = next(people.rglob("*.png")), shutil.copytree(public, tmp_path / "public")
    Image.open(picture).save(others / "copy.bmp")
    given = ["--data", str(people), "--public", str(others), "--out", str(tmp_path / "out")]
    assert main(["audit", str(root / "own.pth"), *given, "--architecture", "resnet18", "--image-size", str(SIDE)]) == 2
    said = capsys.readouterr().err
    assert said.endswith(f"{picture.relative_to(people)} = copy.bmp\n") and said.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("access", ["labels", "scores", "gradients"])
def test_an_attacker_has_the_attacks_of_their_level_and_below_and_always_a_control(access):
    first, every = portfolio(access, whole=False), portfolio(access, whole=True)
    level = ACCESS_LEVELS.index(access)
    for tree in (first, every):
        kinds = [ATTACKS[settings["kind"]] for settings in tree]
        assert any(kind.control for kind in kinds) and not all(kind.control for kind in kinds)
        assert max(ACCESS_LEVELS.index(kind.access) for kind in kinds) == level
    assert all(settings in every for settings in first)


def test_the_written_sweep_file_is_one_that_run_takes(owned, tmp_path):
    root, people, public = owned
    reading = ["--architecture", "resnet18", "--classes", str(len(PEOPLE)), "--image-size", str(SIDE), *IMAGENET]
    assert main(["import", "target", str(root / "own.pth"), *reading, "--out", str(tmp_path / "model")]) == 0
    card = ImportedClassifier(imported=str(tmp_path / "model")).checked
    tree = audit_sweep(model=tmp_path / "model", card=card, data=people, public=public, embedder=None,
                       access="gradients", people=3, seeds=[1], whole=True)  # fmt: skip
    file = tmp_path / "audit.yaml"
    file.write_text(as_file(tree))
    loaded = load_sweep(file)
    assert loaded.sweep.classes == (0, 2, 5) and "&id" not in file.read_text()


def test_people_are_taken_evenly():
    assert spread(3, 20) == [0, 1, 2] and spread(100, 5) == [0, 25, 50, 74, 99]


def test_rounds_begin_small_and_only_grow():
    found = list(rounds("gradients"))
    assert found[0].share == 0 and not found[0].whole and found[1].whole
    assert [len(one.seeds) for one in found] == sorted(len(one.seeds) for one in found)
    assert next(iter(rounds("labels"))).whole is False


@pytest.mark.slow
def test_from_a_checkpoint_to_the_pages(owned, tmp_path, capsys):
    out = tmp_path / "out"
    options = ["--architecture", "resnet18", "--image-size", SIDE, *IMAGENET, "--minutes", "0.1"]
    assert audit(owned, *options, out=out) == 0
    found = json.loads((out / "audit.json").read_text())
    assert found["test_acc"] > 0.8 and {one["person"] for one in found["people"]} == set(PEOPLE)
    by_name = {one["attack"]: one["leak"] for one in found["attacks"]}
    assert max(by_name.values()) > by_name["random_latents"]
    for name in ("audit.html", "audit.pdf", "audit.yaml"):
        assert (out / name).is_file()
    before = capsys.readouterr().out
    assert found["said"]["answer"][0][:40] in before
    assert audit(owned, *options, out=out) == 0  # again: nothing is done twice
    assert "converted before" in capsys.readouterr().out
