"""The network behind an HTTP endpoint, which is sent pictures of eight bits."""

from contextlib import contextmanager

import torch

from tests.made_endpoint import serving

ACCESS = "scores"


@contextmanager
def made(network, folder):
    def scores(pixels):
        images = (torch.from_numpy(pixels.copy()).float() / 127.5 - 1).permute(2, 0, 1)
        return network(images[None])[0].tolist()

    with serving(scores) as server:
        yield server.url, ["--yes", "--per-second", "10000"]
