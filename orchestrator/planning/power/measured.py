"""What the recipes in a store have varied by: components from its finished trials."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from smoothsweep.core.attacks.registry import ATTACKS
from smoothsweep.core.checks import present
from smoothsweep.core.errors import ArtifactDamaged
from smoothsweep.core.judges.base import RECONSTRUCTIONS
from smoothsweep.core.metrics.components import Components, components_of
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.core.metrics.verdicts import LEAST_POOLED, LEAST_SEEDS
from smoothsweep.core.readers.tables import read_rows
from smoothsweep.orchestrator.stages.stage import Stage, canonical_json
from smoothsweep.orchestrator.store.common.base import Store
from smoothsweep.orchestrator.store.common.sealing import Damage

READ_AT_MOST = 200  # judged trials: the newest tell enough
PER_CLASS = "per_class.parquet"

Rates = Mapping[object, float]  # class -> fraction of its images that the judge accepts
Met = dict[str, dict[str, dict[int, Rates]]]  # attack -> recipe -> seed -> rates
Data = tuple[str, int, str]  # fingerprint of the private images, images of each class, and who judges them


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Components and what they are from.

    Attributes:
        components: Components in the unit of the leak.
        trials: How many finished trials they rest on; 0 for the defaults.
        same_data: Whether these trials attacked the people of the sweep.
    """

    components: Components
    trials: int = 0
    same_data: bool = True


def measured(store: Store, leak: Metric, data: str | None) -> Measured | None:
    """Components of the leak in the newest finished trials of the store; None where they are too few.

    data: fingerprint of the sweep's private images. Trials on these are preferred to others, which are never mixed in.
    """
    by_data: dict[Data, Met] = defaultdict(lambda: defaultdict(lambda: defaultdict(dict)))
    history = _Judged(store)
    for path in store.newest_manifests(present(leak.stage, "stage of the leak"), READ_AT_MOST):
        if (judged := history.trial(path.parent.parent.name, path.parent.name, leak.key)) is not None:
            of, attack, recipe, seed, rates = judged
            by_data[of][attack][recipe][seed] = rates
    ranked = [(of[0] == data, *pooled) for of, met in by_data.items() if (pooled := _pooled(met, of[1])) is not None]
    if not ranked:
        return None
    same, freedom, trials, components = max(ranked, key=lambda item: item[:3])
    return Measured(components=components, trials=trials, same_data=same) if freedom >= LEAST_POOLED else None


def _pooled(met: Met, images: int) -> tuple[int, int, Components] | None:
    """(degrees of freedom of the seeds, trials, components) over the attacks of one set of people."""
    known = [
        (cells, components_of(cells, images=images))
        for of_recipe in met.values()
        if (cells := block(of_recipe)) is not None
    ]
    if not known:
        return None
    freedoms = [(len(cells) - 1) * (cells.shape[2] - 1) for cells, _ in known]

    def pooled(name: str) -> float:
        squares = [getattr(components, name) ** 2 for _, components in known]
        return math.sqrt(np.average(squares, weights=freedoms))

    image = None if any(components.image is None for _, components in known) else pooled("image")
    components = Components(seed=pooled("seed"), person=pooled("person"), cell=pooled("cell"), image=image)
    return max(freedoms), sum(len(cells) * cells.shape[2] for cells, _ in known), components


def block(met: Mapping[str, Mapping[int, Rates]]) -> np.ndarray | None:
    """[recipes, 1, seeds, classes] of recipes that share their seeds and classes, with most degrees of freedom; None
    where fewer than two recipes share two seeds and two classes.

    met: recipe -> seed -> rates by class.
    """
    counts: dict[int, int] = defaultdict(int)
    for seeds in met.values():
        for seed in seeds:
            counts[seed] += 1
    ordered = sorted(counts, key=lambda seed: (-counts[seed], seed))
    best: tuple[int, Sequence[str], Sequence[int]] = (0, (), ())
    for many in range(LEAST_SEEDS, len(ordered) + 1):
        chosen = ordered[:many]
        recipes = [recipe for recipe, seeds in met.items() if seeds.keys() >= set(chosen)]
        best = max(best, ((len(recipes) - 1) * (many - 1), recipes, chosen), key=lambda item: item[0])
    _, recipes, seeds = best
    every = [met[recipe][seed] for recipe in recipes for seed in seeds]
    classes = sorted(set.intersection(*(set(rates) for rates in every)), key=str) if every else []
    if len(classes) < 2:
        return None
    flat = np.array([[rates[label] for label in classes] for rates in every], dtype=np.float64)
    return flat.reshape(len(recipes), 1, len(seeds), len(classes))


class _Judged:
    """Reads judged trials of a store, every stage once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._stages: dict[tuple[str, str], Stage | None] = {}

    def trial(self, kind: str, fingerprint: str, column: str) -> tuple[Data, str, str, int, Rates] | None:
        """(people and images, attack, recipe, seed, rates) of a judge's artifact; None for what is no such trial."""
        try:
            judge = present(self._stage(kind, fingerprint), "stage")
            attack = judge.inputs[RECONSTRUCTIONS].inputs["attack"]
            target = attack.inputs["target"]
            people = target.inputs["data"].fingerprint, int(attack.config["selected"]), _without_seed(judge)
            _, seed = attack.config["seed"]
            if ATTACKS[attack.config["kind"]].control:
                return None
            return people, _without_seed(attack), _without_seed(target), int(seed), self._rates(judge, column)
        except (AttributeError, KeyError, TypeError, ValueError, OSError, ArtifactDamaged):
            return None  # of an earlier version, deleted meanwhile, or damaged: a trial less to learn from

    def _stage(self, kind: str, fingerprint: str) -> Stage | None:
        """The stage of a manifest, None where it is gone or another version would make another one."""
        key = kind, fingerprint
        if key not in self._stages:
            self._stages[key] = None  # also while it is read: it may name itself
            try:
                manifest = self._store.manifest_of(kind, fingerprint)
                sources = manifest["inputs"].items()
                inputs = {
                    role: present(self._stage(source["stage"], source["fingerprint"]), role) for role, source in sources
                }
                stage = Stage(name=kind, config=manifest["config"], inputs=inputs)
                self._stages[key] = stage if stage.fingerprint == fingerprint else None
            except (OSError, Damage, ValueError, KeyError, AttributeError, TypeError, RecursionError):
                return None
        return self._stages[key]

    def _rates(self, judge: Stage, column: str) -> Rates:
        """Raises ValueError for what are no rates."""
        path = self._store.needed_file(judge, PER_CLASS)
        rows = read_rows(path, ["class", column])
        rates = dict(zip(rows["class"].tolist(), rows[column].tolist(), strict=True))
        if not all(isinstance(rate, float) and 0 <= rate <= 1 for rate in rates.values()):
            raise ValueError(f"{path}: expected rates, got something else")
        return rates


def _without_seed(stage: Stage) -> str:
    config = {key: value for key, value in stage.config.items() if key != "seed"}
    return canonical_json([stage.name, config])
