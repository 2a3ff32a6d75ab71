"""What the intervals of a sweep are computed from, as a small file: with it a new rule needs no store.

    python -m tools.result_cells SWEEP.yaml STORE [PATH=VALUE ...]

SWEEP.yaml has run into the folder STORE; PATH=VALUE is what was given with --set. docs/results/numbers/cells/NAME.csv
gets a row for each recipe, attack and seed: the fraction of each class's reconstructions that the independent judge
recognises, class by class. Controls are left out.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from smoothsweep.core.files import write_file
from smoothsweep.core.metrics.leak_comparisons import LeakComparisons, compare_leaks
from smoothsweep.orchestrator.commands.reporting.sharing.contents import gather_sweep
from smoothsweep.orchestrator.commands.reporting.sharing.export import sweep_to_share
from tools.result_numbers import FOLDER

METRIC = "embedder_acc1"
TITLES = ["recipe", "baseline", "attack", "published", "seed", "fractions"]
BREAK = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True, kw_only=True)
class Kept:
    """leaks: recipe -> attack -> [seeds, classes]. baseline: one of the recipes. published: of the attacks."""

    leaks: Mapping[str, Mapping[str, np.ndarray]]
    seeds: Sequence[int]
    baseline: str
    published: Sequence[str]

    def compared(self) -> LeakComparisons:
        """By the rule that every output follows. The reductions are fractions."""
        return compare_leaks(self.leaks, baseline=self.baseline, published=self.published, span=1.0, every_pair=False)


def kept(sweep: Path, store: str, overrides: Sequence[str] = ()) -> tuple[str, Kept]:
    """The name of a finished sweep and its cells. Raises InputError where the store has no finished trial of it."""
    loaded, trials, opened = sweep_to_share(sweep, list(overrides), store)
    summary = gather_sweep(loaded, trials, opened).summary
    cases, baseline = summary.cases(METRIC), summary.baseline_recipe
    if baseline is None:
        raise ValueError(f"{sweep}: expected a sweep with one baseline, got none")
    leaks = {
        recipe.replace(BREAK, " "): {attack.replace(BREAK, " "): cells for attack, cells in by_attack.items()}
        for recipe, by_attack in summary.leaks_of(METRIC, cases).items()
    }
    published = [attack.replace(BREAK, " ") for attack in summary.published if attack in cases.attacks]
    return loaded.sweep.name, Kept(
        leaks=leaks, seeds=cases.seeds, baseline=baseline.replace(BREAK, " "), published=published
    )


def written(cells: Kept) -> str:
    """The text of a file of cells."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(TITLES)
    for recipe, by_attack in cells.leaks.items():
        for attack, matrix in by_attack.items():
            for seed, row in zip(cells.seeds, matrix, strict=True):
                fractions = " ".join(f"{value:.6g}" for value in row)
                marks = [int(recipe == cells.baseline), attack, int(attack in cells.published)]
                writer.writerow([recipe, *marks, seed, fractions])
    return text.getvalue()


def read(name: str, folder: Path = FOLDER / "cells") -> Kept:
    """The cells of a section. Raises ValueError for other columns."""
    with (folder / f"{name}.csv").open(newline="") as opened:
        titles, *rows = csv.reader(opened)
    if titles != TITLES:
        raise ValueError(f"{name}.csv: expected the columns {', '.join(TITLES)}, got {', '.join(titles)}")
    leaks: dict[str, dict[str, list[np.ndarray]]] = {}
    for recipe, _, attack, _, _, fractions in rows:
        leaks.setdefault(recipe, {}).setdefault(attack, []).append(np.array(fractions.split(), dtype=float))
    return Kept(
        leaks={recipe: {attack: np.stack(one) for attack, one in mine.items()} for recipe, mine in leaks.items()},
        seeds=[int(seed) for seed in dict.fromkeys(row[4] for row in rows)],
        baseline=next(row[0] for row in rows if row[1] == "1"),
        published=list(dict.fromkeys(row[2] for row in rows if row[3] == "1")),
    )


if __name__ == "__main__":
    section, found = kept(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
    write_file(FOLDER / "cells" / f"{section}.csv", written(found), parents=True)
