"""What the tests expect of each kind of prior of the table: a class for each, found by its name.

EXAMPLE: settings with which it is made in a second. WRONG: settings that are refused, each a change to the example; {}
where the kind has nothing that must be given. SWEPT: class of settings in a sweep file -> what the tiny sweep
(`tests/tiny.py`) is changed by to have them, where they stand, another value for each field. files(folder, faces), of a
kind with a `path`: writes what it reads, and gives the path; faces: public images uint8 [24, 3, 16, 16].
network(): a small prior of the network that the kind brings, where it brings one.
"""

import torch

from smoothsweep.core.priors.eigenfaces import fit_eigenfaces
from smoothsweep.core.priors.kinds import PRIORS
from smoothsweep.core.priors.registry import save_prior
from smoothsweep.core.priors.settings import MobileStyleGANConfig, StyleGAN2Config
from smoothsweep.core.priors.stylegan2 import StyleGAN2
from tests.core.attacks.examples import REFUSED
from tests.tiny_random_face import imported_folder, random_generator

__all__ = ["REFUSED", "example", "network_of"]


def example(name):
    """The class of a kind's expectations. Fails with what to write where there is none."""
    found = globals().get(name)
    assert isinstance(found, type), f"write class {name} in tests/core/priors/examples.py (see its head)"
    return found


def network_of(name):
    """A small prior of the network that prior.json calls so."""
    kind = next(kind for kind, row in PRIORS.items() if name in row.networks)
    return example(kind).network()


class eigenfaces:
    EXAMPLE = {"components": 5}
    WRONG = [{"components": 0}, {"components": 2.5}, {"seed": -1}, {"path": "mine"}]
    SWEPT = {"EigenfacesFit": ({}, "prior", {"kind": REFUSED, "components": 5, "seed": 3})}

    def network():
        """Of images of noise."""
        images = torch.randint(0, 256, (9, 3, 8, 8), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
        return fit_eigenfaces(images, components=4, seed=0)


class folder:
    EXAMPLE = {"path": "mine"}
    WRONG = [{"path": ""}, {"path": "a\0b"}, {"path": 3}, {}]
    SWEPT = {
        "PriorFolder": (
            {"prior": {"kind": "folder", "path": "$a"}, "public": None},
            "prior",
            {"kind": REFUSED, "path": "$b"},
        )
    }

    def files(folder, faces):
        """Eigenfaces, as a folder holds them."""
        save_prior(fit_eigenfaces(faces, components=4, seed=0), folder / "mine")
        return folder / "mine"

    def network():
        """With a clamp, as the official ones have."""
        config = StyleGAN2Config(
            resolution=8, z_dim=6, w_dim=5, mapping_layers=2, channel_base=32, channel_max=4, conv_clamp=256.0
        )
        return StyleGAN2(config, seed=3)


class random_face:
    EXAMPLE = {"path": "faces", "resolution": 64}
    WRONG = [{"path": ""}, {"resolution": 512}, {"resolution": "128"}, {"crop": 3}]
    EYES = {"left_eye": [19, 20], "right_eye": [45, 20], "side": 64}
    IMPORTED = {"kind": "random_face", "path": "$a", "resolution": 64}
    SWEPT = {
        "RandomFace": (
            {"prior": IMPORTED, "public": None},
            "prior",
            {"kind": REFUSED, "path": "$b", "resolution": 128, "crop": EYES},
        ),
        "Crop": (
            {"prior": {**IMPORTED, "crop": EYES}, "public": None},
            "prior.crop",
            {"left_eye": [20, 20], "right_eye": [46, 20], "side": 66},
        ),
    }

    def files(folder, faces):
        """One resolution, as the import writes it."""
        return imported_folder(folder / "faces")

    def network():
        """Two stages, and a frame."""
        return random_generator(MobileStyleGANConfig(channels=(8, 8), z_dim=6, w_dim=5, frame=(0.1, 0.2, 0.7)))


class shipped:
    EXAMPLE = {}
    WRONG = [{"name": "another"}, {"seed": 1}]
    SWEPT = {
        "ShippedPrior": ({"prior": {"kind": "shipped"}, "public": None}, "prior", {"kind": REFUSED, "name": REFUSED})
    }
