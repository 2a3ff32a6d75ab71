"""What the tests expect of a prior in a folder."""

from smoothsweep.core.priors.eigenfaces import fit_eigenfaces
from smoothsweep.core.priors.registry import save_prior
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
