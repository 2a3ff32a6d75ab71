"""What a sweep can tell: the smallest difference between recipes, what detects a smaller one, its membership attacks.

Differences are fractions. What recipes vary by is taken from finished trials of the store, else from the quickstart.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from smoothsweep.core.attacks.registry import ATTACKS
from smoothsweep.core.checks import present
from smoothsweep.core.data.sources import count_labelled
from smoothsweep.core.errors import ArtifactDamaged, InputError
from smoothsweep.core.judges.base import RECONSTRUCTIONS
from smoothsweep.core.judges.columns import BY_KEY, CLASS_METRICS
from smoothsweep.core.judges.membership import Membership
from smoothsweep.core.judges.table import JUDGES, stage_of
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.core.metrics.power import (
    MOST_SEEDS,
    POWER,
    QUICKSTART,
    Components,
    Design,
    components_of,
    planned,
    seeds_to_detect,
)
from smoothsweep.core.metrics.verdicts import LEAST_POOLED, LEAST_SEEDS
from smoothsweep.core.readers.tables import read_rows
from smoothsweep.orchestrator.planning.costs import stored_stage
from smoothsweep.orchestrator.planning.plan import Plan
from smoothsweep.orchestrator.planning.trial import recipe_of
from smoothsweep.orchestrator.stages.stage import Stage, canonical_json
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.expand import Cell, LoadedSweep
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.parts import CLASSES, LabelledData
from smoothsweep.sweeps.schema import InversionSweep, known_classes
from smoothsweep.tasks.settings import test_count

TELL = 0.1
"""The difference that is asked about where the user asks about none, a fraction."""
STEP = 1.05  # between the numbers of classes that are looked at
READ_AT_MOST = 200  # judged trials: the newest tell enough
PER_CLASS = "per_class.parquet"

Rates = Mapping[object, float]  # class -> fraction of its images that the judge accepts
Met = dict[str, dict[str, dict[int, Rates]]]  # attack -> recipe -> seed -> rates
Data = tuple[str, int, str]  # fingerprint of the private images, images of each class, and who judges them


class Size(NamedTuple):
    """What a sweep compares: the design, how many classes the data have, the metric that recipes are compared by."""

    design: Design
    available: int
    leak: Metric


class Variation(NamedTuple):
    """Components in the unit of the leak; how many finished trials they rest on, 0 for the defaults; and whether these
    attacked the people of the sweep."""

    components: Components
    trials: int = 0
    same_data: bool = True


def power_of(
    loaded: LoadedSweep, plan: Plan | None = None, store: Store | None = None, tell: float | None = None
) -> dict[str, Any] | None:
    """What a sweep can tell, and which would tell more, as JSON values; differences are fractions.

    None of a sweep without an attack, of which there is nothing to say. plan, store: without them by the components of
    the quickstart. tell: the difference that the user asks about; raises InputError where the sweep can tell none.
    """
    settings = loaded.sweep
    if tell is None and not (isinstance(settings, InversionSweep) and settings.attack):
        return None
    trials = [] if plan is None else [trial for trial in plan.trials if trial.phase == "sweep"]
    cells = list({id(trial.cell): trial.cell for trial in trials}.values())
    forecast, recipes = None if plan is None else plan.forecast, None
    if forecast is not None and forecast.steps and not forecast.looks:  # looks add no recipes
        *_, (further, _), _ = forecast.steps  # those that meet the whole attack; the last step audits again
        recipes = further + len({canonical_json(recipe_of(cell.values)) for cell in cells})
    where = f"--tell {100 * tell:g}" if tell else "power"
    try:
        size = size_of(loaded, cells or loaded.cells, recipes=recipes)
        now = size.design.checked(where)
    except InputError as error:
        reason = str(error).removeprefix(f"{where}: ")
        if tell:
            raise InputError(f"{where}: {reason}") from None
        return {"tells": None, "reason": reason}
    found = None
    if plan is not None and store is not None:
        samples = () if forecast is None else (sample for _, samples in forecast.steps for sample in samples)
        stages = plan.stages or [stage for sample in samples for stage in sample]
        attack = next((stage for stage in stages if stage.name == "attack" and "target" in stage.inputs), None)
        people = None if attack is None else attack.inputs["target"].inputs["data"].fingerprint
        found = measured(store, size.leak, people)
    known, limit = found or Variation(components=QUICKSTART), tell or TELL
    power = planned(known.components, now)
    return {
        "tells": power.tells,
        "half_width": power.half,
        "standard_error": power.error,
        "power": POWER,
        **asdict(now),
        "classes_available": size.available,
        "leak": size.leak.key,
        "components": {**asdict(known.components), "trials": known.trials, "same_data": known.same_data},
        "to_tell": {
            "difference": limit,
            "sweep": _smallest(size, known.components, limit),
            "seeds_with_these_classes": seeds_to_detect(known.components, now, limit),
        }
        if tell is not None or power.tells > limit
        else None,
    }


def _smallest(size: Size, components: Components, difference: float) -> dict[str, Any] | None:
    """The sweep of fewest seeds x classes that tells a difference; None where there are too few classes."""
    steps, number, best = {size.design.classes, size.available}, 2.0, None
    while number < size.available:
        steps.add(int(number))
        number = max(number * STEP, number + 1)
    for classes in sorted(steps, reverse=True):
        design = replace(size.design, classes=classes)
        most = MOST_SEEDS if best is None else min(MOST_SEEDS, best.seeds * best.classes // classes)
        if planned(components, replace(design, seeds=most)).tells > difference:
            continue  # asked first: few numbers of classes do better than those before
        if (seeds := seeds_to_detect(components, design, difference, most=most)) is not None:
            best = replace(design, seeds=seeds)
    if best is None:
        return None
    tells = planned(components, best).tells
    return {"seeds": best.seeds, "classes": best.classes, "images": best.images, "tells": tells}


def power_lines(power: dict[str, Any]) -> list[str]:
    """What a sweep can tell, for a terminal."""
    if power["tells"] is None:
        return [f"this sweep can detect no difference between recipes: {power['reason']}"]
    known, classes, available = power["components"], power["classes"], power["classes_available"]
    source = "as in the quickstart: no finished trials to estimate them from"
    if known["trials"]:
        source = f"from {known['trials']} trials of this store{'' if known['same_data'] else ' on other data'}"
    points, smallest = 100 * power["tells"], "no difference"
    if points < 100:
        told = math.ceil(points) if points >= 10 else math.ceil(10 * points) / 10  # what is said to be told is told
        smallest = f"differences of {told:g} points or more"
    lines = [
        f"with {power['seeds']} seeds and {classes} classes this sweep can detect {smallest} "
        f"(power {100 * power['power']:.0f} %; spreads {source})"
    ]
    if (asked := power["to_tell"]) is not None:
        start, no_number = f"for {100 * asked['difference']:g} points:", f"no number of seeds up to {MOST_SEEDS}"
        if (design := asked["sweep"]) is None:
            lines.append(f"{start} {no_number} detects them with the {available} classes of the data")
        else:
            alone = asked["seeds_with_these_classes"]
            limit = f"; the data have no more than {available} classes" if design["classes"] == available else ""
            seeds = f" (with {classes} classes: {no_number if alone is None else f'{alone} seeds'}{limit})"
            beside = "" if design["classes"] == classes else seeds
            lines.append(f"{start} {design['seeds']} seeds x {design['classes']} classes{beside}")
    if classes == available:
        lines.append(f"more classes: none, all {classes} of the data are attacked")
    return lines


def size_of(loaded: LoadedSweep, cells: Iterable[Cell], *, recipes: int | None = None) -> Size:
    """The size of a sweep with these cells, one for every recipe and attack.

    recipes: how many there will be, where the cells do not hold all of them.

    Raises InputError where recipes are not compared by a leak of classes, or the number of classes is not known yet.
    """
    counted = [
        (cell, settings, attack)
        for cell in cells
        if isinstance(settings := cell.settings, InversionSweep) and (attack := settings.attack)
        if not attack.built.control
    ]
    if not counted:
        raise InputError("no attack is compared")
    settings = counted[0][1]
    # The first metric of classes that a judge of the sweep measures.
    metrics = (BY_KEY[key] for key in CLASS_METRICS)
    leak = next((metric for metric in metrics if getattr(settings.judges, metric.measured_by or "", None)), None)
    if leak is None:
        raise InputError("no judge counts hits by class")
    there = known = known_classes(settings)  # counted without reading a picture
    if not isinstance(settings.recipe, ImportedClassifier):
        data = settings.data
        there = CLASSES.get(data.kind, known)
        if isinstance(data, LabelledData) and (path := Path(data.path).expanduser()).exists():
            there = count_labelled(path).classes
    if there is None:
        raise InputError("the number of classes is not known before the data are there")
    trained = there if known is None else known
    parts = [(recipe_of(cell.values), cell.values) for cell, *_ in counted]
    design = Design(
        seeds=len(loaded.sweep.every_seed),
        classes=trained if settings.classes == "all" else len(settings.classes),
        recipes=recipes or len({canonical_json(recipe) for recipe, _ in parts}),
        attacks=len({canonical_json([item for item in all_.items() if item[0] not in mine]) for mine, all_ in parts}),
        images=min(attack.selected for *_, attack in counted),
    )
    return Size(design=design, available=max(there, trained), leak=leak)


def measured(store: Store, leak: Metric, data: str | None) -> Variation | None:
    """Components of the leak in the newest finished trials of the store; None where they are too few.

    data: fingerprint of the sweep's private images. Trials on these are preferred to others, which are never mixed in.
    """
    by_data: dict[Data, Met] = defaultdict(lambda: defaultdict(lambda: defaultdict(dict)))
    known: dict[str, Stage] = {}
    for manifest in store.newest(present(leak.stage, "stage of the leak"), READ_AT_MOST):
        judge = stored_stage(store, manifest["stage"], manifest["fingerprint"], known)
        # Of an earlier version, deleted meanwhile, or damaged: a trial less to learn from.
        with suppress(AttributeError, KeyError, TypeError, ValueError, OSError, ArtifactDamaged):
            attack = judge.inputs[RECONSTRUCTIONS].inputs["attack"]
            target, (_, seed) = attack.inputs["target"], attack.config["seed"]
            of = target.inputs["data"].fingerprint, int(attack.config["selected"]), _without_seed(judge)
            if ATTACKS[attack.config["kind"]].control or judge.fingerprint != manifest["fingerprint"]:
                continue
            rows = read_rows(store.needed_file(judge, PER_CLASS), ["class", leak.key])
            rates = dict(zip(rows["class"].tolist(), rows[leak.key].tolist(), strict=True))
            if all(isinstance(rate, float) and 0 <= rate <= 1 for rate in rates.values()):
                by_data[of][_without_seed(attack)][_without_seed(target)][int(seed)] = rates
    ranked = [(of[0] == data, *pooled) for of, met in by_data.items() if (pooled := _pooled(met, of[1])) is not None]
    if not ranked:
        return None
    same, freedom, trials, components = max(ranked, key=lambda item: item[:3])
    return Variation(components=components, trials=trials, same_data=same) if freedom >= LEAST_POOLED else None


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
    counts = Counter(seed for seeds in met.values() for seed in seeds)
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


def _without_seed(stage: Stage) -> str:
    config = {key: value for key, value in stage.config.items() if key != "seed"}
    return canonical_json([stage.name, config])


def membership_of_plan(stages: Sequence[Stage]) -> dict[str, Any] | None:
    """Of a plan with membership attacks their limits: shadow models of a recipe, answers of them with and without each
    image, test images, and the smallest false positive rate where their number is known."""
    name = next(stage_of(name) for name, kind in JUDGES.items() if kind is Membership)
    judge = next((stage for stage in stages if stage.name == name), None)
    if judge is None:
        return None
    settings = {"shadows": Membership.shadows, "share": Membership.share, **judge.config["settings"]}
    others = test_count({**judge.inputs["data"].config, **judge.inputs["data"].hints})
    inside = round(settings["shadows"] * settings["share"])
    return {
        "shadows": settings["shadows"],
        "with_image": inside,
        "without_image": settings["shadows"] - inside,
        "test_images": others,
        "smallest_fpr": None if others is None else 1 / others,
    }


def membership_line(limits: dict[str, Any]) -> str:
    """The limits of the membership attacks for a terminal."""
    rate = "the number of test images, known once the data are read"
    if limits["smallest_fpr"] is not None:
        smallest = f"{100 * limits['smallest_fpr']:.3g} %"
        rate = f"{limits['test_images']:,} test images show no false positive rate below {smallest}"
    shadows = "no shadow models: thresholds and labels alone"
    if limits["shadows"]:
        shadows = (
            f"{limits['shadows']} shadow models per recipe give each image "
            f"about {limits['with_image']} answers with it and {limits['without_image']} without"
        )
    return f"membership: {rate}; {shadows}"
