"""What onnx2torch makes of a graph, and whether its network answers as the session."""

import importlib.util
import io

import pytest
import torch

from smoothsweep.core.errors import InputError
from smoothsweep.core.external import programs as onnx_file
from smoothsweep.core.external.programs import ONNX
from tests.core.external.test_programs import found_of, model_of, opened, pictures
from tests.made_onnx import as_onnx
from tests.made_programs import Shades

onnx2torch = pytest.importorskip("onnx2torch")
CPU, CLASSES = torch.device("cpu"), 4


@pytest.fixture
def without(monkeypatch):
    """Makes packages look as if they were not installed."""
    real = importlib.util.find_spec

    def hide(*packages):
        monkeypatch.setattr(onnx_file, "find_spec", lambda name: None if name in packages else real(name))

    return hide


@pytest.mark.parametrize("answers", ["logits", "probabilities", "labels"])
def test_without_onnx2torch_there_are_answers_and_no_gradients(tmp_path, without, answers):
    without("onnx2torch")
    network = Shades(torch.linspace(-1, 1, CLASSES)).eval()
    path = as_onnx(network, tmp_path / "model.onnx", answers=answers)
    found = found_of(path, answers)
    assert found.access == ("labels" if answers == "labels" else "scores")
    assert torch.equal(model_of(path, found, answers)(pictures(5)).argmax(1), network(pictures(5)).argmax(1))
    with pytest.raises(InputError, match="expected onnx2torch, by which gradients came back"):
        opened(path, "gradients")
    without("onnxruntime")
    with pytest.raises(InputError, match=r"pip install 'smoothsweep\[onnx\]'"):
        ONNX.open(path, {}, CPU)


def test_a_network_that_answers_otherwise_gives_no_gradients(tmp_path, monkeypatch):
    network, other = (Shades(torch.linspace(low, 1, CLASSES)).eval() for low in (-1, -0.5))
    content = as_onnx(network, tmp_path / "model.onnx").read_bytes()
    for made in (network, other):
        monkeypatch.setattr(onnx_file, "_network", lambda content, device, made=made: made)
        loaded = onnx_file.load_onnx(io.BytesIO(content), {"convert": True, "compare": True}, CPU)
        assert loaded.facts["differentiable"] is (made is network)
