"""What the tests expect of a StyleGAN2 that is trained on the public images."""

from smoothsweep.core.priors.stylegan2 import StyleGAN2
from smoothsweep.core.priors.stylegan2_settings import StyleGAN2Config
from tests.core.priors.examples import REFUSED

EXAMPLE = {
    "z_dim": 8,
    "w_dim": 8,
    "mapping_layers": 1,
    "channel_base": 64,
    "channel_max": 8,
    "kimg": 0.016,
    "batch_size": 8,
}

WRONG = [{"batch_size": 3}, {"kimg": 0}, {"augmentation": "heavy"}, {"r1_gamma": -1}, {"components": 5}]

SWEPT = {
    "StyleGAN2Training": (
        {"prior": {"kind": "stylegan2"}},
        "prior",
        {
            "kind": REFUSED,
            "z_dim": 64,
            "w_dim": 64,
            "mapping_layers": 2,
            "channel_base": 1024,
            "channel_max": 64,
            "kimg": 1.0,
            "batch_size": 8,
            "lr": 0.01,
            "r1_gamma": 5.0,
            "augmentation": "none",
            "workers": 2,
            "seed": 3,
        },
    )
}


def network():
    """With a clamp, as the official ones have."""
    config = StyleGAN2Config(
        resolution=8, z_dim=6, w_dim=5, mapping_layers=2, channel_base=32, channel_max=4, conv_clamp=256.0
    )
    return StyleGAN2(config, seed=3)
