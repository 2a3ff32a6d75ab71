"""The two leaks of every recipe, as a small file that a table of docs/results is written from.

    python -m tools.result_membership OUT/two_leaks.parquet NAME

OUT is where `smoothsweep report` wrote. docs/results/numbers/NAME.csv gets a row for each membership attack and for the
inversion of each recipe. The reductions against the baseline are those of the report: of the stronger attack that sees
scores, and of the attack that sees labels alone; the verdict is the one by scores.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from smoothsweep.core.files import write_file
from tools.result_numbers import FOLDER, VERDICT, Shown, plain, written

MEASURES = {
    "rmia": "Membership by shadow models",
    "margin": "Membership by scores",
    "label_views": "Membership by labels",
    "inversion": "Inversion",
}
"""Column of the report's file -> measure of the table."""
COMPARED = {"rmia": "less_by_scores", "label_views": "less_by_labels"}
"""Column -> the reduction that stands beside it."""


def rows_of(table: pd.DataFrame) -> Iterator[Shown]:
    """The numbers of each recipe in the order of the report, in percent and points of percent."""
    for recipe in table.to_dict("records"):
        told = recipe["word"] != "baseline"
        for column, measure in MEASURES.items():
            if column not in recipe or pd.isna(recipe[column]):
                continue
            ends = {end: _percent(recipe[f"{column}_{end}"]) for end in ("low", "high")}
            beside = _reduced(recipe, COMPARED[column]) if told and column in COMPARED else ("", "", "")
            yield Shown(
                recipe=plain(recipe["recipe"]),
                measure=measure,
                n=str(recipe["seeds"]),
                value=_percent(recipe[column]),
                unit="%",
                **ends,
                **dict(zip(("difference", "difference_low", "difference_high"), beside, strict=True)),
            )
        if told:
            value, low, high = _reduced(recipe, "less_by_scores")
            least, most = recipe["less_by_scores_low"], recipe["less_by_scores_high"]
            word = "reduces" if least > 0 else "leaks more" if most < 0 else "inconclusive"
            yield Shown(recipe=plain(recipe["recipe"]), measure=VERDICT, value=value, low=low, high=high, word=word)


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _reduced(recipe: Mapping[str, Any], name: str) -> tuple[str, str, str]:
    value, low, high = (f"{100 * recipe[f'{name}{end}']:+.1f}" for end in ("", "_low", "_high"))
    return value, low, high


if __name__ == "__main__":
    _, path, section = sys.argv
    write_file(FOLDER / f"{section}.csv", written(list(rows_of(pd.read_parquet(Path(path))))))
