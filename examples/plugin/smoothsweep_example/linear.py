"""Linear classifiers in an archive of numpy's: `weight` [C, 3 * S * S] and `bias` [C], of images as memory has them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from smoothsweep.core.errors import InputError
from smoothsweep.core.external.base import ForeignModel
from smoothsweep.core.readers.files import read_whole

if TYPE_CHECKING:
    import torch

    from smoothsweep.core.external.model import OpenedModel
    from smoothsweep.core.isolation.serving import Loaded

WHAT = "a linear model in a .npz file"
MOST_BYTES = 2**30


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
        from smoothsweep.core.isolation.process import in_memory
        from smoothsweep.core.isolation.program import IsolatedProgram

        try:
            content = read_whole(path, most_bytes=MOST_BYTES)
        except OSError as error:
            raise InputError(f"{path}: expected {WHAT}, got: {error.strerror}") from None
        with in_memory() as program:
            program.write(content)
            program.seek(0)
            isolated = IsolatedProgram(
                program,
                loader=f"{__name__}:load",
                settings={},
                device=device,
                where=str(path),
                what=WHAT,
                preload=(__name__, "numpy"),
            )
        return OpenedModel(answer=isolated, side=isolated.facts["side"])


def load(program: BinaryIO, settings: dict[str, Any], device: torch.device) -> Loaded:
    """In the isolated process: the product, and the side in pixels that the weights were made for."""
    import numpy as np
    import torch

    from smoothsweep.core.isolation.serving import Loaded, whole

    arrays = np.lib.npyio.NpzFile(whole(program), allow_pickle=False)
    weight, bias = (torch.from_numpy(arrays[name]).float().to(device) for name in ("weight", "bias"))
    side = round((weight.shape[1] / 3) ** 0.5)
    if weight.shape != (len(bias), 3 * side * side):
        raise ValueError(
            f"expected weight [C, 3 * S * S] and bias [C], got {list(weight.shape)} and {list(bias.shape)}"
        )
    return Loaded(answer=lambda images: images.flatten(1) @ weight.T + bias, facts={"side": side})
