"""What the tests expect of eigenfaces."""

import torch

from smoothsweep.core.priors.eigenfaces import fit_eigenfaces
from tests.core.priors.examples import REFUSED

EXAMPLE = {"components": 5}

WRONG = [{"components": 0}, {"components": 2.5}, {"seed": -1}, {"path": "mine"}]

SWEPT = {"EigenfacesFit": ({}, "prior", {"kind": REFUSED, "components": 5, "seed": 3})}


def network():
    """Of images of noise."""
    images = torch.randint(0, 256, (9, 3, 8, 8), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    return fit_eigenfaces(images, components=4, seed=0)
