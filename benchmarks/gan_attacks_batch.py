"""GMI's, KED-MI's and LOMMA's search against the official scripts: `python -m benchmarks.gan_attacks_batch`.

`benchmarks.gan_attacks_batch_yardstick` moves a batch of classes at once, as the scripts do. Ours takes as many classes
at once as a task does. KED-MI's, whose protocol `clean` looks at every image alone, runs under that as well, a class
alone and all at once, which changes its numbers by rounding; GMI's also class by class. Networks, draws and steps are
those of `benchmarks.gan_attacks`. All ways run in one process, in turns whose order alternates; times are CPU time of
one thread, and a ratio is that of one turn. Both sides show the target what they found.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from benchmarks.gan_attacks import (
    TARGETS,
    Setting,
    attack_inputs_of,
    attacks_of,
    double,
    frozen,
    gap,
    networks_of,
    prepare,
    view_on,
)
from benchmarks.gan_attacks_batch_yardstick import gmi_batch, ked_batch
from benchmarks.gan_attacks_yardstick import Run
from smoothsweep.core.attacks.distillation.config import Distillation
from smoothsweep.core.attacks.lowres.base import LowResolution
from smoothsweep.core.attacks.lowres.ked import KED
from smoothsweep.core.attacks.shared.view import GradientView

STEPS = {"gmi": 3, "ked": 15, "lomma_gmi": 2, "lomma_ked": 10}
"""Of the search, per attack: five restarts of GMI's are as long as five times as many steps of KED-MI's one latent."""
OFFICIAL, AS_PUBLISHED = "official way", "paper"
_SEED = 0


@dataclass(frozen=True, kw_only=True)
class Way:
    """protocol; together: classes at once, None for as many as a task takes."""

    protocol: str
    together: int | None = None


def ways_of(attack: LowResolution, count: int) -> dict[str, Way]:
    """How ours runs with that many classes; the first is the one that finds what the official way finds."""
    found = {AS_PUBLISHED: Way(protocol="paper")}
    if attack.class_batch("paper") == 1:
        return found | {"class by class": Way(protocol="paper", together=1)}
    at_once = Way(protocol="clean", together=count)
    return found | {"clean": Way(protocol="clean"), "clean, all at once (rounded otherwise)": at_once}


def official(setting: Setting, attack: LowResolution, classes: list[int]) -> Run:
    """All classes as one batch."""
    way = ked_batch if isinstance(attack, KED) else gmi_batch
    return way(networks_of(setting, attack), attack, classes, _SEED)


def ours(setting: Setting, view: GradientView, attack: LowResolution, classes: list[int], way: Way) -> Tensor:
    """Latents [classes, selected, z_dim] in the order of their draws."""
    coupled = attack.class_batch(way.protocol)
    together = way.together or (coupled if coupled > 1 else attack.side_by_side("cpu"))
    given, found = attack_inputs_of(setting, way.protocol), []
    for start in range(0, len(classes), together):
        found += attack.invert_batch(view, given, classes[start : start + together], seed=_SEED)
    return torch.stack([one.w[:, 0][one.rows["draw"].argsort()] for one in found])


@dataclass(frozen=True, kw_only=True)
class Taken:
    """CPU seconds of every turn, per way; apart: how far the latents of `paper` end from the official way's, relative
    to their way, as timed and in double precision."""

    seconds: Mapping[str, list[float]]
    apart: float
    apart_double: float

    def ratios(self, way: str) -> list[float]:
        """How many times the official way takes, turn by turn."""
        pairs = zip(self.seconds[OFFICIAL], self.seconds[way], strict=True)
        return [theirs / own for theirs, own in pairs]


def measure(
    setting: Setting, attacks: Mapping[str, LowResolution], classes: list[int], *, turns: int
) -> Iterator[tuple[str, Taken]]:
    """Of each attack the official way and ours; two steps of each, not counted, come first."""
    still = frozen(setting)
    view = view_on(still)
    for name, attack in attacks.items():
        attack = replace(attack, reference_batch=len(classes))
        ways = ways_of(attack, len(classes))
        seconds: dict[str, list[float]] = {way: [] for way in (OFFICIAL, *ways)}
        latents: dict[str, Run | Tensor] = {}

        for turn in range(turns + 1):
            searched = attack if turn else replace(attack, steps=2)
            for way in list(seconds)[:: -1 if turn % 2 else 1]:
                start = time.process_time()
                if way == OFFICIAL:
                    latents[way] = official(setting, searched, classes)
                else:
                    latents[way] = ours(still, view, searched, classes, ways[way])
                if turn:
                    seconds[way].append(time.process_time() - start)
        apart = gap(latents[OFFICIAL], latents[AS_PUBLISHED])
        yield name, Taken(seconds=seconds, apart=apart, apart_double=in_double(setting, attack, classes[:2]))


def in_double(setting: Setting, attack: LowResolution, classes: list[int]) -> float:
    """How far apart both end in double precision."""
    attack = replace(attack, reference_batch=len(classes))
    with double(copy.deepcopy(setting)) as made:
        still = frozen(made)
        return gap(official(made, attack, classes), ours(still, view_on(still), attack, classes, Way(protocol="paper")))


def main() -> None:
    """Print a line per attack and way."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", choices=TARGETS, default="vgg16_bn")
    parser.add_argument("--attacks", choices=STEPS, nargs="+", default=["gmi", "ked"])
    parser.add_argument("--classes", type=int, default=20, help="of a batch (officially 60, and 100 for GMI)")
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    setting = prepare(TARGETS[options.target](), students=Distillation().architectures)
    attacks = {name: attack for name, attack in attacks_of(setting, STEPS).items() if name in options.attacks}
    for name, taken in measure(setting, attacks, list(range(options.classes)), turns=options.turns):
        print(
            f"{name} on {options.target}, {options.classes} classes, {attacks[name].steps} steps: official way "
            f"{statistics.median(taken.seconds[OFFICIAL]):.1f} CPU s; latents {taken.apart:.1g} of their way apart, in "
            f"double precision {taken.apart_double:.1g}"
        )
        for way in [way for way in taken.seconds if way != OFFICIAL]:
            ratios = taken.ratios(way)
            print(
                f"  ours, {way}: {statistics.median(taken.seconds[way]):.1f} CPU s, {statistics.median(ratios):.2f} "
                f"times as fast ({min(ratios):.2f} to {max(ratios):.2f}, {len(ratios)} pairs)",
                flush=True,
            )


if __name__ == "__main__":
    main()
