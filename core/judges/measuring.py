"""What a judge's `measure` gets, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from smoothsweep.core.attacks.shared.view import View
    from smoothsweep.core.data.images import ImageSet
    from smoothsweep.core.priors.base import Prior


@dataclass(frozen=True, kw_only=True)
class JudgeInputs:
    """What the judge declares that it reads, each read when it is asked for.

    Attributes:
        reconstructions: (side in pixels or None for any) -> float32 [M, 3, S, S] in about [-1, 1], and the class int64
            [M] that each is of, best first within a class.
        real: ("train" or "test") -> the private images.
        target: The view of it that the judge's access gives.
        weights: What a reader of its staged file makes of it.
        progress: (share done, words).
    """

    protocol: str
    device: str
    reconstructions: Callable[[int | None], tuple[Tensor, Tensor]]
    real: Callable[[str], ImageSet]
    target: Callable[[], View]
    prior: Callable[[], Prior]
    weights: Callable[[Callable[[Path], object]], object]
    progress: Callable[[float, str], None]


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What a judge measured.

    Attributes:
        metrics: Column -> number, None where there was nothing to measure; every one of its columns.
        tables: Name of a file -> columns of equal length.
        hits: bool [M], whether each reconstruction is taken for its class, of a judge that says so: the column with a
            ceiling then has an interval over classes.
    """

    metrics: Mapping[str, float | None]
    tables: Mapping[str, Mapping[str, Tensor]] = field(default_factory=dict)
    hits: Tensor | None = None
