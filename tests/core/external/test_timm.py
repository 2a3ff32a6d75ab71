"""A checkpoint of one of timm's networks, by its name: it becomes a program, and runs without timm from then on.

timm is an extra: in its place stands a module that lists and makes a network as it does; the real one is asked where it
is installed.
"""

import json
import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from smoothsweep.core.external.kinds import KINDS
from smoothsweep.orchestrator.cli import main
from smoothsweep.sweeps.imported import ImportedClassifier

SIDE, CLASSES = 16, 3


class Network(nn.Module):
    """Of one size, as timm's ViT are, or of any."""

    def __init__(self, num_classes, img_size=None):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, 2, 1)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4 if img_size is None else (img_size // 2) ** 2 * 4, num_classes)
        self.fixed = img_size is not None

    def forward(self, x):
        maps = self.norm(self.stem(x)).relu()
        return self.head(maps.flatten(1) if self.fixed else maps.mean((2, 3)))


@pytest.fixture
def timm(monkeypatch):
    asked = []

    def create_model(name, *, pretrained, **given):
        asked.append((name, given))
        assert pretrained is False
        if name == "stubborn":
            network = Network(given["num_classes"])
            network.forward = lambda x: network.head(x.mean((2, 3))) if x.sum() > 0 else x
            return network
        return Network(**given)

    def configuration(name, allow_unregistered):
        """As timm's: of a network that it lists and has no weights of, None or an error."""
        if name == "bare_t":
            assert allow_unregistered, "timm would raise RuntimeError"
            return None
        return SimpleNamespace(fixed_input_size=name.startswith("vit"), input_size=(3, SIDE, SIDE))

    fake = SimpleNamespace(
        __version__="1.0",
        list_models=lambda: ["resnet_t", "stubborn", "bare_t", "vit_t"],
        create_model=create_model,
        get_pretrained_cfg=configuration,
        asked=asked,
    )
    monkeypatch.setitem(sys.modules, "timm", fake)
    return fake


def arguments(tmp_path, name, *more):
    given = ["import", "target", str(tmp_path / "own.pth"), "--architecture", f"timm:{name}", "--classes", str(CLASSES)]
    return [*given, "--out", str(tmp_path / "out"), *map(str, more)]


def save(network, tmp_path, change=lambda state: state):
    torch.save(change(network.state_dict()), tmp_path / "own.pth")


@pytest.mark.parametrize(
    ("name", "more", "made", "wrapped"),
    [
        ("resnet_t", ["--image-size", SIDE], {}, ""),
        ("vit_t", [], {"img_size": SIDE}, "module.model."),
        ("vit_t", ["--image-size", 2 * SIDE], {"img_size": 2 * SIDE}, ""),
    ],
)
def test_it_becomes_a_program_that_answers_as_the_network_does(timm, tmp_path, capsys, name, more, made, wrapped):
    network = Network(CLASSES, **made).eval()
    save(network, tmp_path, lambda state: {wrapped + key: value for key, value in state.items()})
    assert main(arguments(tmp_path, name, *more)) == 0
    assert timm.asked == [(name, {"num_classes": CLASSES, **made})]
    card, side = ImportedClassifier(imported=str(tmp_path / "out")).checked, made.get("img_size", SIDE)
    assert (card.architecture, card.image_size, card.access) == ("torch_export", side, "gradients")
    assert card.source.file == "own.pth" and card.source.wrapping == f"timm:{name} of timm 1.0"
    sys.modules.pop("timm")
    opened = KINDS["torch_export"].open(tmp_path / "out" / "program.pt2", {"answers": "logits"}, torch.device("cpu"))
    for count in (1, 2, 5):
        images = torch.rand(count, 3, side, side)
        with torch.no_grad():
            assert torch.allclose(opened.answer(images), network(images), atol=1e-6)
    assert "a program of torch.export of 3 classes; gradients come back" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "more", "change", "said"),
    [
        ("resnet_x", ["--image-size", SIDE], dict, "of timm 1.0, got 'resnet_x'; did you mean 'resnet_t'?"),
        ("hf_hub:a/b", ["--image-size", SIDE], dict, "expected a network of timm 1.0"),
        ("resnet_t", [], dict, "--image-size: expected the side in pixels that this resnet_t was trained at"),
        ("bare_t", [], dict, "--image-size: expected the side in pixels that this bare_t was trained at"),
        ("resnet_t", ["--image-size", SIDE], lambda s: {"a": s["head.bias"]}, "tensors are missing, first stem.weight"),
        ("resnet_t", ["--image-size", SIDE, "--classes", 4], dict, "head.weight: expected shape (4, 4), got (3, 4)"),
        ("resnet_t", ["--image-size", SIDE, "--answers", "labels"], dict, "--answers: expected none with a checkpoint"),
        ("stubborn", ["--image-size", SIDE], dict, "expected a network that torch.export takes at 16 pixels"),
    ],
)
def test_what_cannot_be_is_one_line_and_nothing_is_written(timm, tmp_path, capsys, name, more, change, said):
    save(Network(CLASSES), tmp_path, change)
    assert main(arguments(tmp_path, name, *more)) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1 and not (tmp_path / "out").exists()


def test_without_timm_one_line_says_how_to_have_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    save(Network(CLASSES), tmp_path)
    assert main(arguments(tmp_path, "resnet_t", "--image-size", SIDE)) == 2
    assert "pip install 'smoothsweep[timm]'" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet10t", "vit_tiny_patch16_224"])
def test_the_real_one(tmp_path, name):
    timm = pytest.importorskip("timm")
    side = 32
    sized = {"img_size": side} if name.startswith("vit") else {}
    network = timm.create_model(name, pretrained=False, num_classes=CLASSES, **sized).eval()
    save(network, tmp_path)
    assert main(arguments(tmp_path, name, "--image-size", side)) == 0
    assert json.loads((tmp_path / "out" / "target.json").read_text())["outside"]["access"] == "gradients"
    opened = KINDS["torch_export"].open(tmp_path / "out" / "program.pt2", {"answers": "logits"}, torch.device("cpu"))
    images = torch.rand(3, 3, side, side)
    with torch.no_grad():
        assert torch.allclose(opened.answer(images), network(images), atol=1e-5)
