"""What adapting Plug & Play costs and gains: `python -m benchmarks.adaptive [--people 8] [--seeds 1 2 3]`.

Two targets a seed, plain and smoothed by -0.2 (constant), on synthetic faces of 32 pixels; a judge of another
architecture that no attack sees. Printed for every way: queries and CPU seconds of one thread per class, and how often
the judge agrees, a value per seed. Losses first, then K views of averaged gradients, of the plain and the other target.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

from smoothsweep.core.attacks.ppa.pool_parts import make_candidates, make_pool
from smoothsweep.core.attacks.ppa.temperature import make_temperature
from smoothsweep.core.attacks.registry import make_attack
from smoothsweep.core.attacks.shared.attack_inputs import AttackInputs
from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.attacks.shared.view import GradientView, view_of
from smoothsweep.core.data.synthetic import synthetic_faces
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.models.recipe import TrainingRecipe
from smoothsweep.core.priors.eigenfaces import fit_eigenfaces
from smoothsweep.core.training.classifier import train_classifier

_SIZE, _ALPHAS = 32, (0.0, -0.2)
_BASE = {
    "pool": {"size": 300, "truncation_psi": 1.0, "truncation_cutoff": None},
    "candidates": 8,
    "steps": 30,
    "lr": 0.03,
    "batch_size": 8,
    "selected": 4,
    "selection_repeats": 16,
}
LOSSES: Mapping[str, Mapping[str, Any]] = {
    **{loss: {"loss": loss} for loss in ("poincare", "cross_entropy", "logit", "max_margin")},
    "cross entropy, tempered": {"loss": "cross_entropy", "temperature": {}},
    "logit, selected by margin": {"loss": "logit", "select": {"kind": "augmented_margin"}},
}
VIEWS: Mapping[str, Mapping[str, Any]] = {
    f"poincare, {views} views": {"loss": "poincare", "average": {"views": views}} for views in (8, 20, 50)
}


class _Nothing:
    """A context that keeps nothing."""

    def last_state(self) -> None:
        return None

    def keep_state(self, state: Mapping[str, Any]) -> None:
        pass

    def progress(self, fraction: float, text: str) -> None:
        pass


def trained(architecture: str, people: int, alpha: float, epochs: int, seed: int) -> nn.Module:
    """A classifier of synthetic people under constant smoothing."""
    faces = synthetic_faces(identities=people, per_identity=20, size=_SIZE, spread=0.6, seed=5, population="private")
    model = build_classifier(architecture, people, pretrained=False, protocol="clean", seed=seed)
    recipe = TrainingRecipe(architecture=architecture, image_size=_SIZE, epochs=epochs, batch_size=16)
    train_classifier(model, faces, recipe, seed=seed, device="cpu", alpha_of_epoch=lambda epoch: alpha)
    return model.eval().requires_grad_(False)


def measure(
    view: GradientView, inputs: AttackInputs, judge: nn.Module, settings: Mapping[str, Any], seed: int
) -> tuple[float, float, float]:
    """(queries, CPU seconds, share of images that the judge agrees with) per class of one way."""
    attack = make_attack("ppa", **{**_BASE, **settings})
    start, before, hits = time.process_time(), view.queries, []
    for label in range(view.num_classes):
        w = attack.invert(view, inputs, label, seed=seed).w
        with torch.no_grad():
            hits.append((judge(inputs.prior.synthesize(w).clamp(-1, 1)).argmax(1) == label).float().mean().item())
    spent = time.process_time() - start
    return (view.queries - before) / view.num_classes, spent / view.num_classes, statistics.mean(hits)


def main() -> None:
    """Print a line per target and way."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--people", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=24)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--ways", nargs="+", default=[*LOSSES, *VIEWS], help="which lines")
    options = parser.parse_args()
    torch.set_num_threads(1)
    public = synthetic_faces(identities=600, per_identity=1, size=_SIZE, spread=0.6, seed=5, population="public")
    prior = fit_eigenfaces(public.images, components=100, seed=0)
    judge = trained("vgg_small", options.people, 0.0, options.epochs, 99)
    ways, found = {**LOSSES, **VIEWS}, {}
    for alpha, seed, view in targets(options):
        inputs = _parts(AttackInputs(protocol="clean", prior=prior), view)
        for way in options.ways:
            found.setdefault((alpha, way), []).append(measure(view, inputs, judge, ways[way], seed))
    for (alpha, way), runs in found.items():
        queries, seconds = (statistics.mean(run[place] for run in runs) for place in (0, 1))
        agreed = " ".join(f"{run[2]:.2f}" for run in runs)
        print(f"alpha {alpha:g}, {way}: {queries:.0f} queries, {seconds:.2f} CPU s a class, judge {agreed}", flush=True)


def targets(options: argparse.Namespace) -> Iterator[tuple[float, int, GradientView]]:
    """(alpha, seed, view) of small networks on as many people, after as many epochs, seed by seed."""
    for seed in options.seeds:
        for alpha in _ALPHAS:
            target = trained("resnet_small", options.people, alpha, options.epochs, seed)
            run = Execution(ExecutionConfig(), "cpu")
            yield alpha, seed, view_of(target, "gradients", num_classes=options.people, image_size=_SIZE, execution=run)


def _parts(inputs: AttackInputs, view: GradientView) -> AttackInputs:
    """With the pool, the target's confidence in it, and its temperature."""
    attack = make_attack("ppa", **_BASE, loss="cross_entropy", temperature={})
    for part, make in zip(attack.parts, (make_pool, make_candidates, make_temperature), strict=True):
        made = make(part.settings, inputs, view, _Nothing())
        inputs = AttackInputs(
            protocol=inputs.protocol, prior=inputs.prior, parts={**inputs.parts, part.name: made.tensors}
        )
    return inputs


if __name__ == "__main__":
    main()
