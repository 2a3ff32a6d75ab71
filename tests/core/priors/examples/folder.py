"""What the tests expect of a prior in a folder."""

from smoothsweep.core.priors.eigenfaces import fit_eigenfaces
from smoothsweep.core.priors.registry import save_prior
from smoothsweep.core.priors.settings import StyleGAN2Config
from smoothsweep.core.priors.stylegan2 import StyleGAN2
from tests.core.priors.examples import REFUSED

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
