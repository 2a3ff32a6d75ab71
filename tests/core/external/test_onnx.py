"""What onnx2torch makes of a graph, what it lacks by its own table, and whether its network answers as the session."""

import importlib.util
import io

import pytest
import torch
from onnx import helper

from smoothsweep.core.errors import InputError
from smoothsweep.core.external import programs as onnx_file
from smoothsweep.core.external.programs import ONNX
from tests.core.external.test_programs import found_of, model_of, opened, pictures
from tests.made_onnx import as_onnx
from tests.made_programs import Shades

onnx2torch = pytest.importorskip("onnx2torch")
CPU, CLASSES = torch.device("cpu"), 4


def graph_of(operators, opset, *, domain="", others=()):
    """The bytes of a graph of nothing but these operators; others: (operator, domain) of other domains."""
    nodes = [helper.make_node(name, ["x"], ["x"], domain=domain) for name in operators]
    nodes += [helper.make_node(name, ["x"], ["x"], domain=elsewhere) for name, elsewhere in others]
    sets = [helper.make_opsetid(elsewhere, 1) for _, elsewhere in others] + [helper.make_opsetid(domain, opset)]
    return helper.make_model(helper.make_graph(nodes, "g", [], []), opset_imports=sets).SerializeToString()


def known(operator, opset):
    """By onnx's list of versions and the table that onnx2torch keeps of its converters."""
    import onnx
    from onnx2torch.node_converters.registry import _CONVERTER_REGISTRY

    versions = [one.since_version for one in onnx.defs.get_all_schemas_with_history() if one.name == operator]
    current = max((version for version in versions if version <= opset), default=None)
    mine = [(one.operation_type, one.version) for one in _CONVERTER_REGISTRY if one.domain == ""]
    return (operator, current) in mine


@pytest.mark.parametrize("domain", ["", "ai.onnx"])
@pytest.mark.parametrize(
    ("operators", "opset", "others", "said"),
    [
        (("Relu",), 18, (), ""),
        (("Relu", "ReduceMean"), 18, (), " has no ReduceMean of opset 18: export the model with opset 17"),
        (("ReduceMean", "Resize"), 20, (), " has no ReduceMean, Resize of opset 20: export the model with opset 17"),
        (("Unsqueeze", "Mish"), 18, (), " has no Mish of opset 18"),
        (("Einsum",), 10, (), " has no Einsum of opset 10"),
        (("Relu",), 18, (("ReduceMean", "com.microsoft"),), ""),
        (
            ("ReduceMean",),
            18,
            (("Mish", "com.microsoft"),),
            " has no ReduceMean of opset 18: export the model with opset 17",
        ),
    ],
)
def test_what_is_lacking_is_said_with_an_opset_by_which_nothing_is(operators, opset, others, said, domain):
    found = onnx_file._why_not(graph_of(operators, opset, domain=domain, others=others))
    assert found == (f"onnx2torch, by which gradients come back,{said}" if said else "")
    if "export" in said:
        best = int(said.split()[-1])
        assert all(known(name, best) for name in operators)
        assert not any(all(known(name, later) for name in operators) for later in range(best + 1, opset))


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
