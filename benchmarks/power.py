"""How much is needed: what sweeps of several sizes can tell, `python -m benchmarks.power`.

The table of docs/statistics.md, by the function that `smoothsweep plan` asks: four recipes under three attacks, with
the spreads and costs of the quickstart. `--draws` also simulates sweeps of every size and says in how many of them the
shipped comparison finds the difference that is told. They are those of `benchmarks.calibration`: yes-or-no images drawn
from logits, not the normal effects that the plan assumes.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from benchmarks.calibration import Design as Simulated
from benchmarks.calibration import simulated
from smoothsweep.core.metrics.components import QUICKSTART
from smoothsweep.core.metrics.power import Design, planned
from smoothsweep.orchestrator.planning.power.costs import Costs

NOW = Design(seeds=3, classes=24, recipes=4, attacks=3, images=4)
COSTS = Costs(now=NOW, trained=48, fixed=0.0, of_seed=4 * 23.0, of_classes=4 * 36.0)
"""Device-seconds of the quickstart: a training 23, three attacks with their judges 36."""

SIZES = ((2, 24, 4), (3, 24, 4), (3, 36, 4), (3, 48, 4), (3, 48, 2), (5, 24, 4), (5, 48, 4), (8, 48, 4))
GAP = 4.0  # points that every further attack of the simulation finds less


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=0, help="simulated sweeps of each size (default: none)")
    parser.add_argument("--seed", type=int, default=0, help="of the simulation (default: 0)")
    options = parser.parse_args()
    found = " found |" if options.draws else ""
    print(f"| seeds x people x images | time | standard error | half-width | told from |{found}")
    print("| --- | ---: | ---: | ---: | ---: |" + (" ---: |" if options.draws else ""))
    for number, (seeds, people, images) in enumerate(SIZES):
        design = replace(NOW, seeds=seeds, classes=people, images=images)
        told = planned(QUICKSTART, design)
        numbers = f"{100 * told.error:.1f} | {100 * told.half:.1f} | {100 * told.tells:.1f} |"
        power = ""
        if options.draws:
            size = Simulated(seeds=seeds, people=people, images=images, gap=GAP)
            rate = simulated(size, (100 * told.tells,), options.draws, (options.seed, number)).reduces
            power = f" {100 * rate:.0f} % |"
        print(f"| {seeds} x {people} x {images} | {COSTS.times(design):.1f} | {numbers}{power}")


if __name__ == "__main__":
    main()
