"""Models from outside as artifacts: kept with the order of their outputs, opened as their card says, and attacked."""

import json

import pytest
import torch

from smoothsweep.core.errors import InputError
from smoothsweep.core.external import kinds as consent
from smoothsweep.core.external.model import ExternalModel
from smoothsweep.tasks.attack import OpenTarget
from smoothsweep.tasks.external import keep_external, load_external, load_target
from smoothsweep.tasks.files import load_tensors
from tests.foreign_classifier import SIDE
from tests.made_programs import Shades, torchscript

ORDER = torch.tensor([2, 0, 1])
NETWORK = Shades(torch.tensor([-0.5, 0.0, 0.5])).eval()

pytestmark = pytest.mark.usefixtures("quick_programs")


def artifact(folder, *, answers="logits", access="gradients"):
    """The folder of a TorchScript program of three people, kept as `imported` artifacts are; and its configuration."""
    config = {
        "architecture": "torchscript",
        "num_classes": 3,
        "image_size": SIDE,
        "normalisation": {"mean": [0.5] * 3, "std": [0.25] * 3},
        "outside": {"answers": answers, "access": access},
    }
    (folder / "artifact").mkdir()
    keep_external(torchscript(NETWORK, folder / "own.pt"), config, ORDER, folder / "artifact")
    (folder / "artifact" / "manifest.json").write_text(json.dumps({"config": config}))
    return folder / "artifact", config


@pytest.fixture
def images():
    return torch.rand(4, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(1)) * 2 - 1


def by_hand(images):
    """The program's answers to images [-1, 1] -> [0, 1] -> its normalisation, in the data's order."""
    return NETWORK(((images + 1) / 2 - 0.5) / 0.25)[:, ORDER]


def test_what_is_kept_is_the_file_and_the_order(tmp_path):
    folder, _ = artifact(tmp_path)
    assert (folder / "program.torchscript").read_bytes() == (tmp_path / "own.pt").read_bytes()
    assert torch.equal(load_tensors(folder / "order.safetensors")["order"], ORDER)


def test_opened_it_answers_in_the_order_of_the_data(tmp_path, images):
    folder, config = artifact(tmp_path)
    model = load_external(folder, config, "cpu")
    torch.testing.assert_close(model(images), by_hand(images))
    assert isinstance(load_target(folder, config, "cpu"), ExternalModel)


@pytest.mark.parametrize(("answers", "access"), [("logits", "gradients"), ("logits", "scores"), ("logits", "labels")])
def test_an_attack_sees_no_more_of_it_than_it_gives(tmp_path, images, answers, access):
    folder, _ = artifact(tmp_path, answers=answers, access=access)
    target, levels = OpenTarget(folder, {"image_size": SIDE}, "cpu"), ["labels", "scores", "gradients"]
    assert target.view(access).access == access
    for above in levels[levels.index(access) + 1 :]:
        with pytest.raises(InputError):
            target.view(above)
    assert torch.equal(target.view("labels").labels(images), by_hand(images).argmax(1))


def test_a_program_from_elsewhere_is_refused_where_it_cannot_be_isolated(tmp_path, monkeypatch):
    """By the store that names it; importing it is the consent."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(consent, "can_isolate", lambda: False)
    folder, config = artifact(tmp_path)
    with pytest.raises(InputError, match="expected a TorchScript program that you have brought in on this machine"):
        load_external(folder, config, "cpu")
    consent.agree_to(folder / "program.torchscript")
    assert isinstance(load_external(folder, config, "cpu"), ExternalModel)
