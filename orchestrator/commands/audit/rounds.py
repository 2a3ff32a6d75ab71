"""The rounds of an audit: a first answer, then wider rounds that repeat nothing and add attacks, trainings or seeds.

A round decides which attacks run, how many queries they may send, and which sweep file they make; what it leaves out
for lack of time or queries gets a sentence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from smoothsweep.core.attacks.registry import ATTACKS, make_attack
from smoothsweep.core.attacks.shared.base import Access
from smoothsweep.core.data.sources import Counted, list_unlabelled
from smoothsweep.core.durations import duration
from smoothsweep.orchestrator.commands.audit.forecast import has_membership, is_done
from smoothsweep.orchestrator.commands.audit.portfolio import AuditTraining, Reach, imported_prior, portfolio
from smoothsweep.orchestrator.commands.audit.queries import Allowance, allowance_of
from smoothsweep.orchestrator.commands.audit.shadows import ShadowModels, reference_of
from smoothsweep.orchestrator.commands.audit.subject import AuditRequest
from smoothsweep.orchestrator.commands.audit.sweep_file import audit_sweep, lesser, untried
from smoothsweep.orchestrator.reading.audit.sentences import MOST_SEEDS
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.imported import TargetCard

STORE = "store"
SEEDS = tuple(range(1, MOST_SEEDS + 1))
REACHES: tuple[Reach, ...] = ("quick", "adapted", "whole")
"""Reaches from the fewest attacks to all."""


@dataclass(frozen=True, kw_only=True)
class Round:
    """How much one round of an audit covers.

    Attributes:
        seeds: Seeds of attacks and trainings.
        reach: Which attacks of the portfolio are tried.
        trainings: The models that are trained for comparison: a reference and fixes.
    """

    seeds: tuple[int, ...]
    reach: Reach
    trainings: tuple[AuditTraining, ...] = ()

    @property
    def further(self) -> Round | None:
        """The round with one more seed; None where all seeds are used."""
        return replace(self, seeds=SEEDS[: len(self.seeds) + 1]) if len(self.seeds) < len(SEEDS) else None

    def beyond(self, done: Round) -> Round:
        """The union of this round and an earlier one, so that no earlier answer disappears."""
        added = tuple(one for one in self.trainings if one not in done.trainings)
        return Round(
            seeds=SEEDS[: max(len(self.seeds), len(done.seeds))],
            reach=max(self.reach, done.reach, key=REACHES.index),
            trainings=(*done.trainings, *added),
        )


FIRST = Round(seeds=SEEDS[:1], reach="quick")


def refinements(access: str, trainings: tuple[AuditTraining, ...] = (), *, seeds: int = 1) -> Iterator[Round]:
    """The rounds after the first answer, in order: trainings, the requested seeds, slower attacks, more seeds."""
    reach: Reach = "adapted" if trainings else "quick"
    if trainings:
        yield Round(seeds=SEEDS[:1], reach=reach, trainings=trainings)
    for many in range(2, seeds + 1):
        yield Round(seeds=SEEDS[:many], reach=reach, trainings=trainings)
    if len(portfolio(access, whole=True)) > len(portfolio(access, whole=False, adapted=bool(trainings))):
        yield Round(seeds=SEEDS[:seeds], reach="whole", trainings=trainings)
    for many in range(seeds + 1, len(SEEDS) + 1):
        yield Round(seeds=SEEDS[:many], reach="whole", trainings=trainings)


def round_of(tree: dict[str, Any], access: str, wanted: Sequence[AuditTraining]) -> Round:
    """The round that a sweep file of an audit covers, recognised by its seeds, attacks and recipes.

    Args:
        tree: The parsed sweep file.
        access: What the attacker sees.
        wanted: The trainings to look for. A file with attacks of unknown settings, as an earlier version wrote them,
            counts as the widest reach.

    Raises LookupError or TypeError for a tree that is no audit's.
    """
    every = {reach: portfolio(access, whole=reach == "whole", adapted=reach == "adapted") for reach in REACHES}
    attacks = [attack for attack in tree["grid"]["attack"] if attack["kind"] in ATTACKS]
    reach = next((reach for reach in REACHES if all(attack in every[reach] for attack in attacks)), REACHES[-1])
    recipes = [cell["recipe"].get("defense") for cell in tree.get("cells", [])]
    trainings = tuple(one for one in wanted if any(_same(one.settings["defense"], found) for found in recipes))
    return Round(seeds=SEEDS[: len(tree["seeds"])], reach=reach, trainings=trainings)


def _same(settings: Any, found: Any) -> bool:
    return found is not None and {**settings} == found


@dataclass(frozen=True, kw_only=True)
class PreparedAudit:
    """An audit whose model is imported and whose data are counted, before any attack.

    Attributes:
        request: The options of the command.
        model: The folder of the imported model.
        card: How the model is read, as its folder says.
        people: How many private images each person has.
    """

    request: AuditRequest
    model: Path
    card: TargetCard
    people: Counted

    @property
    def access(self) -> Access:
        """What the attacker sees: the access that was asked for, as far as the model gives it."""
        return lesser(self.request.access, self.card.access)

    @property
    def store(self) -> str:
        """Location of the audit's store."""
        return str(self.request.folder / STORE)

    @cached_property
    def trainings(self) -> tuple[AuditTraining, ...]:
        """The reference and the fixes that were asked for. Raises InputError where they cannot be trained."""
        return self.request.trainings(self.card)

    @cached_property
    def allowance(self) -> Allowance:
        """The query budget; without bound unless the model is an endpoint."""
        request, card = self.request, self.card
        foreign = request.form.foreign(card.architecture)
        return allowance_of(
            None if foreign is None else foreign.budget,
            self.people,
            attacked=min(request.people, card.num_classes),
            access=self.access,
            scores=card.access != "labels",
            membership=request.trained_on_data,
        )

    @cached_property
    def images(self) -> int | None:
        """Number of public images; None where they are rendered."""
        return len(list_unlabelled(self.request.public)) if self.request.public else None

    @property
    def coming(self) -> tuple[str, ...]:
        """Lines that announce the queries of membership; none where the store holds the answers already."""
        lines = self.allowance.membership.coming
        return () if lines and has_membership(self.tree(FIRST), open_store(self.store)) else lines

    @property
    def left_out(self) -> tuple[str, ...]:
        """A sentence on every attack that needs more access than the model gives, or more queries than allowed."""
        every = portfolio(self.access, whole=True)
        return (*untried(self.request.access, self.card), *self.allowance.left_out(every))

    def attacks(self, one: Round) -> list[dict[str, Any]]:
        """Settings of the attacks of a round for which the query budget is enough."""
        if one.reach == FIRST.reach:
            return self._first
        return self.allowance.fitting(portfolio(self.access, whole=one.reach == "whole", adapted=True))

    @cached_property
    def _first(self) -> list[dict[str, Any]]:
        """Settings of the attacks of the first answer.

        Where the rate of queries is limited: the attack with the fewest queries, as many others as fit into --minutes,
        and those whose results are in the store already.
        """
        attacks = self.allowance.fitting(portfolio(self.access, whole=False))
        if self.allowance.queries is None:
            return attacks
        kept = list[dict[str, Any]]()
        for one in sorted(attacks, key=lambda one: self.allowance.queries_of([one])):
            is_first = not self.allowance.queries_of(kept)
            within = self.allowance.seconds([*kept, one], seeds=1) <= 60 * self.request.minutes
            if is_first or within or is_done(self.tree(FIRST, membership=False, attacks=[one]), open_store(self.store)):
                kept.append(one)
        return [one for one in attacks if one in kept]

    def covers(self, one: Round) -> bool:
        """Whether the query budget is enough for a round."""
        return self.allowance.covers(self.attacks(one), seeds=len(one.seeds))

    def tree(
        self, one: Round, *, membership: bool = True, attacks: list[dict[str, Any]] | None = None
    ) -> dict[str, Any]:
        """The parsed sweep file of a round.

        membership: include the judge of membership, where it is asked for and fits the query budget. attacks: settings
        to use instead of the round's.
        """
        request, size = self.request, self.card.image_size
        return audit_sweep(
            model=self.model,
            card=self.card,
            data=request.data.resolve(),
            public=request.public.resolve() if request.public else None,
            independent=request.independent,
            attacks=self.attacks(one) if attacks is None else attacks,
            people=request.people,
            seeds=list(one.seeds),
            has_second=one.reach == "whole",
            trainings=one.trainings,
            images=self.images,
            prior=None if request.prior is None else imported_prior(request.prior, request.eyes, size),
            membership=self.allowance.membership.settings if membership else None,
            bits=request.bits,
        )

    def shadow_models(self, trainings: Sequence[AuditTraining]) -> ShadowModels | None:
        """The shadow models of the reference's recipe; None without a reference or without membership."""
        reference, settings = reference_of(trainings), self.allowance.membership.settings
        if reference is None or settings is None:
            return None
        return ShadowModels(first=self.tree(FIRST), reference=reference, settings=settings, store=self.store)


