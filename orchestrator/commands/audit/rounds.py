"""What an audit answers round by round: a first answer, then wider ones that have all of the earlier. And what a round
asks of the model: by which attacks, within which queries, as which sweep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from smoothsweep.core.attacks.registry import ATTACKS
from smoothsweep.core.attacks.shared.access import Access
from smoothsweep.core.audit.portfolio import MOST_SEEDS, Reach, portfolio
from smoothsweep.core.audit.references import AuditTraining
from smoothsweep.core.data.sources import Counted, list_unlabelled
from smoothsweep.orchestrator.commands.audit.forecast import has_membership, is_done
from smoothsweep.orchestrator.commands.audit.queries import Allowance, allowance_of
from smoothsweep.orchestrator.commands.audit.shadows import ShadowModels, reference_of
from smoothsweep.orchestrator.commands.audit.subject import AuditRequest
from smoothsweep.orchestrator.commands.audit.sweep_file import audit_sweep, imported_prior, lesser, untried
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.imported import TargetCard

STORE = "store"
SEEDS = tuple(range(1, MOST_SEEDS + 1))
REACHES: tuple[Reach, ...] = ("quick", "adapted", "whole")
"""From the fewest attacks to all."""


@dataclass(frozen=True, kw_only=True)
class Round:
    """seeds: of attacks and trainings; reach: which attacks; trainings: what is trained beside the model."""

    seeds: tuple[int, ...]
    reach: Reach
    trainings: tuple[AuditTraining, ...] = ()

    @property
    def further(self) -> Round | None:
        """The same with one seed more; None after the last."""
        return replace(self, seeds=SEEDS[: len(self.seeds) + 1]) if len(self.seeds) < len(SEEDS) else None

    def beyond(self, done: Round) -> Round:
        """All that either of the two has: what was answered before is never left out again."""
        added = tuple(one for one in self.trainings if one not in done.trainings)
        return Round(
            seeds=SEEDS[: max(len(self.seeds), len(done.seeds))],
            reach=max(self.reach, done.reach, key=REACHES.index),
            trainings=(*done.trainings, *added),
        )


FIRST = Round(seeds=SEEDS[:1], reach="quick")


def refinements(access: str, trainings: tuple[AuditTraining, ...] = (), *, seeds: int = 1) -> Iterator[Round]:
    """What comes after the first answer: what is trained beside the model, the seeds asked for, the slower attacks,
    more seeds."""
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
    """Which round a sweep file of an audit is: by its seeds, its attacks, its recipes. Attacks that an earlier version
    tried otherwise, or in an earlier round, are of the widest.

    Raises LookupError or TypeError for a file that is none.
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
class Asked:
    """An audit apart from what was done of it. model: a folder, with its card; people: who the private images show."""

    request: AuditRequest
    model: Path
    card: TargetCard
    people: Counted

    @property
    def access(self) -> Access:
        return lesser(self.request.access, self.card.access)

    @property
    def store(self) -> str:
        """The place of its store."""
        return str(self.request.folder / STORE)

    @cached_property
    def allowance(self) -> Allowance:
        """Of queries to the model: without bound unless it is an endpoint."""
        return allowance_of(self.request, self.card, self.people)

    @cached_property
    def images(self) -> int | None:
        """How many images are public; None where they are rendered."""
        return len(list_unlabelled(self.request.public)) if self.request.public else None

    @property
    def coming(self) -> tuple[str, ...]:
        """What to say of queries before they are sent; nothing of answers that are in the store."""
        lines = self.allowance.membership.coming
        return () if lines and has_membership(self.tree(FIRST), open_store(self.store)) else lines

    @property
    def left_out(self) -> tuple[str, ...]:
        """A sentence on every attack that the model cannot give enough for, or may not be asked enough for."""
        every = portfolio(self.access, whole=True)
        return (*untried(self.request.access, self.card), *self.allowance.left_out(every))

    def attacks(self, one: Round) -> list[dict[str, Any]]:
        """Those of the round that the model may be asked enough for; of the first answer those that it waits for."""
        if one.reach == FIRST.reach:
            return self._first
        return self.allowance.kept(portfolio(self.access, whole=one.reach == "whole", adapted=True))

    @cached_property
    def _first(self) -> list[dict[str, Any]]:
        """The attacks that the first answer waits for: where the model is asked at an agreed pace, the one that asks
        least and as many others as --minutes hold, and whatever is in the store already."""
        attacks = self.allowance.kept(portfolio(self.access, whole=False))
        if self.allowance.queries is None:
            return attacks
        kept = list[dict[str, Any]]()
        for one in sorted(attacks, key=lambda one: self.allowance.asked([one])):
            is_first = not self.allowance.asked(kept)
            within = self.allowance.seconds([*kept, one], seeds=1) <= 60 * self.request.minutes
            if is_first or within or is_done(self.tree(FIRST, membership=False, attacks=[one]), open_store(self.store)):
                kept.append(one)
        return [one for one in attacks if one in kept]

    def covers(self, one: Round) -> bool:
        """Whether there are queries for a round."""
        return self.allowance.covers(self.attacks(one), seeds=len(one.seeds))

    def tree(
        self, one: Round, *, membership: bool = True, attacks: list[dict[str, Any]] | None = None
    ) -> dict[str, Any]:
        """The sweep of a round. membership: with its judge, where that is asked for and fits. attacks: others than its
        own."""
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
        )

    def shadow_models(self, trainings: Sequence[AuditTraining]) -> ShadowModels | None:
        """Those that attack the model's membership beside these trainings; None without a reference among them, and
        where membership is not measured."""
        reference, settings = reference_of(trainings), self.allowance.membership.settings
        if reference is None or settings is None:
            return None
        return ShadowModels(first=self.tree(FIRST), reference=reference, settings=settings, store=self.store)
