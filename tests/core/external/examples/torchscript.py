"""The network as a TorchScript program."""

from contextlib import contextmanager

from tests.made_programs import torchscript

ACCESS = "gradients"


@contextmanager
def made(network, folder):
    yield torchscript(network, folder / "network.pt"), []
