"""The network as a program of torch.export."""

from contextlib import contextmanager

from tests.made_programs import exported

ACCESS = "gradients"


@contextmanager
def made(network, folder):
    yield exported(network, folder / "network.pt2"), []
