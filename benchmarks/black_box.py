"""The black-box attacks against the official loops: `python -m benchmarks.black_box [--classes 4] [--episodes 700]`.

A trained case (synthetic faces of 32 pixels, resnet_small, eigenfaces of 100 components, the official sizes of BREP-MI
and of RLB-MI's learner) is attacked by `benchmarks.black_box_yardstick`, which goes one class after the other as the
official loops do, and by ours, at equal numbers of queries. Printed: CPU seconds per class of one thread, their ratio,
and what both came to: the target's confidence, and how often a judge that no attack saw agrees.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.black_box_yardstick import brep_class, plain, rlb_class
from smoothsweep.core.attacks.black_box.boundary_repulsion import walk
from smoothsweep.core.attacks.black_box.brep_mi import BREPMI
from smoothsweep.core.attacks.black_box.brep_starts import first_latents
from smoothsweep.core.attacks.black_box.latent_images import LatentImages
from smoothsweep.core.attacks.black_box.rlb_mi import RLBMI
from smoothsweep.core.attacks.shared.attack_inputs import AttackInputs
from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.attacks.shared.view import LabelView, ScoreView, view_of
from smoothsweep.core.data.synthetic import synthetic_faces
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.models.recipe import TrainingRecipe
from smoothsweep.core.priors.eigenfaces import Eigenfaces, fit_eigenfaces
from smoothsweep.core.seeds import generator
from smoothsweep.core.training.classifier import train_classifier

_SIZE, _LATENT = 32, 100
_PATIENCE = 100  # a tenth of the official: the last radius is most of a walk


Ways = Mapping[str, Mapping[str, Any]]
WAYS: Ways = {
    "ours": {},
    "ours, 16 episodes at once": {"at_once": 16, "lr": 8e-3},
    "ours, textbook, 16 episodes at once": {"agent": "textbook", "at_once": 16, "lr": 4e-3},
}
"""Name -> settings that differ from the official ones."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A trained target, a judge of another architecture, and a prior of other people."""

    target: nn.Module
    judge: nn.Module
    prior: Eigenfaces
    classes: int


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What an attack found of all classes. seconds: CPU, per class; queries: per class; z: [classes, D]; confidence:
    the target's, mean; hits: the judge's."""

    seconds: float
    queries: float
    z: Tensor
    confidence: float
    hits: float


def prepare(classes: int, epochs: int = 12) -> Setting:
    """Train the target and the judge, fit the prior."""
    faces = synthetic_faces(identities=classes, per_identity=24, size=_SIZE, spread=0.6, seed=5, population="private")
    public = synthetic_faces(identities=600, per_identity=1, size=_SIZE, spread=0.6, seed=5, population="public")

    def trained(architecture: str, seed: int) -> nn.Module:
        model = build_classifier(architecture, classes, pretrained=False, protocol="clean", seed=seed)
        recipe = TrainingRecipe(architecture=architecture, image_size=_SIZE, epochs=epochs, batch_size=16)
        train_classifier(model, faces, recipe, seed=seed, device="cpu")
        return model.eval().requires_grad_(False)

    prior = fit_eigenfaces(public.images, components=_LATENT, seed=0)
    return Setting(target=trained("resnet_small", 1), judge=trained("vgg_small", 2), prior=prior, classes=classes)


def view(setting: Setting, access: str) -> LabelView | ScoreView:
    """A fresh view, its networks prepared."""
    run = Execution(ExecutionConfig(), "cpu")
    found = view_of(setting.target, access, num_classes=setting.classes, image_size=_SIZE, execution=run)
    found.labels(torch.zeros(2, 3, _SIZE, _SIZE))
    return found


def starts_of(setting: Setting) -> tuple[list[int], Tensor]:
    """The classes that the prior hits, and a latent of each."""
    logits = plain(setting.prior, setting.target)
    with torch.no_grad():
        found = first_latents(
            lambda z: logits(z).argmax(1),
            lambda batch: torch.randn(256, _LATENT, generator=generator(1, batch)),
            num_classes=setting.classes,
            per_label=1,
            size=_LATENT,
            clamp=1.5,
            max_batches=20,
        )
    hit = (found.batches[:, 0] > 0).nonzero()[:, 0].tolist()
    return hit, found.z[hit, 0]


def brep(setting: Setting, max_passes: int, seed: int) -> dict[str, Outcome]:
    """The same walks, with the same draws: official, ours class by class, ours with all classes in lock-step."""
    logits, attack = plain(setting.prior, setting.target), BREPMI(patience=_PATIENCE, max_passes=max_passes)
    hit, starts = starts_of(setting)
    labels = torch.tensor(hit)

    def sources() -> Callable[[int], Tensor]:
        made = [generator(seed, label) for label in hit]
        return lambda slot: torch.randn(32, _LATENT, generator=made[slot])

    def official() -> tuple[Tensor, int]:
        draw = sources()
        limits = {"patience": _PATIENCE, "max_passes": max_passes}
        runs = [
            brep_class(logits, start, label, lambda slot=slot: draw(slot), **limits)
            for slot, (label, start) in enumerate(zip(hit, starts, strict=True))
        ]
        return torch.stack([run.z for run in runs]), sum(run.queries for run in runs)

    def ours(together: bool) -> tuple[Tensor, int]:
        seen, draw = view(setting, "labels"), sources()
        images, before = LatentImages(setting.prior, attack, seen.execution, image_size=_SIZE), seen.queries
        groups = [torch.arange(len(hit))] if together else torch.arange(len(hit)).split(1)
        found = [
            walk(
                lambda z: seen.labels(images(z)),
                starts[rows],
                labels[rows],
                attack,
                lambda place, rows=rows: draw(int(rows[place])),
            ).z
            for rows in groups
        ]
        return torch.cat(found), seen.queries - before

    ways = {"official": official, "ours": lambda: ours(False), "ours, classes in lock-step": lambda: ours(True)}
    return {name: _outcome(setting, labels, way) for name, way in ways.items()}


def rlb(setting: Setting, episodes: int, seed: int, ways: Ways = WAYS) -> dict[str, Outcome]:
    """Every class: official, and ours in these ways."""
    logits, labels = plain(setting.prior, setting.target), torch.arange(setting.classes)

    def official() -> tuple[Tensor, int]:
        runs = [
            rlb_class(logits, _LATENT, label, episodes=episodes, hidden=256, minibatch=256, seed=seed)
            for label in labels.tolist()
        ]
        return torch.cat([run.z for run in runs]), sum(run.queries for run in runs)

    def ours(changes: Mapping[str, Any]) -> tuple[Tensor, int]:
        attack, seen = RLBMI(episodes=episodes, **changes), view(setting, "scores")
        inputs, before = AttackInputs(protocol="paper", prior=setting.prior), seen.queries
        found = [attack.invert(seen, inputs, label, seed=seed).w[:, 0] for label in labels.tolist()]
        return torch.cat(found), seen.queries - before

    made = {"official": _outcome(setting, labels, official)}
    return {**made, **{name: _outcome(setting, labels, lambda c=changes: ours(c)) for name, changes in ways.items()}}


def _outcome(setting: Setting, labels: Tensor, way: Callable[[], tuple[Tensor, int]]) -> Outcome:
    start = time.process_time()
    z, queries = way()
    seconds = time.process_time() - start
    with torch.no_grad():
        images = setting.prior.synthesize(setting.prior.map(z)).clamp(-1, 1)
        confidence = setting.target(images).softmax(1)[torch.arange(len(labels)), labels].mean().item()
        hits = (setting.judge(images).argmax(1) == labels).float().mean().item()
    return Outcome(seconds=seconds / len(labels), queries=queries / len(labels), z=z, confidence=confidence, hits=hits)


def main() -> None:
    """Print a line per attack and way: means over the seeds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--classes", type=int, default=4)
    parser.add_argument("--episodes", type=int, default=700)
    parser.add_argument("--passes", type=int, default=150)
    parser.add_argument("--seeds", type=int, nargs="+", default=[7, 8])
    options = parser.parse_args()
    torch.set_num_threads(1)
    setting = prepare(options.classes)
    attacks = {
        "BREP-MI": lambda seed: brep(setting, options.passes, seed),
        "RLB-MI": lambda seed: rlb(setting, options.episodes, seed),
    }
    for attack, run in attacks.items():
        runs = [run(seed) for seed in options.seeds]
        for name in runs[0]:
            line = _line([one["official"] for one in runs], [one[name] for one in runs])
            print(f"{attack}, {name}: {line}", flush=True)


def _line(official: Sequence[Outcome], runs: Sequence[Outcome]) -> str:
    seconds, base = (statistics.mean(one.seconds for one in ones) for ones in (runs, official))
    same = statistics.mean(
        ((one.z - other.z).abs().amax(1) < 1e-3).float().mean().item()
        for one, other in zip(runs, official, strict=True)
    )
    return (
        f"{seconds:.2f} CPU seconds a class ({base / seconds:.1f}x), "
        f"{statistics.mean(one.queries for one in runs):.0f} queries, "
        f"confidence {' '.join(f'{one.confidence:.2f}' for one in runs)}, "
        f"judge {' '.join(f'{one.hits:.2f}' for one in runs)}, the official latent in {same:.0%}"
    )


if __name__ == "__main__":
    main()
