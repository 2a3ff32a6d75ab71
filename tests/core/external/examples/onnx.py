"""The network as an ONNX model: its gradients come back where onnx2torch is installed."""

from contextlib import contextmanager
from importlib.util import find_spec

from tests.made_onnx import as_onnx

ACCESS = "gradients" if find_spec("onnx2torch") else "scores"


@contextmanager
def made(network, folder):
    yield as_onnx(network, folder / "network.onnx"), []
