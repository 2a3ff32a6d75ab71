"""Fixtures of the audit's tests."""

import pytest
import torch

from smoothsweep.orchestrator.cli import main
from tests.foreign_classifier import PEOPLE, SIDE, trained_resnet, write_people
from tests.orchestrator.commands.owned_model import IMAGENET, write_public


@pytest.fixture(scope="module")
def owned(tmp_path_factory):
    """An owner's people, other people, and a ResNet-18 with ImageNet's normalisation and alphabetical classes."""
    root = tmp_path_factory.mktemp("owned")
    people, public = write_people(root / "people"), write_public(root / "public")
    torch.save(trained_resnet(people, sorted(PEOPLE)).state_dict(), root / "own.pth")
    return root, people, public


@pytest.fixture(scope="module")
def imported(owned, tmp_path_factory):
    """The folder of the model."""
    folder = tmp_path_factory.mktemp("imported") / "model"
    reading = ["--architecture", "resnet18", "--classes", str(len(PEOPLE)), "--image-size", str(SIDE), *IMAGENET]
    assert main(["import", "target", str(owned[0] / "own.pth"), *reading, "--out", str(folder)]) == 0
    return folder
