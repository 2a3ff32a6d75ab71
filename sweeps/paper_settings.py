"""Whether a sweep is set as the paper says: the axes of its recipe, and where it departs from the stated settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweeps.paper_numbers import AXES, datasets_of, paper_rows
from sweeps.settings import dotted_value

if TYPE_CHECKING:
    from sweeps.schema import InversionSweep

SETTINGS_FILE = Path(__file__).resolve().parent / "paper" / "settings.json"

PAPER_WHERE_NULL = frozenset({"recipe.betas", "recipe.lr_milestones", "recipe.lr_factor"})
"""Keys whose null stands for a default that is the paper's."""

OWN_PRIORS = ("eigenfaces", "shipped", "stylegan2")
"""Kinds of prior that cannot be the FFHQ StyleGAN2 that the paper attacked with."""

CLEAN_DIFFERS = {
    "fid": "protocol clean feeds the network images in its own range; the paper's FID fed it [-3, 1]",
    "dist_eval": "protocol clean measures clipped 8-bit images; the paper's distance is of unclipped ones",
}
"""Metric -> why its value under protocol clean is no neighbour of the paper's."""

SPREAD = "the paper does not say what its plus-minus spreads over; ours spreads over classes"


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How one cell of a sweep stands to a table of the paper.

    axes: its recipe, see `recipe_axes`. departures: see `departures`. incomparable: metric -> why our number and the
    printed one do not measure the same, whatever their values.
    """

    axes: Mapping[str, Any] | None
    departures: tuple[str, ...] = ()
    incomparable: Mapping[str, str] = field(default_factory=dict)


def standing(settings: InversionSweep, dataset: str, table: str) -> Standing:
    """Everything a report needs to set one cell beside a table. Raises InputError for a table that is not there."""
    return Standing(
        axes=recipe_axes(settings, dataset, table),
        departures=departures(settings, dataset, table),
        incomparable=incomparable(settings),
    )


def incomparable(settings: InversionSweep) -> dict[str, str]:
    """Metric -> why this cell's value and the paper's do not measure the same."""
    reasons = {"attack_acc1_std": SPREAD} | (CLEAN_DIFFERS if settings.protocol == "clean" else {})
    evaluator, embedder = settings.judges.evaluator, settings.judges.embedder
    if evaluator is not None and evaluator.architecture != "inception_v3":
        reasons["dist_eval"] = f"features of {evaluator.architecture}; the paper's are of Inception-v3"
    if embedder is not None and embedder.name != "facenet":
        reasons["dist_face"] = f"features of {embedder.name}; the paper's are of FaceNet"
    return reasons


def recipe_axes(settings: InversionSweep, dataset: str, table: str) -> dict[str, Any] | None:
    """The recipe of one cell as `paper_numbers.matching` reads it, for a table of that data set.

    None where the recipe cannot be told: an imported target whose defense nobody stated. Axes that the table leaves
    empty in all of its rows (the attack in Table 11) are left out.
    """
    recipe = settings.recipe
    card = getattr(recipe, "card", None)  # an imported target
    stated = card.get("defense") if card is not None else recipe.defense.model_dump(mode="json")
    if not isinstance(stated, Mapping) or "kind" not in stated:
        return None
    final_alpha = getattr(getattr(recipe, "defense", None), "final_alpha", stated.get("alpha"))
    axes = {
        "dataset": dataset,
        "architecture": recipe.architecture,
        "defense": stated["kind"],
        "alpha": final_alpha,
        **{name: stated.get(name) for name in ("beta", "lambda_input", "lambda_label")},
        "samples_per_class": getattr(settings.data, "samples_per_class", None),
        "attack": settings.attack.kind,
    }
    used = {name for number in paper_rows(table) for name in AXES if getattr(number, name) is not None}
    return {name: value for name, value in axes.items() if name in used or (value is not None and name != "attack")}


def departures(settings: InversionSweep, dataset: str, table: str) -> tuple[str, ...]:
    """Where a cell's settings leave those the paper states for this table, one phrase each: key, ours, the paper's.

    Only what the paper states is compared. Raises InputError for a table or data set that the paper does not have.
    """
    given = settings.model_dump(mode="json")
    found = []
    for key, paper in published_settings(dataset, table).items():
        ours, there = dotted_value(given, key)
        if not there or (ours is None and key in PAPER_WHERE_NULL) or _equal(ours, paper):
            continue
        found.append(f"{key} {_shown(ours)} (paper: {_shown(paper)})")
    if settings.prior.kind in OWN_PRIORS and any(number.prior for number in paper_rows(table)):
        found.append(f"prior {settings.prior.kind} (paper: StyleGAN2 of FFHQ, 1024 pixels)")
    return tuple(found)


def published_settings(dataset: str, table: str) -> dict[str, Any]:
    """Key of a sweep file -> the value the paper states for this table and data set."""
    known = datasets_of(table)
    groups, free = _settings()["groups"], _settings()["free"].get(table, ())
    merged: dict[str, Any] = {}
    for name in _settings()["tables"][table] if dataset in known else ():
        merged |= groups[name.replace("{dataset}", dataset)]
    return {key: value for key, value in merged.items() if key not in free}


@lru_cache(maxsize=1)
def _settings() -> dict[str, Any]:
    return json.loads(SETTINGS_FILE.read_text(encoding="utf-8"))


def _equal(ours: Any, paper: Any) -> bool:
    if isinstance(paper, list):
        return isinstance(ours, (list, tuple)) and list(ours) == paper
    return ours == paper


def _shown(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_shown, value))}]"
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
