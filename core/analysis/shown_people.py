"""Whom public images show in other photographs than the private ones, as a face embedder tells.

Such an image is no copy, so no comparison of pixels finds it; but an attacker whose prior has seen the person has not
drawn the face from the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from scipy.stats import binom, norm
from torch import Tensor

from smoothsweep.core.data.images import to_unit
from smoothsweep.core.data.labelled import assign_labels, read_entries
from smoothsweep.core.data.sources import list_labelled, list_unlabelled
from smoothsweep.core.metrics.metric import RATES, strangers_needed
from smoothsweep.core.metrics.recognition import accept_threshold, all_scores, unit
from smoothsweep.core.models.embedder_kinds import KINDS
from smoothsweep.core.models.embedders import load_embedder
from smoothsweep.core.text import few

FALSE_ACCEPTS = RATES["far01"]
MOST = 1000
"""Images of each set that are compared, drawn at random where there are more."""
TELLS = 0.5
"""Fraction of the private photographs that an embedder must recognise before its word on others counts."""
BATCH = 256
CHANCE = 0.01  # how seldom false accepts alone name as many images


@dataclass(frozen=True, kw_only=True)
class ShownPeople:
    """Who was recognised on public images.

    Attributes:
        images: Person -> names of the public images that are accepted as them, at 0.1 % of strangers' images.
        recognised: Fraction of the private photographs accepted as their own person, by templates of the others.
        compared, public: How many public images were looked at, and how many there are.
    """

    images: dict[str, list[str]]
    recognised: float
    compared: int
    public: int

    @property
    def is_surprising(self) -> bool:
        """Whether more images are accepted than false accepts explain."""
        accepted = sum(map(len, self.images.values()))
        return self.recognised >= TELLS and bool(binom.sf(accepted - 1, self.compared, FALSE_ACCEPTS) < CHANCE)

    def lines(self, embedder: str, *, named: bool = True) -> tuple[str, ...]:
        """Sentences for a user. named: whether people and images are."""
        of = f"{self.compared} of {self.public}" if self.compared < self.public else f"{self.public}"
        if self.recognised < TELLS:
            return (
                f"public images were compared for copies alone: {embedder} recognises {self.recognised:.0%} of the "
                "private photographs, too few to say whether public ones show the same people",
            )
        accepted = sum(map(len, self.images.values()))
        expected = f"false accepts alone: {FALSE_ACCEPTS * self.compared:.1f}"
        if not self.is_surprising:
            return (f"{embedder} recognises private people on {accepted} of {of} public images ({expected})",)
        by_count = sorted(self.images.items(), key=lambda item: -len(item[1]))
        who = f": {few([f'{name} ({few(images, 3)})' for name, images in by_count], 20)}" if named else ""
        return (
            f"{accepted} of {of} public images show private people in other photographs, says {embedder} ({expected})"
            f"{who}; an attack that draws them may have drawn what was public",
        )


def people_shown(
    private: Tensor, labels: Tensor, public: Tensor, names: Sequence[str], where: Sequence[str]
) -> ShownPeople:
    """Who is recognised on public images, by cosines with the mean of each person's features.

    Args:
        private, public: Features [n, D] and [m, D] of photographs.
        labels: int64 [n], in 0..C-1, C at least 2.
        names, where: Of the C people, of the m public images.

    The threshold is the cosine with the nearest person that 0.1 % of strangers' images exceed. Strangers are the
    private photographs themselves, each beside everybody but its own person; where they are too few for that quantile,
    a normal tail is laid through their cosines. Measured: docs/benchmarks.md.
    """
    features = unit(private)
    sums = torch.zeros(len(names), features.shape[1], dtype=torch.float64).index_add_(0, labels, features)
    scores = features @ unit(sums).T
    own = torch.nn.functional.one_hot(labels, len(names)).bool()
    threshold = accept_threshold(scores.masked_fill(own, -1.0).max(1).values, FALSE_ACCEPTS)
    if len(scores) < strangers_needed(FALSE_ACCEPTS):
        others = scores[~own]
        threshold = max(threshold, float(others.mean() + norm.isf(FALSE_ACCEPTS / len(names)) * others.std()))
    alone = unit(sums[labels] - features + 1e-12)  # the template without the photograph itself
    several = torch.bincount(labels, minlength=len(names))[labels] > 1
    mine = (features * alone).sum(1)[several]
    cosines, nearest = all_scores(public, unit(sums)).max(1)
    images: dict[str, list[str]] = {}
    for row in torch.nonzero(cosines > threshold).squeeze(1).tolist():
        images.setdefault(names[int(nearest[row])], []).append(where[row])
    recognised = (mine > threshold).double().mean().item() if len(mine) else 0.0
    return ShownPeople(images=images, recognised=recognised, compared=len(public), public=len(public))


def find_shown_people(
    private: Path,
    public: Path,
    judge: dict[str, str],
    *,
    bits: int | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> ShownPeople:
    """Whom the public images of a place show, of at most 1,000 images of either place.

    judge: name and weights of a face embedder, as a sweep file has it. Raises InputError.
    """
    kind, weights = KINDS[judge["name"]], judge.get("weights")
    network = load_embedder(judge["name"], None if weights is None else Path(weights))

    @torch.no_grad()
    def embed(images: Tensor) -> Tensor:
        return torch.cat([network(to_unit(batch)).float() for batch in images.split(BATCH)])

    listing, others = list_labelled(private), list_unlabelled(public)
    labels, names, _ = assign_labels(listing.entries, listing.folders, private)
    draw = np.random.default_rng(0)
    mine, theirs = (sorted(draw.permutation(n)[:MOST].tolist()) for n in (len(listing.entries), len(others)))
    tell(f"looking for the people of {len(mine)} private images on {len(theirs)} public ones by {judge['name']}")
    size = kind.size or 64
    images, kept = read_entries([listing.entries[i] for i in mine], private, size=size, bits=bits)
    shown, kept_shown = read_entries([others[i] for i in theirs], public, size=size, bits=bits)
    there, numbers = labels[mine][kept].unique(return_inverse=True)
    found = people_shown(
        embed(images),
        numbers,
        embed(shown),
        [names[label] for label in there.tolist()],
        [others[theirs[i]].where for i in kept_shown],
    )
    return replace(found, public=len(others))