def attacks_left(prepared: PreparedAudit, done: Round, *, until_s: Callable[[Round], float]) -> tuple[str, ...]:
    """A sentence on the attacks that the model allows and a finished audit has not tried; empty where all were.

    until_s: seconds from the beginning of the command until a round would be done; asked only where one is left.
    """
    wider, tried = replace(done, reach="whole"), prepared.attacks(done)
    whole = prepared.attacks(wider)
    left = [one for one in whole if one not in tried]
    if not left:
        return ()
    words = "; ".join(make_attack(**one).words for one in left)  # which have commas
    if not prepared.allowance.covers(whole, seeds=len(done.seeds)):
        return (f"Not tried with {len(done.seeds)} seeds: {words}; the same command with more --queries tries more.",)
    minutes = max(math.ceil(until_s(wider) / 60) + 1, math.floor(prepared.request.minutes) + 1)
    return (
        f"Not tried, for lack of time: {words}. The same command with --minutes {minutes} or more goes on with them.",
    )


def seeds_left(seeds: int, minutes: float, done: Round, *, next_s: float) -> str:
    """A sentence on seeds for which --minutes were not enough. next_s: expected seconds of one more seed."""
    return (
        f"--seeds {seeds} was asked for; --minutes {minutes:g} were enough for {len(done.seeds)}: the "
        f"next takes about {duration(next_s)} on this machine. The same command with more minutes goes on."
    )
