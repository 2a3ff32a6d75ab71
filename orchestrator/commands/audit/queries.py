"""The query budget of an endpoint: which attacks fit into it, and a sentence on each that does not."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from smoothsweep.core.attacks.registry import make_attack
from smoothsweep.core.attacks.shared.base import Access, Attack, Part
from smoothsweep.core.data.sources import TEST, TRAIN, Counted
from smoothsweep.core.external.base import Budget
from smoothsweep.core.judges.membership import Membership
from smoothsweep.core.text import duration
from smoothsweep.orchestrator.commands.audit.portfolio import portfolio

PROTOCOL = "clean"
OWN: Mapping[str, Any] = {"trained_on_data": True}
"""Settings of the judge of membership for a model trained on the training images of `--data`."""

TEST_FRACTION = 0.1
TRYING = 8
"""Images, besides those of `--data`, that an import sends to find out what a model answers."""

LEAST_DRAWN = 20
"""Fewest training images, and fewest test images, whose labels are queried: fewer show nothing."""


@dataclass(frozen=True, kw_only=True)
class MembershipQueries:
    """The queries that measuring membership takes.

    Attributes:
        settings: Settings of the judge of membership; None where it is not measured.
        queries: The most that it sends.
        unbounded: The most that it would send without a limit by --queries.
        coming: Lines to print before they are sent.
        left_out: Why membership is not measured although it was asked for.
    """

    settings: Mapping[str, Any] | None = None
    queries: int = 0
    unbounded: int = 0
    coming: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """The query budget of an audit.

    The attack with the fewest queries runs first, then membership, then the other attacks.

    Attributes:
        queries: The most that may be sent in all; None without bound.
        reading: Queries that test whether the model recognises the data.
        per_second: Queries sent per second.
        people: How many people are attacked.
        membership: The queries of membership, sent once for all seeds.
    """

    queries: int | None
    reading: int
    per_second: float
    people: int
    membership: MembershipQueries = MembershipQueries()

    @property
    def fixed(self) -> int:
        """Number of queries besides those of the attacks."""
        return self.reading + self.membership.queries

    def queries_of(self, attacks: Iterable[Mapping[str, Any]], *, seeds: int = 1) -> int:
        """The most queries that attacks send, over all people and seeds.

        Parts that several attacks share, such as a pool, count once. An attack that states no bound counts as 0.
        """
        total, shared = 0, list[tuple[Part, ...]]()
        for settings in attacks:
            attack = _made(settings)
            each = attack.most_queries(PROTOCOL)
            if each is None:
                continue
            total += each * self.people
            if attack.parts not in shared:
                shared.append(attack.parts)
                total += attack.most_queries_once
        return seeds * total

    def fitting(self, attacks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The attacks that fit into the budget, chosen from the fewest queries upwards, in their given order."""
        if self.queries is None:
            return list(attacks)
        left, kept = self.queries - self.fixed, list[dict[str, Any]]()
        for settings in sorted(attacks, key=self._cost):
            if self.queries_of([*kept, settings]) <= left:
                kept.append(settings)
        return [settings for settings in attacks if settings in kept]

    def covers(self, attacks: Sequence[Mapping[str, Any]], *, seeds: int) -> bool:
        """Whether the budget is enough for all of these attacks with so many seeds."""
        if self.queries is None:
            return True
        return self.fixed + self.queries_of(attacks, seeds=seeds) <= self.queries

    def seconds(self, attacks: Sequence[Mapping[str, Any]], *, seeds: int) -> float:
        """Seconds that the queries of all attacks and seeds take at the agreed pace; 0 without a limit."""
        if self.queries is None:
            return 0.0
        return self.queries_of(attacks, seeds=seeds) / self.per_second

    def left_out(self, attacks: Sequence[dict[str, Any]]) -> tuple[str, ...]:
        """A sentence for each attack that does not fit: its name, its queries, and the option that would allow it."""
        kept = self.fitting(attacks)
        ordered = sorted(attacks, key=self._cost)
        return tuple(
            self._sentence(settings, ordered[: ordered.index(settings) + 1], kept)
            for settings in attacks
            if settings not in kept
        )

    def _sentence(
        self, settings: dict[str, Any], until: Sequence[dict[str, Any]], kept: Sequence[dict[str, Any]]
    ) -> str:
        """Why an attack does not fit. until: the attacks that a larger budget is spent on first, this one the last."""
        attack = _made(settings)
        each, cost = attack.most_queries(PROTOCOL) or 0, self._cost(settings)
        whole = self.reading + self.membership.unbounded + self.queries_of(until)
        further = self.queries_of(until) - self.queries_of(one for one in until if one in kept)
        after = " after those that ask less" if sum(one not in kept for one in until) > 1 else ""
        return (
            f"Not tried: {attack.words}, which may ask {cost:,} queries for {self.people} people ({each:,} a person); "
            f"--queries {self.queries} does not allow it. The same command with --queries {_rounded(whole)} tries it"
            f"{after}, in about {duration(further / self.per_second)} at {self.per_second:g} a second."
        )

    def _cost(self, settings: Mapping[str, Any]) -> int:
        return self.queries_of([settings])


