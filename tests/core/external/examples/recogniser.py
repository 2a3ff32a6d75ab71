"""The network as an embedder with a gallery: its logits are the cosines to templates that stand at right angles."""

import warnings
from contextlib import contextmanager

import torch
from torch import nn

from smoothsweep.core.external.recogniser import SCALE, Recogniser, write_recogniser
from tests.foreign_classifier import SIDE

ACCESS = "gradients"


class Embedder(nn.Module):
    """The logits as the first coordinates of a direction; one more makes its length one."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        cosines = self.network(images) / 16.0
        rest = (1.0 - (cosines * cosines).sum(1, keepdim=True)).clamp_min(0.0).sqrt()
        return torch.cat([cosines, rest], 1)


@contextmanager
def made(network, folder):
    assert SCALE == 16.0
    program = folder / "embedder.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch's own, of a format that is in use
        script = torch.jit.trace(Embedder(network).eval(), torch.zeros(2, 3, SIDE, SIDE))
        torch.jit.save(script, str(program))
    classes = len(network.bias)
    templates = torch.eye(classes, classes + 1)
    held = Recogniser(
        embedder=program.read_bytes(),
        kind="torchscript",
        name="",
        templates=templates,
        owners=torch.arange(classes),
        threshold=0.3,
    )
    (folder / "network.recogniser").write_bytes(write_recogniser(held))
    yield folder / "network.recogniser", []
