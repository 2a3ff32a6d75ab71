"""Pictures that are in memory already, as `look_at` sees those of a folder."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from smoothsweep.core.data.own.perceptual import SIDE, hashes
from smoothsweep.core.data.own.scanning import Seen
from smoothsweep.core.data.transforms import resize, to_uint8, to_unit

_AT_ONCE = 512


def look_at_tensors(images: Tensor, name: str = "row") -> Seen:
    """images: uint8 [N, 3, S, S]; name: what a picture is called before its number."""
    parts = [to_uint8(resize(to_unit(part), SIDE)) for part in images.split(_AT_ONCE)]
    small = np.concatenate([part.permute(0, 2, 3, 1).numpy() for part in parts])
    side = images.shape[-1]
    return Seen(
        index=np.arange(len(images)),
        where=tuple(f"{name} {row}" for row in range(len(images))),
        digests=tuple(b"%d " % side + image.contiguous().numpy().tobytes() for image in images),
        small=np.ascontiguousarray(small),
        hashes=hashes(small),
        shapes=np.full((len(images), 2), side),
        frames=np.ones(len(images), dtype=np.int64),
    )