def _made(settings: Mapping[str, Any]) -> Attack:
    return make_attack(settings["kind"], **{name: value for name, value in settings.items() if name != "kind"})


def allowance_of(
    agreed: Budget | None, data: Counted, *, attacked: int, access: Access, scores: bool, membership: bool
) -> Allowance:
    """The query budget of an audit: what was agreed for an endpoint, without bound for any other model.

    Args:
        agreed: The user's limits for an endpoint; None for any other model.
        data: How many private images each person has.
        attacked: Number of people to attack.
        access: What the attacker sees.
        scores: Whether the model answers with scores.
        membership: Whether membership is asked for.
    """
    if agreed is None:
        settings = {**OWN} if membership else None
        measured = MembershipQueries(settings=settings)
        return Allowance(queries=None, reading=0, per_second=1.0, people=attacked, membership=measured)
    reading = TRYING + 2 * tested(data)  # as the import shows them, and as the sweep keeps them
    allowance = Allowance(queries=agreed.queries, reading=reading, per_second=agreed.per_second, people=attacked)
    if not membership:
        return allowance
    every = portfolio(access, whole=False)

    def before(queries: int) -> int:
        costs = sorted(allowance.queries_of([one]) for one in replace(allowance, queries=queries).fitting(every))
        return reading + next((cost for cost in costs if cost), 0)

    measured = _membership(allowance, before, (data.of(TRAIN), data.of(TEST)), scores=scores)
    return replace(allowance, membership=measured)


def _membership(
    allowance: Allowance, before: Callable[[int], int], images: tuple[int, int], *, scores: bool
) -> MembershipQueries:
    """Fit membership into the query budget, asking for the labels of as many images as it allows.

    Args:
        before: Maps a budget to the queries that are sent before membership.
        images: Number of training images and of test images.
        scores: Whether the model answers with scores.
    """

    def cost(drawn: int | None) -> int:
        return Membership(**OWN, images=drawn).most_pictures(*images, scores=scores)

    def takes(queries: int) -> str:
        return f"about {duration(queries / allowance.per_second)} at {allowance.per_second:g} a second"

    agreed, drawn = allowance.queries or 0, None
    if before(agreed) + cost(None) > agreed:
        fitting = bisect_right(range(LEAST_DRAWN, max(images)), agreed - before(agreed), key=cost)
        if not fitting:
            enough = _rounded(before(agreed) + cost(None))
            while (needed := before(enough) + cost(None)) > enough:  # of more that are allowed attacks take their part
                enough = _rounded(needed)
            return MembershipQueries(
                unbounded=cost(None),
                left_out=(
                    f"Not measured: membership, which may ask {cost(None):,} queries for {sum(images):,} images "
                    f"({cost(LEAST_DRAWN):,} where labels are asked of {LEAST_DRAWN} training and test images alone); "
                    f"--queries {agreed} does not allow it. The same command with --queries {enough} measures it, in "
                    f"{takes(cost(None))}.",
                ),
            )
        drawn = LEAST_DRAWN + fitting - 1
    return MembershipQueries(
        settings={**OWN, **({} if drawn is None else {"images": drawn})},
        queries=cost(drawn),
        unbounded=cost(None),
        coming=(f"to come: membership: {cost(drawn):,} queries at most, {takes(cost(drawn))}",),
    )


def tested(data: Counted) -> int:
    """Number of images that test whether the model recognises people: the test images, or a tenth of all."""
    return data.of(TEST) or ceil(TEST_FRACTION * data.pictures.total())


def _rounded(queries: int) -> int:
    """Round up to two significant digits."""
    step = 10 ** max(0, len(str(queries)) - 2)
    return -(-queries // step) * step
