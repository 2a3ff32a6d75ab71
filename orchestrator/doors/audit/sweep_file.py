"""The audit as a sweep file: one target, the portfolio that its attacker can use, controls, judges."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.attacks.access import ACCESS_LEVELS
from sweeps.imported import TargetCard
from sweeps.yaml_reader import as_yaml

NAME = "audit"
STORED_SIZE = 64
"""Side in pixels that pictures are kept and drawn at, unless the model sees smaller ones."""

COMPONENTS = 150
POOL = {"size": 500, "truncation_psi": 1.0, "truncation_cutoff": None}
SELECTED = 4
PLUG_AND_PLAY = {
    "kind": "ppa", "pool": POOL, "candidates": 8, "steps": 40, "lr": 0.03, "batch_size": 8, "selected": SELECTED,
    "selection_repeats": 24,
}  # fmt: skip
TRAINING = {
    "pretrained": False, "epochs": 60, "batch_size": 50,
    "augmentation": {"crop_scale": [0.85, 1.0], "brightness": 0.2, "contrast": 0.2, "saturation": 0.1, "hue": 0.0,
                     "flip": 0.5},
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Tried:
    """One attack of the portfolio. access: what it sees; quick: whether the first answer has it."""

    access: str
    quick: bool
    settings: dict[str, Any]


PORTFOLIO: tuple[Tried, ...] = (
    Tried(access="gradients", quick=True, settings=PLUG_AND_PLAY),
    Tried(access="gradients", quick=True, settings={**PLUG_AND_PLAY, "loss": "cross_entropy"}),
    Tried(access="gradients", quick=False, settings={**PLUG_AND_PLAY, "loss": "logit",
                                                     "select": {"kind": "augmented_margin"}}),
    Tried(access="scores", quick=False, settings={"kind": "rlb_mi", "selected": SELECTED, "episodes": 4000,
                                                  "at_once": 16, "lr": 0.008}),
    Tried(access="labels", quick=False, settings={"kind": "brep_mi", "selected": 2, "patience": 100, "max_passes": 300,
                                                  "starts": {"max_batches": 40}}),
)  # fmt: skip
"""What is tried, the strongest first. Settings are those of the small sweeps: minutes on two cores."""

CONTROLS: tuple[Tried, ...] = (
    Tried(access="scores", quick=True, settings={"kind": "selection_only", "selected": SELECTED, "pool": POOL}),
    Tried(access="none", quick=True, settings={"kind": "random_latents", "selected": SELECTED,
                                               "truncation_psi": 1.0, "truncation_cutoff": None}),
)  # fmt: skip


def portfolio(access: str, *, whole: bool) -> list[dict[str, Any]]:
    """The attacks and controls of an attacker with this access; those of the first answer alone, or all."""
    level = ACCESS_LEVELS.index(access)
    reachable = [tried for tried in (*PORTFOLIO, *CONTROLS) if ACCESS_LEVELS.index(tried.access) <= level]
    attacks = [tried for tried in reachable if tried not in CONTROLS]
    first = [tried for tried in attacks if tried.quick] or attacks[:1]
    chosen = [tried for tried in reachable if whole or tried in first or tried in CONTROLS]
    return [tried.settings for tried in chosen]


def audit_sweep(
    *,
    model: Path,
    card: TargetCard,
    data: Path,
    public: Path,
    embedder: dict[str, str] | None,
    access: str,
    people: int,
    seeds: list[int],
    whole: bool,
) -> dict[str, Any]:
    """The tree of the sweep file. people: how many to attack at most; seeds: of the attacks; whole: all attacks, not
    only those of the first answer."""
    size = min(STORED_SIZE, card.image_size)
    judged = min(size, 64)
    evaluator = "vgg_small" if card.architecture != "vgg_small" else "resnet_small"
    judges: dict[str, Any] = {"evaluator": {"architecture": evaluator, "image_size": judged, **TRAINING}}
    if embedder:
        judges["embedder"] = embedder
    attacks = portfolio(access, whole=whole)
    return {
        "name": NAME,
        "seeds": seeds,
        "data": {"kind": "labelled", "path": str(data), "size": size},
        "public": {"kind": "unlabelled", "path": str(public), "size": size, "limit": 8000},
        "classes": spread(card.num_classes, people),
        "recipe": {"imported": str(model)},
        "prior": {"kind": "eigenfaces", "components": COMPONENTS},
        "attack": attacks[0],
        "judges": judges,
        "grid": {"attack": attacks},
    }


def spread(classes: int, most: int) -> str | list[int]:
    """Which classes to attack: all, or `most` of them evenly from first to last."""
    if classes <= most:
        return "all"
    return sorted({round(place * (classes - 1) / (most - 1)) for place in range(most)})


def as_file(tree: dict[str, Any]) -> str:
    """The text of the file, with what a reader should know on top."""
    return (
        "# An audit of one model, as `smoothsweep audit` wrote it: the attacks of its portfolio, and controls that\n"
        "# know nothing of the model. Run it again, change it, or grow it: smoothsweep run FILE --store STORE\n"
        + as_yaml(json.loads(json.dumps(tree)))  # no anchors for what stands twice
    )
