"""What an audit may ask of an endpoint, and how long its steps will take."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil
from typing import Any

import torch

from smoothsweep.core.allotted import allotted_cpus
from smoothsweep.core.attacks.registry import make_attack
from smoothsweep.core.attacks.shared.base import Access, Part
from smoothsweep.core.checks import present
from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.data.sources import TEST, TRAIN, Counted
from smoothsweep.core.external.base import Budget
from smoothsweep.core.judges.membership import Membership
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.models.recipe import TrainingRecipe
from smoothsweep.core.text import duration
from smoothsweep.core.training.classifier import train_classifier
from smoothsweep.orchestrator.commands.audit.sweep_file import as_loaded, portfolio
from smoothsweep.orchestrator.planning.plan import make_plan
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.tasks.settings import recipe_from
from smoothsweep.tasks.target import PART

PROTOCOL = "clean"
OWN: Mapping[str, Any] = {"trained_on_data": True}
"""Settings of the judge of membership for a model trained on the training images of `--data`."""

TEST_FRACTION = 0.1
TRYING = 8
"""Images, besides those of `--data`, that an import sends to find out what a model answers."""

LEAST_DRAWN = 20
"""Fewest training images, and fewest test images, whose labels are queried: fewer show nothing."""


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """The query budget of an audit.

    The attack with the fewest queries runs first, then membership, which is asked once for all seeds, then the others.

    Attributes:
        queries: The most that may be sent in all; None without bound.
        reading: Queries that test whether the model recognises the data.
        people: How many people are attacked.
        membership: Settings of its judge; None where it is not measured.
        measuring: The most queries that measuring membership sends.
        unbounded: The most that it would send without a limit by --queries.
        unmeasured: Why membership is not measured although it was asked for.
    """

    queries: int | None = None
    reading: int = 0
    per_second: float = 1.0
    people: int
    membership: Mapping[str, Any] | None = None
    measuring: int = 0
    unbounded: int = 0
    unmeasured: tuple[str, ...] = ()

    def queries_of(self, attacks: Iterable[Mapping[str, Any]], *, seeds: int = 1) -> int:
        """The most queries that attacks send, over all people and seeds.

        Parts that several attacks share, such as a pool, count once. An attack that states no bound counts as 0.
        """
        total, shared = 0, list[tuple[Part, ...]]()
        for attack in (make_attack(**settings) for settings in attacks):
            if (each := attack.most_queries(PROTOCOL)) is not None:
                total += each * self.people
                if attack.parts not in shared:
                    shared.append(attack.parts)
                    total += attack.most_queries_once
        return seeds * total

    def fitting(self, attacks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The attacks that fit into the budget, chosen from the fewest queries upwards, in their given order."""
        kept = list[dict[str, Any]]()
        for settings in self._cheapest_first(attacks):
            if self.covers([*kept, settings]):
                kept.append(settings)
        return [settings for settings in attacks if settings in kept]

    def covers(self, attacks: Sequence[Mapping[str, Any]], *, seeds: int = 1) -> bool:
        """Whether the budget is enough for all of these attacks with so many seeds, beside reading and membership."""
        fixed = self.reading + self.measuring
        return self.queries is None or fixed + self.queries_of(attacks, seeds=seeds) <= self.queries

    def takes(self, queries: int) -> str:
        """How long so many queries take, in words."""
        return f"about {duration(queries / self.per_second)} at {self.per_second:g} a second"

    def left_out(self, attacks: Sequence[dict[str, Any]]) -> tuple[str, ...]:
        """A sentence for each attack that does not fit: its name, its queries, and the option that would allow it."""
        kept, ordered, lines = self.fitting(attacks), self._cheapest_first(attacks), []
        for settings in (one for one in attacks if one not in kept):
            until = ordered[: ordered.index(settings) + 1]  # a larger budget is spent on these, this one the last
            attack, asked = make_attack(**settings), self.queries_of(until)
            each, cost = attack.most_queries(PROTOCOL) or 0, self.queries_of([settings])
            more = asked - self.queries_of(one for one in until if one in kept)
            after = " after those that ask less" if sum(one not in kept for one in until) > 1 else ""
            lines.append(
                f"Not tried: {attack.words}, which may ask {cost:,} queries for {self.people} people ({each:,} a "
                f"person); --queries {self.queries} does not allow it. The same command with --queries "
                f"{_rounded(self.reading + self.unbounded + asked)} tries it{after}, in {self.takes(more)}."
            )
        return tuple(lines)

    def _cheapest_first(self, attacks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        return sorted(attacks, key=lambda settings: self.queries_of([settings]))


def allowance_of(
    agreed: Budget | None, data: Counted, *, attacked: int, access: Access, scores: bool, membership: bool
) -> Allowance:
    """The query budget of an audit: what was agreed for an endpoint, without bound for any other model.

    Membership asks for the labels of as many images as the budget leaves after the cheapest attack.

    Args:
        agreed: The user's limits for an endpoint; None for any other model.
        data: How many private images each person has.
        attacked: Number of people to attack.
        scores: Whether the model answers with scores.
        membership: Whether membership is asked for.
    """
    if agreed is None:
        return Allowance(people=attacked, membership=OWN if membership else None)
    images, tested = (data.of(TRAIN), data.of(TEST)), data.of(TEST) or ceil(TEST_FRACTION * data.pictures.total())
    reading = TRYING + 2 * tested  # as the import shows them, and as the sweep keeps them
    allowance = Allowance(queries=agreed.queries, reading=reading, per_second=agreed.per_second, people=attacked)
    if not membership:
        return allowance

    def before(queries: int) -> int:
        """What a budget spends before membership."""
        fitting = replace(allowance, queries=queries).fitting(portfolio(access))
        return reading + min(filter(None, (allowance.queries_of([one]) for one in fitting)), default=0)

    def cost(drawn: int | None) -> int:
        return Membership(**OWN, images=drawn).most_pictures(*images, scores=scores)

    whole, left = cost(None), agreed.queries - before(agreed.queries)
    if whole <= left:
        return replace(allowance, membership=OWN, measuring=whole, unbounded=whole)
    if fitting := bisect_right(range(LEAST_DRAWN, max(images)), left, key=cost):
        drawn = LEAST_DRAWN + fitting - 1
        return replace(allowance, membership={**OWN, "images": drawn}, measuring=cost(drawn), unbounded=whole)
    enough = _rounded(before(agreed.queries) + whole)
    while (needed := before(enough) + whole) > enough:  # of more that are allowed attacks take their part
        enough = _rounded(needed)
    line = (
        f"Not measured: membership, which may ask {whole:,} queries for {sum(images):,} images ({cost(LEAST_DRAWN):,} "
        f"where labels are asked of {LEAST_DRAWN} training and test images alone); --queries {agreed.queries} does not "
        f"allow it. The same command with --queries {enough} measures it, in {allowance.takes(whole)}."
    )
    return replace(allowance, unbounded=whole, unmeasured=(line,))


def _rounded(queries: int) -> int:
    """Round up to two significant digits."""
    step = 10 ** max(0, len(str(queries)) - 2)
    return -(-queries // step) * step


# Time

START_S = 20.0
"""Seconds of a step before its first stage runs and after its last."""

TIMED = 3
"""Timed batches, of which the quickest counts."""

SHADOW_S = 5.0
"""Seconds of a shadow model besides its training: starting the process, reading images, answering."""


def wall_seconds(device_s: float) -> float:
    """Seconds that so many device-seconds take on this machine, whose devices work in parallel."""
    return device_s / (torch.cuda.device_count() if torch.cuda.is_available() else allotted_cpus())


def forecast(tree: dict[str, Any], store: Store) -> tuple[float, float]:
    """Device-seconds of a parsed sweep file: of what the store lacks, as far as that can be told, and of what it holds.

    A stage like a measured one is expected to take as long, a training that was never measured as a few of its steps
    tell, an attack or a judge the mean of the measured ones. The store must hold the data.
    """
    plan = make_plan(trials_of(as_loaded(tree)), store)
    missing = 0.0
    for stage in plan.missing:
        if (measured := plan.history.expected(stage)) is not None:
            missing += measured[0]
        elif stage.name in ("target", "shadow"):
            missing += _training_seconds(stage, store)
        else:
            missing += plan.history.usual(stage.name) or 0.0
    held = (stage for stage in plan.stages if stage.fingerprint in plan.cached)
    return missing, sum(float(store.manifest(stage)["seconds"]) for stage in held)


def _training_seconds(stage: Stage, store: Store) -> float:
    """What a training, or one of a part of the images for a shadow model, is expected to take."""
    data, part = store.metrics(stage.inputs["data"]), stage.config.get(PART)
    train, test, classes = (int(present(data[key], key)) for key in ("num_train", "num_test", "num_classes"))
    return (0.0 if part is None else SHADOW_S) + timed_training(
        recipe_from(stage.config),
        images=train if part is None else round(part["share"] * (train + test)),
        classes=classes,
        side=stage.inputs["data"].config["size"],
        transform_input=bool(stage.config.get("transform_input")),
    )


@lru_cache
def timed_training(
    recipe: TrainingRecipe, *, images: int, classes: int, side: int, transform_input: bool = False
) -> float:
    """Seconds of a plain training of `recipe` on so many images of `side` pixels, on this machine's device.

    Trains on one batch of noise, once to warm up and `TIMED` times, of which the quickest counts; on a CPU in one
    thread, as a stage does. Cached for recipes that differ in their defense alone. Measuring the test accuracy is left
    out.
    """
    count = min(recipe.batch_size, images)
    noise = torch.randint(0, 256, (count, 3, side, side), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    names = tuple(map(str, range(classes)))
    data = ImageSet(images=noise, labels=torch.arange(count) % classes, names=names)
    model = build_classifier(recipe.architecture, classes, protocol=PROTOCOL, transform_input=transform_input)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        records = train_classifier(model, data, replace(recipe, epochs=1 + TIMED), seed=0, device=device)
    finally:
        torch.set_num_threads(threads)
    return min(record.seconds for record in records[1:]) * images / count * recipe.epochs
