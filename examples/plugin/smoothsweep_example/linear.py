"""Linear classifiers in an archive of numpy's: `weight` [C, 3 * S * S] and `bias` [C], of images as memory has them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from smoothsweep.core.external.base import ForeignModel
from smoothsweep.core.readers.files import open_regular

if TYPE_CHECKING:
    import torch

    from smoothsweep.core.external.model import OpenedModel
    from smoothsweep.core.isolation.worker import Loaded

WHAT = "a linear model in a .npz file"


class Linear(ForeignModel):
    """What `numpy.savez(file, weight=..., bias=...)` writes."""

    words = WHAT
    short = "linear .npz"
    file = "linear.npz"
    computes_alone = True

    @classmethod
    def is_named(cls, path: Path) -> bool:
        """Nothing else that a model comes in ends like this."""
        return path.suffix == ".npz"

    @staticmethod
    def open(path: Path, settings: Mapping[str, Any], device: torch.device) -> OpenedModel:
        """The weights, read in an isolated process, which multiplies."""
        from smoothsweep.core.external.model import OpenedModel
        from smoothsweep.core.isolation.process import IsolatedProgram

        with open_regular(path) as file:
            isolated = IsolatedProgram(
                file, loader=f"{__name__}:load", what=WHAT, where=str(path), device=device, preload=("numpy",)
            )
        return OpenedModel(answer=isolated, side=isolated.facts["side"])


def load(program: BinaryIO, settings: dict[str, Any], device: torch.device) -> Loaded:
    """In the isolated process: the product, and the side in pixels that the weights were made for."""
    import numpy as np
    import torch

    from smoothsweep.core.isolation.worker import Loaded

    arrays = np.lib.npyio.NpzFile(program, allow_pickle=False)
    weight, bias = (torch.from_numpy(arrays[name]).float().to(device) for name in ("weight", "bias"))
    side = round((weight.shape[1] / 3) ** 0.5)
    if weight.shape != (len(bias), 3 * side * side):
        raise ValueError(
            f"expected weight [C, 3 * S * S] and bias [C], got {list(weight.shape)} and {list(bias.shape)}"
        )
    return Loaded(answer=lambda images: images.flatten(1) @ weight.T + bias, facts={"side": side})
