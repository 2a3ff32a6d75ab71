"""The tiny network of `tests.tiny_openvino`, and folders as `smoothsweep import prior random-face` writes them."""

from dataclasses import replace

import numpy as np
import torch

from smoothsweep.core.priors.mobilestylegan import MobileStyleGAN
from smoothsweep.core.priors.random_face.importing import with_mean, write_resolution
from smoothsweep.core.priors.random_face.rewriting import MAPPING_KINDS, SYNTHESIS_KINDS, rewritten
from smoothsweep.core.priors.random_face_settings import MobileStyleGANConfig
from smoothsweep.core.readers.openvino_graph import read_graph
from tests.tiny_openvino import tiny_mapping, tiny_synthesis


def tiny_generator(channels=(8, 12, 8)):
    """The network, a latent [1, 8] and the image of it that NumPy computed."""
    mapping, z, w = tiny_mapping()
    synthesis, image = tiny_synthesis(w, channels=channels)
    network = rewritten(
        read_graph(mapping.xml(), mapping.constants, MAPPING_KINDS, "mapping"),
        read_graph(synthesis.xml(), synthesis.constants, SYNTHESIS_KINDS, "synthesis"),
    )
    return with_mean(network), z, w, image


def random_generator(config, seed=0):
    """A network of that configuration with small random numbers."""
    network, draws = MobileStyleGAN(config), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for value in network.state_dict().values():
            value.copy_(torch.randn(value.shape, generator=draws) / max(1, np.prod(value.shape[1:])) ** 0.5)
    return with_mean(network)


def imported_folder(place, resolution=64):
    """One resolution of an imported prior under `place`, with few channels."""
    channels = (8, 8, 8, 8, 8, 8, 8, 8)[: {64: 4, 128: 5, 256: 6, 1024: 8}[resolution]]
    config = MobileStyleGANConfig(channels=channels, z_dim=6, w_dim=6, mapping_layers=1)
    write_resolution(random_generator(replace(config)), place / str(resolution), {"resolution": resolution})
    return place
