"""What the tests expect of the package random-face."""

from smoothsweep.core.priors.settings import MobileStyleGANConfig
from tests.core.priors.examples import REFUSED
from tests.tiny_random_face import imported_folder, random_generator

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
