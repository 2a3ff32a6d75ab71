"""How often an endpoint may be asked, which attacks fit into that, and what is said of those that do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from smoothsweep.core.attacks.registry import make_attack
from smoothsweep.core.data.sources import TEST, list_labelled
from smoothsweep.core.durations import duration
from smoothsweep.core.external.kinds import asked_with, is_outside
from smoothsweep.orchestrator.commands.audit.subject import AuditRequest
from smoothsweep.sweeps.imported import TargetCard

PROTOCOL = "clean"
TEST_FRACTION = 0.1
TRYING = 8
"""Images beside those of `--data` by which an import finds out what a model gives."""


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """Queries that attacks may ask. queries: in all that may be sent, None without bound; reading: those that finding
    out whether the model recognises the data takes; per_second: their pace; people: how many are attacked."""

    queries: int | None
    reading: int
    per_second: float
    people: int

    def needed(self, settings: Mapping[str, Any], *, seeds: int = 1) -> int | None:
        """What an attack asks at most, of all people together; None where nobody states a bound."""
        attack = make_attack(settings["kind"], **{name: value for name, value in settings.items() if name != "kind"})
        each = attack.most_queries(PROTOCOL)
        return None if each is None else seeds * (attack.most_queries_once + each * self.people)

    def kept(self, attacks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The attacks that fit, those that ask least first to be counted; their order stays."""
        if self.queries is None:
            return list(attacks)
        left, kept = self.queries - self.reading, []
        for settings in sorted(attacks, key=self._cost):
            if (cost := self._cost(settings)) <= left:
                left -= cost
                kept.append(settings)
        return [settings for settings in attacks if settings in kept]

    def covers(self, attacks: Sequence[Mapping[str, Any]], *, seeds: int) -> bool:
        """Whether all of these can be asked for with so many seeds."""
        if self.queries is None:
            return True
        return self.reading + sum(self._cost(settings) for settings in attacks) * seeds <= self.queries

    def seconds(self, attacks: Sequence[Mapping[str, Any]], *, seeds: int) -> float:
        """How long asking takes at the agreed pace, of all attacks and seeds; 0 where there is none."""
        if self.queries is None:
            return 0.0
        return sum(self._cost(settings) for settings in attacks) * seeds / self.per_second

    def left_out(self, attacks: Sequence[dict[str, Any]]) -> tuple[str, ...]:
        """A sentence for each attack that does not fit: its name, what it needs, and what to say to try it."""
        kept = self.kept(attacks)
        return tuple(self._sentence(settings, kept) for settings in attacks if settings not in kept)

    def _sentence(self, settings: dict[str, Any], kept: Sequence[dict[str, Any]]) -> str:
        attack = make_attack(settings["kind"], **{name: value for name, value in settings.items() if name != "kind"})
        each, cost = attack.most_queries(PROTOCOL) or 0, self._cost(settings)
        whole = self.reading + cost + sum(self._cost(one) for one in kept)
        return (
            f"Not tried: {attack.words}, which may ask {cost:,} queries for {self.people} people ({each:,} a person); "
            f"--queries {self.queries} does not allow it. The same command with --queries {_rounded(whole)} tries it, "
            f"in about {duration(cost / self.per_second)} at {self.per_second:g} a second."
        )

    def _cost(self, settings: Mapping[str, Any]) -> int:
        return self.needed(settings) or 0


def allowance_of(request: AuditRequest, card: TargetCard) -> Allowance:
    """What an audit may ask its model: of an endpoint what was agreed, of any other as much as it takes."""
    people = min(request.people, card.num_classes)
    kind = asked_with(card.architecture if is_outside(card.architecture) else None, request.options, request.model)
    agreed = None if kind is None else kind.budget
    if agreed is None:
        return Allowance(queries=None, reading=0, per_second=1.0, people=people)
    reading = TRYING + 2 * tested(request)  # as the import shows them, and as the sweep keeps them
    return Allowance(queries=agreed.queries, reading=reading, per_second=agreed.per_second, people=people)


def tested(request: AuditRequest) -> int:
    """How many images of `--data` show whether the model recognises people: those for testing, or a tenth of all."""
    entries, _ = list_labelled(request.data)
    stated = sum(entry.split == TEST for entry in entries)
    return stated or ceil(TEST_FRACTION * len(entries))


def _rounded(queries: int) -> int:
    """Up to two digits that count."""
    step = 10 ** max(0, len(str(queries)) - 2)
    return -(-queries // step) * step
