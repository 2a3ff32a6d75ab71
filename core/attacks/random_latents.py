"""Attacks that move no latent: a control, drawn without a look at the target, and the best of a pool as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from smoothsweep.core.attacks.latent_images import LatentSettings
from smoothsweep.core.attacks.ppa.config import FromPool
from smoothsweep.core.attacks.shared.base import Attack, AttackInputs, Reconstructions
from smoothsweep.core.bounds import Layers, Positive
from smoothsweep.core.checks import present

if TYPE_CHECKING:
    from smoothsweep.core.attacks.shared.view import ScoreView, View


@dataclass(frozen=True, kw_only=True)
class RandomLatents(LatentSettings, Attack):
    """As many images per class as an attack keeps, drawn without asking the target."""

    title = "random latents"
    cites = ()  # nobody published it
    access = "none"
    control = True

    truncation_psi: Positive = 0.5
    truncation_cutoff: Layers | None = 8

    def invert(self, view: View, inputs: AttackInputs, target_class: int, *, seed: int) -> Reconstructions:
        """Latents that follow from the seed and the class alone; nothing has scored them."""
        import torch

        from smoothsweep.core.seeds import derive_seed

        numpy_seed = derive_seed(seed, target_class, "random latents") % 2**32  # what its legacy stream takes
        z = (
            torch.from_numpy(present(inputs.prior, "prior").sample_z(self.selected, numpy_seed))
            .float()
            .to(view.execution.device)
        )
        with torch.no_grad():
            w = present(inputs.prior, "prior").map(z, psi=self.truncation_psi, cutoff=self.truncation_cutoff)
        return Reconstructions(w=w.cpu())


@dataclass(frozen=True, kw_only=True)
class SelectionOnly(FromPool):
    """The best `selected` of a pool, as they are."""

    title = "selection alone"
    cites = ("struppek2022plug",)
    access = "scores"

    def most_queries(self, protocol: str) -> int:
        return 0

    def invert(self, view: ScoreView, inputs: AttackInputs, target_class: int, *, seed: int) -> Reconstructions:
        """The target is not asked anything beside the scores of the pool; nothing is drawn."""
        from smoothsweep.core.attacks.ppa.config import CandidateConfig
        from smoothsweep.core.attacks.ppa.pool import sample_candidates

        w, index, confidence = sample_candidates(
            inputs.parts["candidates"]["confidences"],
            inputs.parts["pool"]["w"],
            target_class,
            CandidateConfig(candidates=self.selected, single_w=False),
        )
        return Reconstructions(w=w, scores=confidence, rows={"pool_index": index})
