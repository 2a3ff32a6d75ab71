"""The shipped rule of comparisons, asked of many simulated sweeps at once.

`LeakCells` and `looks` do what they do for a report; here they get a leading dimension of draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice

import numpy as np

from benchmarks.simulated_sweeps import Design, drawn
from smoothsweep.core.metrics.leak_comparisons import LeakCells, LeakContrasts, against_baseline, hidden_claim
from smoothsweep.core.metrics.looks import Looks, settled

CHUNK = 300_000  # cells at once: what stays in a processor's cache, roughly
TOGETHER = 12  # chunks at looks, where few sweeps at a time have the same recipes still open
LEVEL = 0.95


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Fractions of the simulated sweeps: any interval that leaves out its truth, and what was said of the first recipe
    beside the baseline (hides only where no recipe is different). seeds: how many it was trained with, on average."""

    missed: float
    reduces: float
    hides: float
    seeds: float


def simulated(
    design: Design,
    reductions: Sequence[float],
    draws: int,
    seed: Sequence[int],
    looks: Looks | None = None,
    smallest: float | None = None,
) -> Outcome:
    """Simulate `draws` sweeps and ask the shipped functions. The first half of the attacks counts as published.

    looks: ask at each of them, and stop a recipe that is `settled`; design.seeds is the last look's number then.
    """
    rates = design.rates(reductions)
    true = (rates.max(axis=1)[0] - rates.max(axis=1))[1:]
    totals = np.zeros(4)
    chunks = _chunks(design, rates, draws, np.random.default_rng(list(seed)))
    while drawn_now := list(islice(chunks, 1 if looks is None else TOGETHER)):
        cells = np.concatenate(drawn_now)
        if looks is None:
            low, high, hides, seeds = _at_once(cells, hides=not reductions)
        else:
            low, high, hides, seeds = _at_looks(cells, looks, smallest, hides=not reductions)
        # A share's mean is a multiple of 1 / (seeds x people x images): a bound that equals it is no miss.
        missed = ((low > true + 1e-9) | (high < true - 1e-9)).any(axis=1)
        totals += [missed.sum(), (low[:, 0] > 0).sum(), hides[:, 0].sum(), seeds[:, 0].sum()]
    return Outcome(**dict(zip(("missed", "reduces", "hides", "seeds"), (totals / draws).tolist(), strict=True)))


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
    removed = leaks.ends(_together([leaks.reduction(recipe, 0) for recipe in others]), family)
    hidden = np.zeros(removed.low.shape, dtype=bool)
    if hides:
        parts = _together([hidden_claim(leaks, recipe, 0, published) for recipe in others])
        hidden = leaks.ends(parts, family).low > 0
    # Beyond what two shares can differ by, no report shows an end.
    return np.clip(removed.low, -1, 1), np.clip(removed.high, -1, 1), hidden


def _together(claims: Sequence[LeakContrasts]) -> LeakContrasts:
    """Claims on one recipe each as one, [draws, recipes]."""
    draws = len(claims[0].value)

    def stacked(weights: Sequence[np.ndarray]) -> np.ndarray:
        return np.concatenate([np.broadcast_to(each, (draws, 1, *each.shape[-3:])) for each in weights], axis=1)

    return LeakContrasts(
        value=np.concatenate([claim.value for claim in claims], axis=1),
        low=stacked([claim.low for claim in claims]),
        high=stacked([claim.high for claim in claims]),
        looked_at=claims[0].looked_at,
    )


def _at_once(cells: np.ndarray, *, hides: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    low, high, hidden = _asked(cells, 1 - LEVEL, cells.shape[1] - 1, hides=hides)
    return low, high, hidden, np.full(low.shape, cells.shape[-2])


def _at_looks(
    cells: np.ndarray, looks: Looks, smallest: float | None, *, hides: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Each recipe's ends at the look that settled it, or at the last."""
    shape = len(cells), cells.shape[1] - 1
    low, high, hidden, seeds = np.zeros(shape), np.zeros(shape), np.zeros(shape, dtype=bool), np.zeros(shape)
    open_ = np.ones(shape, dtype=bool)
    for number, error in zip(looks.seeds, looks.errors, strict=True):
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
