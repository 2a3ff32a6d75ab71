"""PLG-MI's pseudo-labels: for every class the public images that the target is surest of."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from smoothsweep.core.attacks.optimisation.losses import Protocol
from smoothsweep.core.attacks.shared.base import AttackInputs, MadePart, PartContext
from smoothsweep.core.checks import present
from smoothsweep.core.data.images import resize_uint8, to_unit
from smoothsweep.core.errors import InputError

if TYPE_CHECKING:
    from smoothsweep.core.attacks.shared.view import ScoreView

_ASKED_AT_ONCE = 512  # public images turned into floats together


def make_labels(
    settings: Mapping[str, Any], inputs: AttackInputs, view: ScoreView, part_context: PartContext
) -> MadePart:
    """index int64 [C, n] of the public images labelled with each class, the least sure first, and confidence [C, n].

    An image that is among the best n of several classes is labelled with each of them. Raises InputError for fewer
    public images than n.
    """
    check_enough(settings["top_n"], len(present(inputs.public, "public")))
    scores = ask(view, present(inputs.public, "public"))
    index = top_n(scores, settings["top_n"], present(inputs.protocol, "protocol"))
    confidence = scores.T.gather(1, index)
    facts = {"images_labelled": len(index.unique()), "least_confidence": confidence.min().item()}
    return MadePart(tensors={"index": index, "confidence": confidence}, facts=facts)


def check_enough(top_n: int, count: int) -> None:
    """Raise InputError where there are fewer public images than every class asks for."""
    if count < top_n:
        raise InputError(f"attack.top_n: expected at most the {count} public images, got {top_n}")


def ask(view: ScoreView, public: Tensor) -> Tensor:
    """The target's softmax [N, C] on public images, uint8 [N, 3, S, S], reduced to the size of its input."""
    parts = [view.scores(to_unit(resize_uint8(part, view.image_size))) for part in public.split(_ASKED_AT_ONCE)]
    return torch.cat(parts)


def top_n(scores: Tensor, n: int, protocol: Protocol, *, paths: Sequence[str] | None = None) -> Tensor:
    """int64 [C, n]: for every class the n images of largest scores [N, C], in ascending order of score.

    Ties, of which a target trained under negative smoothing has many (most of its float32 softmax is exactly 0): under
    "clean" the earlier image wins. Under "paper" as in `LetheSec/PLG-MI-Attack`, top_n_selection.py, which keeps
    a heap of (score, path): a full heap loses its smallest entry to every image that is not strictly worse, so later
    images win over earlier ones and large paths over small ones. paths: one per image, None where their order is that
    of the images.
    """
    if protocol == "clean":
        return scores.sort(dim=0, descending=True, stable=True).indices[:n].flip(0).T.contiguous()
    keys = paths if paths is not None else range(len(scores))
    return torch.tensor([_heaped(column, keys, n) for column in scores.T.tolist()])


def _heaped(scores: Sequence[float], keys: Sequence[Any], n: int) -> list[int]:
    heap: list[tuple[float, Any, int]] = []
    for place, (score, key) in enumerate(zip(scores, keys, strict=True)):
        if len(heap) < n:
            heapq.heappush(heap, (score, key, place))
        elif score >= heap[0][0]:
            heapq.heapreplace(heap, (score, key, place))
    return [place for _, _, place in sorted(heap)]
