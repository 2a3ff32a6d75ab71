"""Reconstructions as PNG files, each with where it comes from: in the picture itself and in one list beside all."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from smoothsweep.core.checks import present
from smoothsweep.core.text import typable
from smoothsweep.orchestrator.commands.reporting.sharing.folder import digest
from smoothsweep.orchestrator.commands.reporting.sharing.provenance import KEY
from smoothsweep.orchestrator.page.drawing.sheets import png
from smoothsweep.orchestrator.page.pictures import is_recognised, judge_name
from smoothsweep.orchestrator.page.stored import class_names, reconstructed_labels, reconstruction
from smoothsweep.orchestrator.planning.trial import InversionStages, Trial, inversion_stages
from smoothsweep.orchestrator.reading.axes import by_attack
from smoothsweep.orchestrator.reading.numbers.format import ascii_text
from smoothsweep.orchestrator.reading.numbers.model import Axis
from smoothsweep.orchestrator.reading.numbers.summary import Summary
from smoothsweep.orchestrator.store.common.base import Store
from smoothsweep.sweeps.loaded import as_inversion

Choice = Literal["best", "all", "none"]
CHOICES: tuple[Choice, ...] = ("best", "all", "none")
PROVENANCE = "images/provenance.json"
MOST_NAME = 60


@dataclass(frozen=True, kw_only=True)
class ExportedTrial:
    """One trial whose reconstructions are exported, by the report's names; ranks: how many of each class, None: all."""

    recipe: str
    attack: str
    trial: Trial
    stages: InversionStages
    ranks: int | None


def trials_to_export(
    choice: Choice, trials: Sequence[Trial], axes: Sequence[Axis], summary: Summary, store: Store
) -> list[ExportedTrial]:
    """The trials whose reconstructions are exported, of those that the store has.

    best: of the first seed, against each recipe by the attack that works best against it (by any where no leak was
    measured), of every class the reconstruction that the attack ranks first. all: everything.
    """
    if choice == "none":
        return []
    strongest = {} if summary.primary is None else summary.rows(summary.primary)
    exported = []
    for attack, recipes in by_attack([trial for trial in trials if trial.phase == "sweep"], axes).items():
        for recipe, of_recipe in recipes.items():
            best = recipe not in strongest or summary.frame.loc[strongest[recipe], "attack"] == attack
            if choice == "best" and (not best or of_recipe[0].is_control):
                continue
            for trial in of_recipe if choice == "all" else of_recipe[:1]:
                stages = _stages(trial, store)
                if stages is not None:
                    ranks = None if choice == "all" else 1
                    exported.append(
                        ExportedTrial(recipe=recipe, attack=attack, trial=trial, stages=stages, ranks=ranks)
                    )
    return exported


def reconstruction_files(sweep: str, pictures: Sequence[ExportedTrial], store: Store) -> Iterator[tuple[str, bytes]]:
    """The pictures by their names, and last the list of where they come from."""
    entries, folders = [], _Folders()
    for exported in pictures:
        labels, names = reconstructed_labels(store, exported.stages), class_names(store, exported.stages)
        folder = folders.of(exported.attack or "attack", exported.recipe)
        for label in map(int, np.unique(labels)):
            count = int((labels == label).sum())
            for rank in range(count if exported.ranks is None else min(exported.ranks, count)):
                entry = _provenance(sweep, exported, names[label], label, rank, store)
                image = _png(reconstruction(store, exported.stages, label, rank), entry)
                name = f"{folder}/seed{exported.trial.seed}-class{label:04d}-rank{rank + 1:02d}.png"
                entries.append({"file": name, "sha256": digest(image), **entry})
                yield name, image
    yield PROVENANCE, (json.dumps(entries, indent=1, ensure_ascii=False) + "\n").encode()


def _stages(trial: Trial, store: Store) -> InversionStages | None:
    settings = as_inversion(trial.settings)
    if settings.attack is None:
        return None
    stages = inversion_stages(settings, trial.seed)
    return stages if stages.has_pictures(store) else None


def _provenance(sweep: str, exported: ExportedTrial, name: str, label: int, rank: int, store: Store) -> dict[str, Any]:
    """Where a picture comes from; rank: from 0, counted from 1 for readers."""
    reconstructions = exported.stages.inverted
    return {
        "kind": "reconstruction by an attack on a model, not a photograph",
        "sweep": sweep,
        "trial": exported.trial.id,
        "recipe": typable(exported.recipe),
        "attack": typable(exported.attack),
        "seed": exported.trial.seed,
        "class": label,
        "class_name": name,
        "rank": rank + 1,
        "judge": judge_name(exported.stages),
        "matched": is_recognised(store, exported.stages, label, rank),
        "stages": {
            "reconstructions": reconstructions.fingerprint,
            "attack": present(exported.stages.attack, "attack").fingerprint,
            "target": exported.stages.target.fingerprint,
            "data": exported.stages.data.fingerprint,
        },
    }


def _png(image: np.ndarray, entry: dict[str, Any]) -> bytes:
    text = PngInfo()
    text.add_itxt(KEY, json.dumps(entry, ensure_ascii=False))
    return png(Image.fromarray(np.ascontiguousarray(image.transpose(1, 2, 0))), text)


class _Folders:
    """Folders named after attacks and recipes, each name given once."""

    def __init__(self) -> None:
        self._given: dict[tuple[str, str], str] = {}

    def of(self, attack: str, recipe: str) -> str:
        if (attack, recipe) not in self._given:
            name = f"images/{_slug(attack)}/{_slug(recipe)}"
            taken = [folder for folder in self._given.values() if folder == name or folder.startswith(f"{name}--")]
            self._given[attack, recipe] = f"{name}--{len(taken) + 1}" if taken else name
        return self._given[attack, recipe]


def _slug(text: str) -> str:
    """A name for a folder: letters, digits, signs of numbers."""
    plain = re.sub(r"[^a-z0-9.+]+", "-", re.sub(r"(?<![\w])-(?=[\d.])", "minus", ascii_text(text).lower()))
    return plain.strip("-.")[:MOST_NAME].rstrip("-.") or "unnamed"
