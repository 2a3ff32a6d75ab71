"""The sweep of the toy example."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from smoothsweep.core.bounds import SINGLE
from smoothsweep.core.metrics.equivalence import ACCURACY_MARGIN
from smoothsweep.sweeps.any_sweep import AnySweep, Protocol, Tracking


class ToySweep(AnySweep):
    """The paper's two-dimensional example (Figures 1 and 8): no search, no budget, one seed, the paper's protocol."""

    experiment: Literal["toy"]  # what the file describes, instead of inversion
    alpha: Annotated[float, Field(ge=-SINGLE, le=1)] = 0.0  # label smoothing factor of the three-class network

    seeds: ClassVar[tuple[int, ...]] = (42,)  # the notebook's only seed
    every_seed: ClassVar[tuple[int, ...]] = seeds
    looks: ClassVar[None] = None
    protocol: ClassVar[Protocol] = "paper"
    tracking: ClassVar[Tracking] = Tracking(models="none")
    search: ClassVar[None] = None
    budget: ClassVar[None] = None
    reaudit: ClassVar[None] = None
    min_test_acc: ClassVar[None] = None
    accuracy_margin: ClassVar[float] = ACCURACY_MARGIN
    paper: ClassVar[None] = None
