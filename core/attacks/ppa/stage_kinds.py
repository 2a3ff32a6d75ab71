"""The ways of each stage of Plug & Play that an attack can choose from. They load no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from smoothsweep.core.named_code import load_named

ROWS = 32
"""Candidates that fill a pass through small networks on a CPU: with more, one costs no less (docs/benchmarks.md)."""


@dataclass(frozen=True, kw_only=True)
class StageKind:
    """One way to do a stage.

    Attributes:
        run: 'module:function', of one class.
        reads: The attack's parameters that it looks at.
        together: 'module:function' of several classes side by side, which leaves each what `run` leaves it, None where
            there is none.
    """

    run: str
    reads: frozenset[str] = frozenset()
    together: str | None = None

    def function(self) -> Callable[..., Any]:
        """The function that does the stage."""
        return load_named(self.run)

    def function_together(self) -> Callable[..., Any]:
        """The function that does the stage for several classes. Raises ValueError where there is none."""
        if self.together is None:
            raise ValueError(f"{self.run}: expected a way to do several classes side by side, got none")
        return load_named(self.together)


SAMPLERS: dict[str, StageKind] = {
    "top_confidence": StageKind(run="smoothsweep.core.attacks.ppa.pool:sample_candidates"),
    "random": StageKind(run="smoothsweep.core.attacks.ppa.pool:sample_at_random"),
}
"""(confidences, w_pool, class, CandidateConfig, seed) -> starting latents, where in the pool, with which confidence."""

OPTIMISERS: dict[str, StageKind] = {
    "adam": StageKind(
        run="smoothsweep.core.attacks.ppa.inversion:optimise",
        reads=frozenset(
            {
                "loss",
                "steps",
                "lr",
                "betas",
                "crop_scale",
                "batch_size",
                "clip",
                "discriminator_weight",
                "temperature",
                "average",
                "restarts",
                "feature_weight",
            }
        ),
        together="smoothsweep.core.attacks.ppa.descents_together:optimise_together",
    ),
    "none": StageKind(run="smoothsweep.core.attacks.ppa.variants:leave_as_sampled"),
}

VIEWED = frozenset({"selection_repeats", "selection_crop_scale", "selection_crop_ratio"})

SELECTORS: dict[str, StageKind] = {
    "augmented_confidence": StageKind(
        run="smoothsweep.core.attacks.ppa.selection:select",
        reads=VIEWED,
        together="smoothsweep.core.attacks.ppa.selection_together:select_together",
    ),
    "augmented_margin": StageKind(
        run="smoothsweep.core.attacks.ppa.selection:select_by_margin",
        reads=VIEWED,
        together="smoothsweep.core.attacks.ppa.selection_together:select_by_margin_together",
    ),
    "top_confidence": StageKind(run="smoothsweep.core.attacks.ppa.variants:select_by_confidence"),
}

STAGES: Mapping[str, Mapping[str, StageKind]] = {"sample": SAMPLERS, "optimise": OPTIMISERS, "select": SELECTORS}
