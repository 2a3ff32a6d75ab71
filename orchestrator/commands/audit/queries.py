"""How often an endpoint may be asked, which attacks fit into that, and what is said of those that do not."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from smoothsweep.core.attacks.registry import make_attack
from smoothsweep.core.attacks.shared.base import Attack, Part
from smoothsweep.core.audit.portfolio import portfolio
from smoothsweep.core.data.sources import TEST, TRAIN, Counted
from smoothsweep.core.durations import duration
from smoothsweep.core.judges.membership import Membership
from smoothsweep.orchestrator.commands.audit.subject import AuditRequest
from smoothsweep.orchestrator.commands.audit.sweep_file import lesser
from smoothsweep.sweeps.imported import TargetCard

PROTOCOL = "clean"
OWN: Mapping[str, Any] = {"trained_on_data": True}
"""The judge of membership, of a model that was trained on the training images of `--data`."""

TEST_FRACTION = 0.1
TRYING = 8
"""Images beside those of `--data` by which an import finds out what a model gives."""


LEAST_DRAWN = 20
"""Training images, and test images, of which labels are asked at least: fewer show nothing."""


@dataclass(frozen=True, kw_only=True)
class MembershipAsked:
    """What measuring membership asks. settings: of its judge, None where it is not measured; queries: at most;
    unbounded: as many as it would ask if --queries allowed any number; coming: what to say before they are sent;
    left_out: why it is not measured, if it was asked for."""

    settings: Mapping[str, Any] | None = None
    queries: int = 0
    unbounded: int = 0
    coming: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """Queries that attacks may ask. queries: in all that may be sent, None without bound; reading: those that finding
    out whether the model recognises the data takes; per_second: their pace; people: how many are attacked. membership:
    what measuring it asks, once for all seeds; the attack that asks least comes before it, the others after it."""

    queries: int | None
    reading: int
    per_second: float
    people: int
    membership: MembershipAsked = MembershipAsked()

    @property
    def fixed(self) -> int:
        """Queries that no attack asks."""
        return self.reading + self.membership.queries

    def asked(self, attacks: Iterable[Mapping[str, Any]], *, seeds: int = 1) -> int:
        """What attacks ask at most, of all people together. Attacks that begin with the same parts, such as a pool,
        ask about them once; one that states no bound asks nothing."""
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

    def kept(self, attacks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The attacks that fit, those that ask least first to be counted; their order stays."""
        if self.queries is None:
            return list(attacks)
        left, kept = self.queries - self.fixed, list[dict[str, Any]]()
        for settings in sorted(attacks, key=self._cost):
            if self.asked([*kept, settings]) <= left:
                kept.append(settings)
        return [settings for settings in attacks if settings in kept]

    def covers(self, attacks: Sequence[Mapping[str, Any]], *, seeds: int) -> bool:
        """Whether all of these can be asked for with so many seeds."""
        if self.queries is None:
            return True
        return self.fixed + self.asked(attacks, seeds=seeds) <= self.queries

    def seconds(self, attacks: Sequence[Mapping[str, Any]], *, seeds: int) -> float:
        """How long asking takes at the agreed pace, of all attacks and seeds; 0 where there is none."""
        if self.queries is None:
            return 0.0
        return self.asked(attacks, seeds=seeds) / self.per_second

    def left_out(self, attacks: Sequence[dict[str, Any]]) -> tuple[str, ...]:
        """A sentence for each attack that does not fit: its name, what it needs, and what to say to try it."""
        kept = self.kept(attacks)
        ordered = sorted(attacks, key=self._cost)
        return tuple(
            self._sentence(settings, ordered[: ordered.index(settings) + 1], kept)
            for settings in attacks
            if settings not in kept
        )

    def _sentence(
        self, settings: dict[str, Any], until: Sequence[dict[str, Any]], kept: Sequence[dict[str, Any]]
    ) -> str:
        """until: the attacks that a larger budget is spent on first, and this one."""
        attack = _made(settings)
        each, cost = attack.most_queries(PROTOCOL) or 0, self._cost(settings)
        whole = self.reading + self.membership.unbounded + self.asked(until)
        further = self.asked(until) - self.asked(one for one in until if one in kept)
        after = " after those that ask less" if sum(one not in kept for one in until) > 1 else ""
        return (
            f"Not tried: {attack.words}, which may ask {cost:,} queries for {self.people} people ({each:,} a person); "
            f"--queries {self.queries} does not allow it. The same command with --queries {_rounded(whole)} tries it"
            f"{after}, in about {duration(further / self.per_second)} at {self.per_second:g} a second."
        )

    def _cost(self, settings: Mapping[str, Any]) -> int:
        return self.asked([settings])


def _made(settings: Mapping[str, Any]) -> Attack:
    return make_attack(settings["kind"], **{name: value for name, value in settings.items() if name != "kind"})


def allowance_of(request: AuditRequest, card: TargetCard, data: Counted) -> Allowance:
    """What an audit may ask its model: of an endpoint what was agreed, of any other as much as it takes. data: who the
    private images show."""
    people, kind = min(request.people, card.num_classes), request.foreign(card.architecture)
    agreed = None if kind is None else kind.budget
    if agreed is None:
        membership = MembershipAsked(settings={**OWN} if request.trained_on_data else None)
        return Allowance(queries=None, reading=0, per_second=1.0, people=people, membership=membership)
    reading = TRYING + 2 * tested(data)  # as the import shows them, and as the sweep keeps them
    found = Allowance(queries=agreed.queries, reading=reading, per_second=agreed.per_second, people=people)
    if not request.trained_on_data:
        return found
    every = portfolio(lesser(request.access, card.access), whole=False)

    def before(queries: int) -> int:
        costs = sorted(found.asked([one]) for one in replace(found, queries=queries).kept(every))
        return reading + next((cost for cost in costs if cost), 0)

    membership = _membership(found, before, (data.of(TRAIN), data.of(TEST)), scores=card.access != "labels")
    return replace(found, membership=membership)


def _membership(
    allowance: Allowance, before: Callable[[int], int], images: tuple[int, int], *, scores: bool
) -> MembershipAsked:
    """Membership within the budget: labels are asked of as many of the images as it allows.

    before: of so many that are allowed, those that come first; images: for training, for testing.
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
            return MembershipAsked(
                unbounded=cost(None),
                left_out=(
                    f"Not measured: membership, which may ask {cost(None):,} queries for {sum(images):,} images "
                    f"({cost(LEAST_DRAWN):,} where labels are asked of {LEAST_DRAWN} training and test images alone); "
                    f"--queries {agreed} does not allow it. The same command with --queries {enough} measures it, in "
                    f"{takes(cost(None))}.",
                ),
            )
        drawn = LEAST_DRAWN + fitting - 1
    return MembershipAsked(
        settings={**OWN, **({} if drawn is None else {"images": drawn})},
        queries=cost(drawn),
        unbounded=cost(None),
        coming=(f"to come: membership: {cost(drawn):,} queries at most, {takes(cost(drawn))}",),
    )


def tested(data: Counted) -> int:
    """How many images of `--data` show whether the model recognises people: those for testing, or a tenth of all."""
    return data.of(TEST) or ceil(TEST_FRACTION * data.pictures.total())


def _rounded(queries: int) -> int:
    """Up to two digits that count."""
    step = 10 ** max(0, len(str(queries)) - 2)
    return -(-queries // step) * step
