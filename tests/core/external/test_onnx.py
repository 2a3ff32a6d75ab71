"""ONNX models: the network's own answers, gradients where onnx2torch gives the same ones."""

import importlib.util
from types import SimpleNamespace

import onnx
import pytest
import torch

from smoothsweep.core.errors import InputError
from smoothsweep.core.external import onnx_file
from smoothsweep.core.external.kinds import kind_of_file
from smoothsweep.core.external.model import ExternalModel
from smoothsweep.core.external.opening import open_external, try_external
from smoothsweep.core.isolation import program as isolated
from smoothsweep.core.models.normalisation import USUAL
from tests.core.external.test_programs import pictures
from tests.foreign_classifier import SIDE
from tests.made_onnx import as_onnx
from tests.made_programs import Shades

CPU, OURS, CLASSES = torch.device("cpu"), USUAL["inputs in [-1, 1]"], 4


@pytest.fixture(scope="module")
def network():
    return Shades(torch.linspace(-1, 1, CLASSES)).eval()


def model_of(path, answers, access):
    opened = open_external("onnx", path, {"access": access}, CPU)
    return ExternalModel(opened, answers=answers, access=access, num_classes=CLASSES, normalisation=OURS, where="here")


def found_of(path, answers):
    return try_external(
        open_external("onnx", path, {}, CPU),
        answers=answers,
        num_classes=CLASSES,
        image_size=SIDE,
        normalisation=OURS,
        where="here",
    )


def without(monkeypatch, *packages):
    real = importlib.util.find_spec
    monkeypatch.setattr(onnx_file, "find_spec", lambda name: None if name in packages else real(name))


@pytest.mark.parametrize("answers", ["logits", "probabilities"])
def test_scores_alone_without_onnx2torch(network, tmp_path, monkeypatch, answers):
    without(monkeypatch, "onnx2torch")
    path, images = as_onnx(network, tmp_path / "model.onnx", answers=answers), pictures(5)
    assert kind_of_file(path) == "onnx"
    assert found_of(path, answers).access == "scores"
    wanted = network(images).softmax(1)
    torch.testing.assert_close(model_of(path, answers, "scores")(images).softmax(1), wanted)


def test_labels(network, tmp_path):
    path, images = as_onnx(network, tmp_path / "model.onnx", answers="labels"), pictures(5)
    assert found_of(path, "labels").access == "labels"
    assert torch.equal(model_of(path, "labels", "labels")(images).argmax(1), network(images).argmax(1))


def test_a_fixed_number_of_images(network, tmp_path):
    path, images = as_onnx(network, tmp_path / "model.onnx", rows=2), pictures(5)
    assert found_of(path, "logits").rows == 2
    torch.testing.assert_close(model_of(path, "logits", "scores")(images), network(images))


@pytest.mark.parametrize(
    ("facts", "settings", "rows"),
    [
        ({"shape": [None, 3, 32, 32]}, {"access": "scores"}, None),
        ({"shape": [2, 3, 32, 32]}, {"access": "scores"}, 2),
        ({"shape": [2, 3, 32, 32]}, {"access": "scores", "rows": 5}, 5),
        ({"shape": [7, 3, 16, None]}, {}, 7),
        ({"shape": [None, 3, 32, 32], "differentiable": False}, {"rows": 1}, 1),
    ],
)
def test_rows_and_sides_are_those_of_the_file_or_of_the_card(network, tmp_path, monkeypatch, facts, settings, rows):
    """The process stands still: what it found is given."""
    usual = {"inputs": 1, "outputs": 1, "differentiable": True, "remark": "a remark of the process"}
    asked = []

    class Isolated:
        def __init__(self, content, **given):
            asked.append((content.read(), given))
            self.facts = {**usual, **facts}

    monkeypatch.setattr(isolated, "IsolatedProgram", Isolated)
    path = as_onnx(network, tmp_path / "model.onnx")
    opened = onnx_file.open_onnx(path, settings, CPU)
    assert (opened.rows, opened.side) == (rows, facts["shape"][2])
    assert opened.differentiable is facts.get("differentiable", True)
    assert opened.remark == "a remark of the process"
    ((content, given),) = asked
    assert content == path.read_bytes() and given["settings"]["compare"] is ("access" not in settings)
    assert given["settings"]["convert"] is (settings.get("access") != "scores" and "onnx2torch" in given["preload"])


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        ({"inputs": 2}, "expected one input of images, got 2"),
        ({"outputs": 3}, r"one output, got 3"),
        ({"shape": [None, 3, 32]}, r"got 1 and an input \[None, 3, 32\]"),
        ({"inputs": 0, "shape": []}, "of images, got 0"),
        ({"differentiable": False}, "by which gradients came back when it was brought in, got none"),
    ],
)
def test_what_the_process_found_is_held_to_what_was_said(network, tmp_path, monkeypatch, facts, line):
    usual = {"inputs": 1, "outputs": 1, "shape": [None, 3, 32, 32], "differentiable": True}
    monkeypatch.setattr(isolated, "IsolatedProgram", lambda content, **given: SimpleNamespace(facts={**usual, **facts}))
    with pytest.raises(InputError, match=line):
        onnx_file.open_onnx(as_onnx(network, tmp_path / "model.onnx"), {"access": "gradients"}, CPU)


def test_gradients_by_onnx2torch_are_the_networks_own(network, tmp_path):
    pytest.importorskip("onnx2torch")
    path, images = as_onnx(network, tmp_path / "model.onnx"), pictures(5).requires_grad_(True)
    assert found_of(path, "logits").access == "gradients"
    model = model_of(path, "logits", "gradients")
    got, wanted = (torch.autograd.grad(one(images).square().sum(), images)[0] for one in (model, network))
    torch.testing.assert_close(got, wanted)


def test_a_network_that_answers_otherwise_gives_no_gradients(network, tmp_path, monkeypatch):
    other, path = Shades(torch.linspace(-0.5, 1, CLASSES)).eval(), as_onnx(network, tmp_path / "model.onnx")
    said = {"convert": True, "compare": True}
    for made, gives in ((network, True), (other, False)):
        monkeypatch.setattr(onnx_file, "_network", lambda content, device, made=made: made)
        with path.open("rb") as program:
            assert onnx_file.load(program, said, CPU).facts["differentiable"] is gives


def test_without_onnxruntime_one_line_says_what_to_install(network, tmp_path, monkeypatch):
    without(monkeypatch, "onnxruntime")
    with pytest.raises(InputError, match=r"pip install 'smoothsweep\[onnx\]'"):
        open_external("onnx", as_onnx(network, tmp_path / "model.onnx"), {}, CPU)


def test_gradients_that_were_promised_are_not_silently_gone(network, tmp_path, monkeypatch):
    without(monkeypatch, "onnx2torch")
    with pytest.raises(InputError, match="expected onnx2torch, by which gradients came back"):
        model_of(as_onnx(network, tmp_path / "model.onnx"), "logits", "gradients")


def test_weights_in_other_files_and_what_is_no_model_are_refused(network, tmp_path):
    model = onnx.load_model(str(as_onnx(network, tmp_path / "model.onnx")))
    for tensor in model.graph.initializer:
        onnx.external_data_helper.set_external_data(tensor, location="../secret")
    (tmp_path / "beside.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(InputError, match="got weights that lie in other files"):
        open_external("onnx", tmp_path / "beside.onnx", {}, CPU)
    (tmp_path / "noise.onnx").write_bytes(b"nothing")
    with pytest.raises(InputError, match="expected an ONNX model, got"):
        open_external("onnx", tmp_path / "noise.onnx", {}, CPU)
