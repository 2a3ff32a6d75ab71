"""What feature maps add to Plug & Play at equal queries: `python -m benchmarks.if_gmi [--people 8] [--seeds 1 2 3]`.

The shipped StyleGAN2 of 64 pixels, targets of 32 as in `benchmarks.adaptive`, plain and smoothed by -0.2; a judge of
another architecture that no attack sees. Printed for every way: queries and CPU seconds of one thread per class, how
often the judge agrees, a value per seed, and the mean number of the stage that the target chose.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from benchmarks.adaptive import targets, trained
from smoothsweep.core.attacks.ppa.pool_parts import make_candidates, make_pool
from smoothsweep.core.attacks.registry import make_attack
from smoothsweep.core.attacks.shared.attack_inputs import AttackInputs
from smoothsweep.core.attacks.shared.view import GradientView
from smoothsweep.core.audit.attacking import InMemoryContext
from smoothsweep.core.data.transforms import resize
from smoothsweep.core.priors.registry import load_shipped_prior

_SIZE = 32
_COMMON = {
    "pool": {"size": 300, "truncation_psi": 1.0, "truncation_cutoff": None},
    "candidates": 8,
    "lr": 0.03,
    "batch_size": 8,
    "selected": 4,
}
_PPA = {"kind": "ppa", "steps": 40, "selection_repeats": 15, "select": {"kind": "augmented_margin"}}
_FIVE = {"kind": "if_gmi", "stage_steps": [20, 5, 5, 5, 5], "selection_repeats": 3}
WAYS: Mapping[str, Mapping[str, Any]] = {
    "ppa": _PPA,
    "three stages": {"kind": "if_gmi", "stage_steps": [24, 8, 8], "selection_repeats": 5},
    "five stages": _FIVE,
    "five stages, skip dropped": {**_FIVE, "rgb_skip": "dropped"},
    "five stages, balls of 10": {**_FIVE, "radii": [10.0] * 5},
}
"""Each of 8 x (40 steps and 15 views) queries a class."""


def measure(
    view: GradientView, inputs: AttackInputs, judge: nn.Module, way: Mapping[str, Any], seed: int
) -> tuple[float, float, float, float]:
    """(queries, CPU seconds, share of images that the judge agrees with, stage) per class of one way."""
    attack = make_attack(way["kind"], **_COMMON, **{key: value for key, value in way.items() if key != "kind"})
    start, before, hits, stages = time.process_time(), view.queries, [], []
    for label in range(view.num_classes):
        found = attack.invert(view, inputs, label, seed=seed)
        stages.append(found.facts.get("chosen_stage", 0.0))
        with torch.no_grad():
            images = inputs.prior.synthesize(found.w) if found.images is None else found.images.float()
            hits.append((judge(resize(images.clamp(-1, 1), _SIZE)).argmax(1) == label).float().mean().item())
    spent, count = time.process_time() - start, view.num_classes
    return (view.queries - before) / count, spent / count, statistics.mean(hits), statistics.mean(stages)


def main() -> None:
    """Print a line per target and way."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--people", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=24)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--ways", nargs="+", default=[*WAYS], help="which lines")
    options = parser.parse_args()
    torch.set_num_threads(1)
    prior, found = load_shipped_prior("stylegan2_synthetic64"), {}
    judge = trained("vgg_small", options.people, 0.0, options.epochs, 99)
    for alpha, seed, view in targets(options):
        inputs = _parts(AttackInputs(protocol="clean", prior=prior), view)
        for way in options.ways:
            found.setdefault((alpha, way), []).append(measure(view, inputs, judge, WAYS[way], seed))
    for (alpha, way), runs in found.items():
        queries, seconds, stage = (statistics.mean(run[place] for run in runs) for place in (0, 1, 3))
        agreed = " ".join(f"{run[2]:.2f}" for run in runs)
        words = f"{queries:.0f} queries, {seconds:.2f} CPU s a class, judge {agreed}, stage {stage:.1f}"
        print(f"alpha {alpha:g}, {way}: {words}", flush=True)


def _parts(inputs: AttackInputs, view: GradientView) -> AttackInputs:
    """With the pool and the target's confidence in it, which both attacks share."""
    parts = make_attack("if_gmi", pool=_COMMON["pool"], stage_steps=[1]).parts
    for part, make in zip(parts, (make_pool, make_candidates), strict=True):
        made = make(part.settings, inputs, view, InMemoryContext(lambda fraction, text: None))
        inputs = AttackInputs(
            protocol=inputs.protocol, prior=inputs.prior, parts={**inputs.parts, part.name: made.tensors}
        )
    return inputs


if __name__ == "__main__":
    main()
