"""Published face embedders by the names of their tensors: IR-50 and IR-152 of face.evoLVe, and who else is known."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from smoothsweep.core.models.embedder_kinds import KINDS
from smoothsweep.core.models.embedders import face_ir50, load_embedder, to_template
from smoothsweep.core.models.official import PUBLISHED
from smoothsweep.orchestrator.cli import main

pytestmark = pytest.mark.usefixtures("quick_programs")

UNITS = {"ir50": (3, 4, 14, 3), "ir152": (3, 8, 36, 3)}
PARAMETERS = {"ir50": 43_574_976, "ir152": 70_737_600}


def published_names(units):
    """Weights by name and shape, as face.evoLVe's modules make them: stem, units of four stages, output layer."""
    found = {"input_layer.0.weight": (64, 3, 3, 3), **batch_norm("input_layer.1", 64), "input_layer.2.weight": (64,)}
    number, inputs = 0, 64
    for stage, count in enumerate(units):
        outputs = 64 * 2**stage
        for _ in range(count):
            unit = f"body.{number}"
            if inputs != outputs:
                found[f"{unit}.shortcut_layer.0.weight"] = (outputs, inputs, 1, 1)
                found |= batch_norm(f"{unit}.shortcut_layer.1", outputs)
            found |= batch_norm(f"{unit}.res_layer.0", inputs)
            found[f"{unit}.res_layer.1.weight"] = (outputs, inputs, 3, 3)
            found[f"{unit}.res_layer.2.weight"] = (outputs,)
            found[f"{unit}.res_layer.3.weight"] = (outputs, outputs, 3, 3)
            found |= batch_norm(f"{unit}.res_layer.4", outputs)
            number, inputs = number + 1, outputs
    found |= batch_norm("output_layer.0", 512)
    found |= {"output_layer.3.weight": (512, 512 * 49), "output_layer.3.bias": (512,)}
    return found | batch_norm("output_layer.4", 512)


def batch_norm(name, width):
    found = {f"{name}.{part}": (width,) for part in ("weight", "bias", "running_mean", "running_var")}
    return found | {f"{name}.num_batches_tracked": ()}


@pytest.mark.parametrize("name", UNITS)
def test_the_networks_have_the_published_names_and_sizes(name):
    with torch.device("meta"):
        network = KINDS[name].make()
    assert {key: tuple(value.shape) for key, value in network.state_dict().items()} == published_names(UNITS[name])
    assert sum(value.numel() for value in network.parameters()) == PARAMETERS[name]


@pytest.fixture
def narrow(monkeypatch):
    """The two at an eighth of their width, which is all that is other about them."""
    for name in UNITS:
        monkeypatch.setitem(KINDS, name, replace(KINDS[name], sizes={"width": 8}))


def trained(network: nn.Module) -> nn.Module:
    """Statistics of BatchNorm that are not those of a new network."""
    with torch.no_grad():
        network.train()(torch.rand(2, 3, 64, 64) * 2 - 1)
    return network.eval()


@pytest.mark.parametrize(
    ("name", "saved", "zipped"),
    [
        ("ir50", lambda state: state, True),
        ("ir50", lambda state: {f"module.{key}": value for key, value in state.items()}, False),
        ("mobilefacenet_a", lambda state: {"iter": 1, "net_state_dict": state}, True),
    ],
)
def test_a_checkpoint_becomes_a_judge_with_the_same_features(narrow, tmp_path, capsys, name, saved, zipped):
    network = trained(KINDS[name].make())
    file, out = tmp_path / "published.pth", tmp_path / "judge.safetensors"
    torch.save(saved(network.state_dict()), file, _use_new_zipfile_serialization=zipped)
    assert main(["import", "judge", str(file), "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert PUBLISHED[name] in said and f"{{name: {name}, weights: {out}}}" in said and f"--judge {name}={out}" in said
    images = torch.rand(2, 3, 64, 64) * 2 - 1
    with torch.no_grad():
        assert torch.equal(load_embedder(name, out)(images), network(images))
    assert main(["import", "judge", str(file), "--out", str(out)]) == 2
    assert "expected a new file" in capsys.readouterr().err


def test_features_are_those_of_the_published_forward_pass(narrow):
    """Stem, units, output layer, then unit length, on the face where the 112-pixel template has it."""
    network, images = trained(face_ir50(width=8)), torch.rand(2, 3, 64, 64) * 2 - 1
    with torch.no_grad():
        maps = network.body(network.input_layer(to_template(images)))
        features = network.output_layer(maps)
        found = network(images)
    assert torch.allclose(found, features / features.norm(dim=1, keepdim=True)) and found.shape == (2, 64)


def without(state, key):
    return {name: value for name, value in state.items() if name != key}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            lambda state: without(state, "body.3.res_layer.1.weight"),
            "of IR-50 (face.evoLVe) differ 1 tensors, first body.3.res_layer.1.weight",
        ),
        (lambda state: {**state, "body.3.res_layer.5.fc1.weight": torch.zeros(1)}, "first body.3.res_layer.5.fc1"),
        (lambda state: {**state, "output_layer.3.weight": torch.zeros(64, 9)}, "first output_layer.3.weight"),
        (lambda state: {**state, "output_layer.4.running_var": torch.full((64,), float("nan"))}, "NaN or infinity"),
        (lambda state: {"weights": state, "code": slice(0)}, "refused, none of its code was run"),
        (lambda state: {"fc.weight": torch.zeros(2, 2)}, "expected the weights of one of FaceNet"),
    ],
)
def test_what_fits_no_embedder_is_one_line_and_nothing_is_written(narrow, tmp_path, capsys, changed, said):
    file, out = tmp_path / "other.pth", tmp_path / "judge.safetensors"
    torch.save(changed(face_ir50(width=8).state_dict()), file)
    assert main(["import", "judge", str(file), "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1 and not out.exists()
