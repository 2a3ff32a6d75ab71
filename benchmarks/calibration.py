"""How often the rule of comparisons is wrong, and how often it finds what is there: `python -m benchmarks.calibration`.

Simulates sweeps from random effects (`simulated_sweeps`) and asks the shipped functions (`asked_rules`): with the
spreads that the quickstart's stored verdicts have, and worse: strong seed effects, one recipe with three times the
spread, attacks that are equally good or nearly so, few people, leaks near 0 and 100 %; and the same with looks, where
seeds are added for recipes that are still undecided. Every cell of the design is simulated by itself, twice: no recipe
differs from the baseline; two do, by 20 and 10 points.

* false "reduces": a recipe that leaks as much as the baseline is said to leak less. Bar: 2.5 %.
* false "hides": the same of what is hidden. Bar: 2.5 %.
* family-wise error: any recipe's interval of its reduction leaves out the truth, no recipe being different. Bar: 5 %.
* coverage: all intervals hold their true values at once, two recipes being different. Bar: 95 % less two standard
  errors of the simulation.
* power: a true reduction is found.

Of hundreds of cells some lie beyond a bar by chance. Each that does is drawn again, ten times as often and with another
seed, and the second number stands.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice, product
from pathlib import Path
from zlib import crc32

from benchmarks.asked_rules import Outcome, key_of, simulated
from benchmarks.calibration_rates import tables
from benchmarks.simulated_sweeps import Design
from smoothsweep.core.files import write_file
from smoothsweep.core.metrics.looks import Looks
from smoothsweep.core.readers.files import read_text

NULL, DIFFERENT = (), (20.0, 10.0)
"""Reductions in points of the recipes beside the baseline."""
SMALLEST = 0.05
LOOKS = (Looks(seeds=(3, 5, 8)), Looks(seeds=(3, 5, 8), spend="obrien-fleming"))
VARIANTS: dict[str, dict[str, float]] = {
    "as the quickstart, attacks equally good": {},
    "attacks nearly as good: 2 points apart": {"gap": 2.0},
    "training effects of 3 points, attacks 8 points apart": {"seed_spread": 3.0, "gap": 8.0},
    "training effects of 6 points": {"seed_spread": 6.0},
    "one recipe with three times the spread": {"wild": 3.0},
    "one recipe with three times the spread, training effects of 6 points": {"seed_spread": 6.0, "wild": 3.0},
    "the baseline with three times the spread, training effects of 6 points": {
        "seed_spread": 6.0,
        "wild": 3.0,
        "wild_recipe": 0,
    },
    "against the recipes one attack works, others are 40 points weaker": {"blunt": 40.0},
    "against the baseline one attack works, others are 40 points weaker": {"blunt": -40.0},
    "leaks of 97 %": {"leak": 0.97},
    "leaks of 4 %": {"leak": 0.04},
}
SIZES = {
    f"{recipes}x{attacks}": (recipes, attacks) for recipes, attacks in ((2, 1), (2, 3), (4, 1), (4, 3), (9, 1), (9, 5))
}
"""Recipes x attacks."""
POWER = (
    (Design(), 10.0),
    (Design(), 20.0),
    (Design(), 30.0),
    (Design(people=48), 20.0),
    (Design(seeds=2), 20.0),
    (Design(seeds=5), 10.0),
    (Design(seeds=5), 20.0),
    (Design(recipes=9, attacks=5, people=16), 25.0),
    (Design(seeds=8), 10.0),
    (Design(seeds=8), 20.0),
)
BARS = {"reduces": 0.025, "hides": 0.025, "missed": 0.05}
BAR_WORDS = {
    "reduces": 'false "reduces"',
    "hides": 'false "hides"',
    "missed": "any error",
    "uncovered": "intervals not all right",
}
SAVED_EVERY = 10.0  # seconds
AGAIN = 10  # times as many draws for a cell beyond a bar


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One cell of the design, and of which rows of the tables it is part."""

    design: Design
    variant: str
    looks: Looks | None = None

    @property
    def row(self) -> str:
        """Of the tables by size."""
        size = f"{self.design.recipes} x {self.design.attacks}"
        return f"{size}, {self.design.seeds} seeds" if self.looks is None else f"{size}, {self.looks.spend}"


def cells_of(*, small: bool, sizes: Sequence[str] = ()) -> Iterator[Cell]:
    """The cells of the calibration. sizes: only these, such as 9x5; all for none."""
    asked = [SIZES[name] for name in sizes or (("2x1", "4x3") if small else SIZES)]
    seeds, people = ((2, 3), (10, 24)) if small else ((2, 3, 5, 10), (10, 24, 48))
    for (recipes, attacks), persons, (name, options) in product(asked, people, VARIANTS.items()):
        if attacks == 1 and ("blunt" in options or options.get("gap") == 2.0):
            continue  # there is nothing to be weaker
        base = replace(Design(recipes=recipes, attacks=attacks, people=persons), **options)
        for many in seeds:
            yield Cell(design=replace(base, seeds=many), variant=name)
        for looks in LOOKS:
            yield Cell(design=replace(base, seeds=looks.seeds[-1]), variant=name, looks=looks)


