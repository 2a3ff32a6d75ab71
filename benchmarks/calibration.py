"""How often the rule of comparisons is wrong, and how often it finds what is there: `python -m benchmarks.calibration`.

Simulates sweeps from random effects and asks the shipped functions: yes-or-no images are drawn from logits to which
people, people under an attack, trainings and their interactions add normal effects. The spreads are those of the
quickstart's stored verdicts, and worse: strong seed effects, one recipe with three times the spread, attacks that are
equally good or nearly so, few people, leaks near 0 and 100 %; and the same with looks, where seeds are added for
recipes that are still undecided. Every cell of the design is simulated by itself, twice: no recipe differs from the
baseline; two do, by 20 and 10 points.

* false "reduces": a recipe that leaks as much as the baseline is said to leak less. Bar: 2.5 %.
* false "hides": the same of what is hidden. Bar: 2.5 %.
* family-wise error: any recipe's interval of its reduction leaves out the truth, no recipe being different. Bar: 5 %.
* coverage: all intervals hold their true values at once, two recipes being different. Bar: 95 % less two standard
  errors of the simulation.
* power: a true reduction is found.

`--rates` asks instead how often intervals of single rates miss, and whether exposed people are told as surely as is
said: of people drawn as above, and of people whose rates are beta-distributed, where far more are always recognised or
never. The true rate is that of all people and seeds.

Of hundreds of cells some lie beyond a bar by chance. Each that does is drawn again, ten times as often and with another
seed, and the second number stands.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from itertools import islice, product
from pathlib import Path
from zlib import crc32

import numpy as np
import pandas as pd
from numpy.polynomial import hermite_e
from scipy import optimize, special

from smoothsweep.core.files import write_file
from smoothsweep.core.metrics.intervals import TOP, exposures, rate_interval
from smoothsweep.core.metrics.leak_comparisons import LeakCells, against_baseline, hidden_claim
from smoothsweep.core.metrics.looks import Looks, settled
from smoothsweep.core.readers.files import read_text

PER_POINT = 1 / 25  # logits a percentage point, where leaks are near one half
SPREADS = {
    "person": 19.5,
    "person_attack": 6.8,
    "recipe_person_attack": 9.6,
    "recipe_seed_person": 8.7,
    "recipe_seed_attack": 3.4,
}
"""Standard deviations in points, of the quickstart at seeds 41 to 46."""


@dataclass(frozen=True, kw_only=True)
class Design:
    """A sweep to simulate. leak: of the baseline under its strongest attack. images: of a person under a seed.
    seed_spread: standard deviation of a training's effect, in points. wild: times as much for one recipe, number
    wild_recipe. gap: how much weaker each further attack is, in points; 0 for attacks that are equally good. blunt: how
    much weaker still all but the first are against the recipes beside the baseline, or (below 0) against the baseline.
    """

    recipes: int = 4
    attacks: int = 3
    seeds: int = 3
    people: int = 24
    leak: float = 0.75
    images: int = 4
    seed_spread: float = 0.0
    wild: float = 1.0
    wild_recipe: int = 1
    gap: float = 0.0
    blunt: float = 0.0

    def rates(self, reductions: Sequence[float]) -> np.ndarray:
        """True leaks [recipes, attacks]; reductions: of the recipes beside the baseline, in points, 0 for the rest."""
        points = 100 * self.leak - self.gap * np.arange(self.attacks)
        lower = np.zeros(self.recipes)
        others = lower[1:]
        others[: len(reductions)] = reductions[: len(others)]
        found = points[None, :] - lower[:, None]
        blunted = slice(1, None) if self.blunt > 0 else slice(0, 1)
        found[blunted, 1:] -= abs(self.blunt)
        return np.clip(found / 100, 0.005, 0.995)

    def logits(self, rates: np.ndarray) -> np.ndarray:
        """Logits whose average hit rates, over all random effects, are `rates` [recipes, attacks]."""
        wild = np.ones(self.recipes)
        wild[self.wild_recipe : self.wild_recipe + 1] = self.wild
        training = self.seed_spread**2 + SPREADS["recipe_seed_attack"] ** 2
        rest = sum(value**2 for value in SPREADS.values()) - SPREADS["recipe_seed_attack"] ** 2
        spreads = PER_POINT * np.sqrt(rest + wild**2 * training)
        return np.array(
            [[logit_of(rate, spread, 40) for rate in row] for row, spread in zip(rates, spreads, strict=True)]
        )


@cache
def logit_of(rate: float, spread: float, points: int = 60) -> float:
    """The logit whose average rate, over normal effects of this standard deviation, is as given."""
    nodes, masses = hermite_e.hermegauss(points)

    def excess(logit: float) -> float:
        return float(masses @ special.expit(logit + spread * nodes) / masses.sum()) - rate

    return optimize.brentq(excess, -60, 60)


def drawn(design: Design, logits: np.ndarray, draws: int, generator: np.random.Generator) -> np.ndarray:
    """Hit rates [draws, recipes, attacks, seeds, people] of simulated sweeps."""
    recipes, attacks, seeds, people = design.recipes, design.attacks, design.seeds, design.people

    def effect(spread: float, *shape: int) -> np.ndarray:
        return PER_POINT * spread * generator.standard_normal((draws, *shape), dtype=np.float32)

    trainings = effect(SPREADS["recipe_seed_attack"], recipes, attacks, seeds, 1)
    if design.seed_spread:
        trainings = trainings + effect(design.seed_spread, recipes, 1, seeds, 1)
    trainings[:, design.wild_recipe : design.wild_recipe + 1] *= design.wild
    of_people = effect(SPREADS["person"], 1, 1, 1, people) + effect(SPREADS["person_attack"], 1, attacks, 1, people)
    of_people = of_people + effect(SPREADS["recipe_person_attack"], recipes, attacks, 1, people)
    of_people = of_people + logits[:, :, None, None].astype(np.float32)
    total = effect(SPREADS["recipe_seed_person"], recipes, 1, seeds, people) + of_people
    total += trainings
    chances = special.expit(total)
    hits = np.zeros(chances.shape, dtype=np.float64)
    for _ in range(design.images):
        hits += generator.random(chances.shape, dtype=np.float32) < chances
    return hits / design.images


CHUNK = 300_000  # cells at once: what stays in a processor's cache, roughly
TOGETHER = 12  # chunks at looks, where few sweeps at a time have the same recipes still open
LEVEL = 0.95


def simulated(
    design: Design,
    reductions: Sequence[float],
    draws: int,
    seed: Sequence[int],
    looks: Looks | None = None,
    smallest: float | None = None,
) -> dict[str, float]:
    """Simulate `draws` sweeps and ask the shipped functions. The first half of the attacks counts as published.

    Returns fractions of the sweeps: `missed` (any interval leaves out its truth), and what was said of the first recipe
    beside the baseline, `reduces` and `hides` (where no recipe is different); and `seeds`, how many it met on average.
    looks: ask at each of them, and stop a recipe that is `settled`; design.seeds is the last look's number then.
    """
    rates = design.rates(reductions)
    true = (rates.max(axis=1)[0] - rates.max(axis=1))[1:]
    totals = np.zeros(4)
    chunks = _chunks(design, rates, draws, np.random.default_rng(list(seed)))
    while drawn_now := list(islice(chunks, 1 if looks is None else TOGETHER)):
        cells = np.concatenate(drawn_now)
        low, high, hides, seeds = _at_looks(cells, looks, smallest, hides=not reductions)
        # A share's mean is a multiple of 1 / (seeds x people x images): a bound that equals it is no miss.
        missed = ((low > true + 1e-9) | (high < true - 1e-9)).any(axis=1)
        totals += [missed.sum(), (low[:, 0] > 0).sum(), hides[:, 0].sum(), seeds[:, 0].sum()]
    return dict(zip(("missed", "reduces", "hides", "seeds"), (totals / draws).tolist(), strict=True))


def _chunks(design: Design, rates: np.ndarray, draws: int, generator: np.random.Generator) -> Iterator[np.ndarray]:
    logits = design.logits(rates)
    each = max(1, CHUNK // (design.recipes * design.attacks * design.seeds * design.people))
    for start in range(0, draws, each):
        yield drawn(design, logits, min(each, draws - start), generator)


def _asked(cells: np.ndarray, error: float, among: int, *, hides: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ends of what is removed and whether anything is hidden, [draws, recipes beside the baseline].

    hides: False where nobody looks at the last, which costs most.
    """
    names = tuple(f"attack {number}" for number in range(cells.shape[-3]))
    published = range(max(1, (len(names) + 1) // 2))
    leaks = LeakCells(cells=cells[:, None], attacks=names, alpha=error)
    others, family = range(1, cells.shape[-4]), against_baseline(cells.shape[-4], among)
    removed = [leaks.ends(leaks.reduction(recipe, 0), family) for recipe in others]
    low, high = (np.concatenate([getattr(one, end) for one in removed], axis=1) for end in ("low", "high"))
    hidden = np.zeros(low.shape, dtype=bool)
    if hides:
        parts = [leaks.ends(hidden_claim(leaks, recipe, 0, published), family).low for recipe in others]
        hidden = np.concatenate(parts, axis=1) > 0
    # Beyond what two shares can differ by, no report shows an end.
    return np.clip(low, -1, 1), np.clip(high, -1, 1), hidden


def _at_looks(
    cells: np.ndarray, looks: Looks | None, smallest: float | None, *, hides: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Each recipe's ends at the look that settled it, or at the last; all seeds at once without looks."""
    shape = len(cells), cells.shape[1] - 1
    asked = [(cells.shape[-2], 1 - LEVEL)] if looks is None else zip(looks.seeds, looks.errors, strict=True)
    low, high, hidden, seeds = np.zeros(shape), np.zeros(shape), np.zeros(shape, dtype=bool), np.zeros(shape)
    open_ = np.ones(shape, dtype=bool)
    for number, error in asked:
        # Sweeps in which the same recipes are still open are asked together.
        patterns, which = np.unique(open_, axis=0, return_inverse=True)
        for at, pattern in enumerate(patterns):
            if not pattern.any():
                continue
            rows, columns = np.flatnonzero(which.ravel() == at), np.flatnonzero(pattern)
            part = cells[np.ix_(rows, [0, *(columns + 1)])][..., :number, :]
            place = np.ix_(rows, columns)
            low[place], high[place], hidden[place] = _asked(part, error, shape[1], hides=hides)
            seeds[place] = number
        open_ &= ~settled(low, high, smallest=smallest)
    return low, high, hidden, seeds


def key_of(design: Design, reductions: Sequence[float], looks: Looks | None, smallest: float | None) -> str:
    """What tells one simulated cell from another, for stored results and for its own stream of random numbers."""
    asked = "" if looks is None else f" looks {looks.seeds} {looks.spend} {looks.alpha} {smallest}"
    # Cells that leave it out have been simulated before there was one: their random numbers stay.
    given = {name: value for name, value in asdict(design).items() if name != "blunt" or value}
    return f"{given} {tuple(reductions)}{asked}"


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
    *((Design(), points) for points in (10.0, 20.0, 30.0)),
    (Design(people=48), 20.0),
    (Design(seeds=2), 20.0),
    *((Design(seeds=5), points) for points in (10.0, 20.0)),
    (Design(recipes=9, attacks=5, people=16), 25.0),
    *((Design(seeds=8), points) for points in (10.0, 20.0)),
)
BARS = {"reduces": 0.025, "hides": 0.025, "missed": 0.05}
BAR_WORDS = {
    "reduces": 'false "reduces"',
    "hides": 'false "hides"',
    "missed": "any error",
    "uncovered": "intervals not all right",
}
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

    def __post_init__(self) -> None:
        """Read what is there."""
        if self.path is not None and self.path.exists():
            self.found = json.loads(read_text(self.path))

    def outcome(
        self, design: Design, reductions: Sequence[float], looks: Looks | None = None, *, again: bool = False
    ) -> dict[str, float]:
        """Simulate a cell unless it has been. again: with more draws and other random numbers."""
        draws, smallest = self.draws * (AGAIN if again else 1), None if looks is None else SMALLEST
        key = f"{key_of(design, reductions, looks, smallest)} draws {draws} seed {self.seed}"
        if key not in self.found:
            stream = self.seed, int(again), crc32(key.encode())
            self.found[key] = simulated(design, reductions, draws, stream, looks, smallest)
            if self.path is not None:
                write_file(self.path, json.dumps(self.found, indent=0))
        return self.found[key]

    def judged(self, cell: Cell) -> tuple[dict[str, float], bool]:
        """Errors of a cell, and whether it had to be drawn again."""
        for again in (False, True):
            null, found = (self.outcome(cell.design, one, cell.looks, again=again) for one in (NULL, DIFFERENT))
            errors = {**{bar: null[bar] for bar in BARS}, "uncovered": found["missed"]}
            if again or not beyond(errors, self.draws):
                break
        return errors, again


def beyond(errors: dict[str, float], draws: int) -> list[str]:
    """The bars that a cell lies beyond."""
    allowed = 0.05 + 2 * (0.05 * 0.95 / draws) ** 0.5
    return [name for name, bar in (*BARS.items(), ("uncovered", allowed)) if errors[name] > bar]


def powers(results: Results) -> Iterator[str]:
    """How often true reductions are found, at once and at looks."""
    yield "| seeds x people, recipes x attacks | true reduction, points | found |"
    yield "| --- | ---: | ---: |"
    for design, points in POWER:
        found = results.outcome(replace(design, gap=4.0), (points,))
        size = f"{design.seeds} x {design.people}, {design.recipes} x {design.attacks}"
        yield f"| {size} | {points:g} | {100 * found['reduces']:.0f} % |"
    yield ""
    yield "| looks at 3, 5 and 8 seeds, 24 people, 4 x 3 | true reduction, points | found | seeds on average |"
    yield "| --- | ---: | ---: | ---: |"
    for looks, points in product(LOOKS, (0.0, 10.0, 20.0, 30.0)):
        found = results.outcome(Design(seeds=looks.seeds[-1], gap=4.0), (points,), looks)
        yield f"| {looks.spend} | {points:g} | {100 * found['reduces']:.0f} % | {found['seeds']:.1f} |"


def report(results: Results, *, small: bool, sizes: Sequence[str] = (), most: int | None = None) -> Iterator[str]:
    """The lines of all tables: the worst cell of every row, in per cent. sizes: as `cells_of`. most: so many cells."""
    found, failures = [], {}
    for cell in islice(cells_of(small=small, sizes=sizes), most):
        errors, repeated = results.judged(cell)
        found.append({"recipes x attacks": cell.row, "what is simulated": cell.variant, "again": repeated, **errors})
        for bar in beyond(errors, results.draws * (AGAIN if repeated else 1)):
            failures.setdefault((cell.variant, BAR_WORDS[bar]), []).append(100 * errors[bar])
    cells = pd.DataFrame(found)
    for title in ("recipes x attacks", "what is simulated"):
        yield f"| {title} | cells | {' | '.join(BAR_WORDS.values())} |"
        yield "| --- | ---: | ---: | ---: | ---: | ---: |"
        for row, mine in cells.groupby(title, sort=False):
            worst = " | ".join(f"{100 * value:.1f}" for value in mine[list(BAR_WORDS)].max())
            yield f"| {row} | {len(mine)} | {worst} |"
        yield ""
    yield f"{cells['again'].sum()} cells drawn again. Beyond a bar after that:"
    yield ""
    yield "| what is simulated | beyond the bar | cells | worst |"
    yield "| --- | --- | ---: | ---: |"
    for (variant, bar), shares in failures.items():
        yield f"| {variant} | {bar} | {len(shares)} | {max(shares):.1f} |"
    yield ""
    yield from powers(results)


PERSON, SEED_PERSON, SEED = 22.7 * PER_POINT, 8.7 * PER_POINT, 3.4 * PER_POINT
"""Standard deviations in logits: a person under an attack, the same beside it under one seed, a training."""
BINS = (0.0, 0.2, 0.5, 0.8, 1.0)
"""Of the probability of being among the five most exposed."""


@dataclass(frozen=True, kw_only=True)
class Crowd:
    """People under one attack. rate: the mean in [0, 1]; images: of a person under a seed; kind: "logits", "strong"
    (logits with a training's effect of 7 points) or "beta" (images of a person correlating by .3)."""

    rate: float
    seeds: int
    people: int
    images: int = 4
    kind: str = "logits"


def drawn_crowd(crowd: Crowd, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Shares of hits [seeds, people], and the people's true rates over seeds [people]."""
    shape = (crowd.seeds, crowd.people)
    if crowd.rate in (0, 1):
        return np.full(shape, crowd.rate), np.full(crowd.people, crowd.rate)
    if crowd.kind == "beta":
        size = 1 / 0.3 - 1
        true = generator.beta(size * crowd.rate, size * (1 - crowd.rate), crowd.people)
        return generator.binomial(crowd.images, true, shape) / crowd.images, true
    training = 7 * PER_POINT if crowd.kind == "strong" else 0.0 if crowd.seeds == 1 else SEED
    own = np.hypot(SEED_PERSON, training)
    person = logit_of(crowd.rate, float(np.hypot(PERSON, own))) + generator.normal(0, PERSON, crowd.people)
    effects = generator.normal(0, SEED_PERSON, shape) + generator.normal(0, training, (crowd.seeds, 1))
    chances = special.expit(person + effects)
    nodes, masses = hermite_e.hermegauss(60)
    true = special.expit(person[:, None] + own * nodes) @ (masses / masses.sum())
    return generator.binomial(crowd.images, chances) / crowd.images, true


def coverage(crowd: Crowd, draws: int, seed: int) -> float:
    """How often the interval of the rate holds it."""
    generator, held = np.random.default_rng(seed), 0
    for _ in range(draws):
        shares, _ = drawn_crowd(crowd, generator)
        found = rate_interval(shares, images=shares.size * crowd.images)
        held += found.low <= crowd.rate <= found.high
    return held / draws


def people_told(crowd: Crowd, draws: int, seed: int) -> tuple[float, float, float, list[tuple[float, float, int]]]:
    """How sure of single people the report may be.

    Returns the fraction of people whose interval holds their rate; errors of the estimate and of the share, roots of
    mean squares; and (fraction said, fraction true, how many) of being among the five, by what was said.
    """
    generator, held, errors, said, right = np.random.default_rng(seed), [], [], [], []
    for _ in range(draws):
        shares, true = drawn_crowd(crowd, generator)
        found = exposures(shares, np.full(crowd.people, crowd.images))
        held.append((found.low <= true) & (true <= found.high))
        errors.append((found.rate - true, found.share - true))
        said.append(found.among_top)
        right.append(true >= np.sort(true)[-TOP])
    claims, facts = np.concatenate(said), np.concatenate(right)
    place = np.digitize(claims, BINS[1:-1])
    bins = [
        (float(claims[place == at].mean()), float(facts[place == at].mean()), int((place == at).sum()))
        for at in range(len(BINS) - 1)
        if (place == at).any()
    ]
    error, raw = np.sqrt(np.mean(np.square(errors), axis=(0, 2)))
    return float(np.mean(held)), float(error), float(raw), bins


def rate_tables(draws: int, seed: int) -> Iterator[str]:
    """The lines of both tables."""
    yield "| seeds | people | rate 0 | .01 | .5 | .99 | 1 | worst |"
    yield "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |"
    for seeds, people in product((1, 2, 3, 5), (5, 10, 24, 48)):
        cells = {
            (rate, kind): coverage(Crowd(rate=rate, seeds=seeds, people=people, kind=kind), draws, seed)
            for rate in (0.0, 0.01, 0.5, 0.99, 1.0)
            for kind in ("logits", "strong", "beta")
            if seeds > 1 or kind != "strong"
        }
        worst = {rate: min((cell, kind) for (at, kind), cell in cells.items() if at == rate) for rate, _ in cells}
        row = " | ".join(f"{100 * cell:.1f}" for cell, _ in worst.values())
        yield f"| {seeds} | {people} | {row} | {min(worst.values())[1]} |"
    yield "\n| seeds | people | kind | intervals that hold | error, shrunk / observed | said to be true of the five |"
    yield "| ---: | ---: | --- | ---: | ---: | --- |"
    for kind, seeds, people in product(("logits", "beta"), (1, 2, 3), (10, 24, 48)):
        crowd = Crowd(rate=0.5, seeds=seeds, people=people, kind=kind)
        covered, error, raw, bins = people_told(crowd, max(1, draws // 8), seed)
        said = ", ".join(f"{100 * claim:.0f}: {100 * fact:.0f}" for claim, fact, _ in bins)
        yield f"| {seeds} | {people} | {kind} | {100 * covered:.1f} | {100 * error:.1f} / {100 * raw:.1f} | {said} |"


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
        lines = rate_tables(options.draws, options.seed)
    else:
        results = Results(path=options.results, draws=options.draws, seed=options.seed)
        lines = report(results, small=options.small, sizes=options.sizes)
    for line in lines:
        print(line, flush=True)
    seconds = time.process_time() - started
    print(f"\n{options.draws} draws a cell, seed {options.seed}, {seconds:.0f} s of one processor")


if __name__ == "__main__":
    main()