@dataclass(kw_only=True)
class Results:
    """Outcomes by cell, kept in a file so that a calibration that was stopped goes on."""

    path: Path | None
    draws: int
    seed: int
    found: dict[str, dict[str, float]] = field(default_factory=dict)
    saved: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        """Read what is there."""
        if self.path is not None and self.path.exists():
            self.found = json.loads(read_text(self.path))

    def outcome(
        self, design: Design, reductions: Sequence[float], looks: Looks | None = None, *, again: bool = False
    ) -> Outcome:
        """Simulate a cell unless it has been. again: with more draws and other random numbers."""
        draws, smallest = self.draws * (AGAIN if again else 1), None if looks is None else SMALLEST
        key = f"{key_of(design, reductions, looks, smallest)} draws {draws} seed {self.seed}"
        if key not in self.found:
            stream = self.seed, int(again), crc32(key.encode())
            self.found[key] = asdict(simulated(design, reductions, draws, stream, looks, smallest))
            if time.monotonic() > self.saved + SAVED_EVERY:
                self.save()
        return Outcome(**self.found[key])

    def save(self) -> None:
        """Write what was found so far."""
        if self.path is not None:
            write_file(self.path, json.dumps(self.found, indent=0))
        self.saved = time.monotonic()

    def judged(self, cell: Cell) -> tuple[dict[str, float], bool]:
        """Errors of a cell, and whether it had to be drawn again."""
        first = self._errors(cell, again=False)
        if not beyond(first, self.draws):
            return first, False
        return self._errors(cell, again=True), True

    def _errors(self, cell: Cell, *, again: bool) -> dict[str, float]:
        null = self.outcome(cell.design, NULL, cell.looks, again=again)
        found = self.outcome(cell.design, DIFFERENT, cell.looks, again=again)
        return {
            "reduces": null.reduces,
            "hides": null.hides,
            "missed": null.missed,
            "uncovered": found.missed,
            "seeds": found.seeds,
        }


def beyond(errors: dict[str, float], draws: int) -> list[str]:
    """The bars that a cell lies beyond."""
    allowed = 0.05 + 2 * (0.05 * 0.95 / draws) ** 0.5
    return [name for name, bar in (*BARS.items(), ("uncovered", allowed)) if errors[name] > bar]


def table(title: str, rows: dict[str, list[dict[str, float]]]) -> Iterator[str]:
    """The worst cell of every row, in per cent."""
    yield f"| {title} | cells | {' | '.join(BAR_WORDS.values())} |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for row, cells in rows.items():
        worst = [max(100 * each[name] for each in cells) for name in ("reduces", "hides", "missed", "uncovered")]
        yield f"| {row} | {len(cells)} | " + " | ".join(f"{value:.1f}" for value in worst) + " |"


def powers(results: Results) -> Iterator[str]:
    """How often true reductions are found, at once and at looks."""
    yield "| seeds x people, recipes x attacks | true reduction, points | found |"
    yield "| --- | ---: | ---: |"
    for design, points in POWER:
        found = results.outcome(replace(design, gap=4.0), (points,))
        yield f"| {design.size} | {points:g} | {100 * found.reduces:.0f} % |"
    yield ""
    yield "| looks at 3, 5 and 8 seeds, 24 people, 4 x 3 | true reduction, points | found | seeds on average |"
    yield "| --- | ---: | ---: | ---: |"
    for looks, points in product(LOOKS, (0.0, 10.0, 20.0, 30.0)):
        found = results.outcome(Design(seeds=looks.seeds[-1], gap=4.0), (points,), looks)
        yield f"| {looks.spend} | {points:g} | {100 * found.reduces:.0f} % | {found.seeds:.1f} |"


def report(results: Results, *, small: bool, sizes: Sequence[str] = (), most: int | None = None) -> Iterator[str]:
    """The lines of all tables. sizes: as `cells_of`. most: so many cells, None for all."""
    by_size: dict[str, list[dict[str, float]]] = {}
    by_variant: dict[str, list[dict[str, float]]] = {}
    failures: dict[tuple[str, str], list[float]] = {}
    again = 0
    for cell in islice(cells_of(small=small, sizes=sizes), most):
        errors, repeated = results.judged(cell)
        by_size.setdefault(cell.row, []).append(errors)
        by_variant.setdefault(cell.variant, []).append(errors)
        again += repeated
        for bar in beyond(errors, results.draws * (AGAIN if repeated else 1)):
            failures.setdefault((cell.variant, BAR_WORDS[bar]), []).append(100 * errors[bar])
    yield from table("recipes x attacks", by_size)
    yield ""
    yield from table("what is simulated", by_variant)
    yield ""
    yield f"{again} cells drawn again. Beyond a bar after that:"
    yield ""
    yield "| what is simulated | beyond the bar | cells | worst |"
    yield "| --- | --- | ---: | ---: |"
    for (variant, bar), shares in failures.items():
        yield f"| {variant} | {bar} | {len(shares)} | {max(shares):.1f} |"
    yield ""
    yield from powers(results)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=400, help="simulated sweeps of each cell (default: 400)")
    parser.add_argument("--small", action="store_true", help="fewer sizes, seeds and people")
    parser.add_argument("--seed", type=int, default=0, help="of the simulation (default: 0)")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=(), help="recipes x attacks (default: all)")
    parser.add_argument("--results", type=Path, help="keeps outcomes in this file, and goes on from it")
    parser.add_argument("--rates", action="store_true", help="intervals of single rates and people instead")
    options = parser.parse_args()
    started = time.process_time()
    if options.rates:
        for line in tables(options.draws, options.seed):
            print(line, flush=True)
    else:
        results = Results(path=options.results, draws=options.draws, seed=options.seed)
        for line in report(results, small=options.small, sizes=options.sizes):
            print(line, flush=True)
        results.save()
    seconds = time.process_time() - started
    print(f"\n{options.draws} draws a cell, seed {options.seed}, {seconds:.0f} s of one processor")


if __name__ == "__main__":
    main()
