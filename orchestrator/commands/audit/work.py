"""One audit while it is made: what a round costs, what there is time and queries for, and the pages after it."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from smoothsweep.core import screen
from smoothsweep.core.audit.portfolio import portfolio
from smoothsweep.core.audit.references import Beside
from smoothsweep.core.data.sources import list_unlabelled
from smoothsweep.core.files import write_file
from smoothsweep.core.readers.files import read_text
from smoothsweep.core.text import brief
from smoothsweep.orchestrator.commands.audit import late, shadows
from smoothsweep.orchestrator.commands.audit.forecast import (
    START_S,
    Cost,
    as_loaded,
    cost_words,
    forecast,
    has_membership,
    wall_seconds,
)
from smoothsweep.orchestrator.commands.audit.pages import AuditContext, write_audit
from smoothsweep.orchestrator.commands.audit.queries import Allowance, allowance_of
from smoothsweep.orchestrator.commands.audit.rounds import FIRST, SEEDS, Round
from smoothsweep.orchestrator.commands.audit.subject import AuditRequest
from smoothsweep.orchestrator.commands.audit.sweep_file import (
    as_file,
    audit_sweep,
    imported_prior,
    lesser,
    verified,
)
from smoothsweep.orchestrator.commands.confirm import Confirmation
from smoothsweep.orchestrator.commands.run import run_and_report
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.imported import TargetCard

SWEEP, STORE = "audit.yaml", "store"
SECOND, SECOND_NAME = "audit-second.yaml", "audit-second"
SLOWER = 2.0


@dataclass(kw_only=True)
class Work:
    """One audit while it is made. started: monotonic seconds; own_test: whether the data say which images are for
    testing. told: what the pages say of the public images. planned: of what is trained beside the model, by its label.
    unfit: sentences on what there was no time for, short_of_time: the same of attacks. has_pages: whether this run has
    written them. shadows: models by which membership is attacked beside the reference, those there are and those to be
    trained; attacked_by: how many this run has attacked with. round: the last one.
    """

    request: AuditRequest
    model: Path
    card: TargetCard
    started: float
    own_test: bool
    told: tuple[str, ...] = ()
    planned: dict[str, Cost] = field(default_factory=dict)
    unfit: list[str] = field(default_factory=list)
    short_of_time: tuple[str, ...] = ()
    has_pages: bool = False
    shadows: int = 0
    attacked_by: int = 0
    round: Round = FIRST

    @property
    def access(self) -> str:
        return lesser(self.request.access, self.card.access)

    @property
    def beside(self) -> tuple[Beside, ...]:
        """What has been trained beside the model in the last round."""
        return self.round.beside

    @property
    def spent(self) -> float:
        """Seconds since the command began."""
        return time.monotonic() - self.started

    def has_time_for(self, seconds: float) -> bool:
        """Always for what is in the store: a shorter budget makes no answer poorer than it was."""
        return not seconds or self.spent + seconds <= 60 * self.request.minutes

    def fits(self, one: Round, *, after: Round) -> bool:
        """Whether there is time, and there are queries, for a round."""
        return self.allowance.covers(self.attacks_of(one), seeds=len(one.seeds)) and self.has_time_for(
            self.seconds_of(one, after=after)
        )

    @cached_property
    def sweep(self) -> Path:
        return self.request.folder / SWEEP

    @cached_property
    def second(self) -> Path:
        """The sweep file of the second embedder's judging."""
        return self.request.folder / SECOND

    @cached_property
    def store(self) -> str:
        return str(self.request.folder / STORE)

    @cached_property
    def allowance(self) -> Allowance:
        """Of queries to the model: without bound unless it is an endpoint."""
        return allowance_of(self.request, self.card)

    def seconds_of(self, one: Round, *, after: Round) -> float:
        """How long a round is expected to take; 0 where everything is in the store, and for what `fitting` let through.

        Attacks that were never measured are the slow ones: about twice the whole so far, by whichever run it was made.
        """
        if one.beside != after.beside:
            return 0.0
        cost = forecast(self.tree(one), open_store(self.store))
        if not cost.device_s:
            return 0.0
        paced = self.allowance.seconds(self.attacks_of(one), seeds=len(one.seeds))
        if one.reach != after.reach:
            return max(SLOWER * max(self.spent, wall_seconds(cost.done)), paced)
        return START_S + max(wall_seconds(cost.device_s), paced)

    def do(self, one: Round) -> int:
        """Run a round, and write the pages. Returns the exit code."""
        self.round = one
        return self._run(self.sweep, self.tree(one)) or self._judge_again(one) or self.attack_by_shadows()

    def attack_by_shadows(self) -> int:
        """Train the shadow models, where there are any to be trained beside the reference, and attack the membership of
        the model and of the reference by them. Returns the exit code."""
        self.shadows = max(self.shadows, shadows.finished(self, self.beside))
        if self.shadows <= self.attacked_by or shadows.reference_of(self.beside) is None:
            return 0
        self.attacked_by = self.shadows
        return self._run(
            self.request.folder / shadows.FILE, self.shadow_tree(self.beside, self.shadows, with_reference=True)
        )

    def _run(self, sweep: Path, tree: dict[str, Any]) -> int:
        """Run a sweep and write the pages. Returns the exit code."""
        self._say_so_far()
        write_file(sweep, as_file(tree), parents=True)
        code = run_and_report(sweep, [], self.store, None, None, None, Confirmation(yes=True), tells=False)
        self.write()
        return code

    def _judge_again(self, one: Round) -> int:
        """The same reconstructions by the second embedder, as a sweep of its own in the same store, and the pages with
        it. Returns the exit code."""
        if not self.request.second:
            return 0
        return self._run(self.second, {**self.tree(one), "name": SECOND_NAME, "judges": verified(self.request.second)})

    @property
    def coming(self) -> tuple[str, ...]:
        """What to say of queries before they are sent; nothing of answers that are in the store."""
        lines = self.allowance.membership.coming
        return () if lines and has_membership(self.tree(FIRST), open_store(self.store)) else lines

    def _say_so_far(self) -> None:
        """The finding, and where the pages are, while there is more to come; nothing before this run wrote them."""
        if not self.has_pages:
            return
        finding = json.loads(read_text(self.request.folder / "audit.json"))["said"]["answer"][0]
        screen.out(f"so far: {finding}")
        screen.out(f"so far: {self.request.folder / 'audit.html'}; what follows refines it")

    def write(self, *further: str) -> None:
        """The pages from what is in the store. further: sentences on what there was no time for."""
        self.unfit.extend(further)
        self.short_of_time = late.attacks_left(self, self.round)
        found = shadows.finished(self, self.beside)
        context = AuditContext(
            name=brief(self.request.model.stem),
            card=self.card,
            anonymous=self.request.redact,
            untried=self.left_out,
            own_test=self.own_test,
            unfit=tuple(self.unfit),
            planned={label: cost.device_s for label, cost in self.planned.items()},
            strangers=self._images,
            told=self.told,
            member_access=self.access if self.request.trained_on_data else None,
            unmeasured=self.allowance.membership.left_out,
            second=self.second if self.request.second and self.second.is_file() else None,
            shadowed=as_loaded(self.shadow_tree(self.beside, found, with_reference=True)) if found else None,
            without_shadows=shadows.without(self),
        )
        write_audit(self.sweep, self.store, self.request.folder, context)
        self.has_pages = True

    def fitting(self, wanted: Sequence[Beside], *, after: Round) -> tuple[Beside, ...]:
        """Those of the trainings that there is time for, the reference first; without it none. Says what each will
        cost, and notes of the others that they were left out. after: the round on top of which they come."""
        if not wanted:
            return ()
        store, alone = open_store(self.store), Round(seeds=SEEDS[:1], reach="adapted").beyond(after)
        model_alone = forecast(self.tree(alone), store)
        kept: list[Beside] = []
        total, left = START_S + wall_seconds(model_alone.device_s), 0.0
        for one in wanted:
            tree = self.tree(replace(alone, beside=(one,)).beyond(alone))
            cost = forecast(tree, store).without(model_alone)
            seconds = wall_seconds(cost.device_s)
            if (kept or one.is_reference) and (not cost.device_s or self.has_time_for(total + seconds)):
                total += seconds
                kept.append(one)
                if cost.device_s:
                    self.planned[one.label] = cost
                    screen.out(f"to come: {one.label}: {cost_words(one, cost)}")
                continue
            left = left or seconds
            minutes = (self.spent + total + seconds) / 60
            self.leave_out(
                f"Not tried: {one.label}: {cost_words(one, cost)}. The same command with --minutes "
                f"{max(minutes + 1, self.request.minutes + 1):.0f} or more tries it."
            )
        fits = bool(kept)
        self.shadows = shadows.planned(self, wanted, fit=fits, before=total if fits else total + left)
        if self.unfit and all(one in after.beside for one in kept):
            self.write()
        return tuple(kept)

    def leave_out(self, line: str) -> None:
        """Say what there is no time or no use for, here and on the pages that are written next."""
        self.unfit.append(line)
        screen.out(line)

    @property
    def left_out(self) -> tuple[str, ...]:
        """A sentence on every attack that was not tried, and why."""
        return (*late.left_out(self), *self.short_of_time)

    @cached_property
    def _first(self) -> list[dict[str, Any]]:
        return late.of_first_answer(self, self.allowance.kept(portfolio(self.access, whole=False)))

    def attacks_of(self, one: Round) -> list[dict[str, Any]]:
        """Those of the round that the model may be asked enough for; of the first answer those that it waits for."""
        if one.reach == FIRST.reach:
            return self._first
        return self.allowance.kept(portfolio(self.access, whole=one.reach == "whole", adapted=True))

    def tree(
        self, one: Round, *, membership: bool = True, attacks: list[dict[str, Any]] | None = None
    ) -> dict[str, Any]:
        """The sweep of a round. membership: with its judge, where that is asked for and fits. attacks: others than its
        own."""
        return audit_sweep(
            model=self.model,
            card=self.card,
            data=self.request.data.resolve(),
            public=self.request.public.resolve() if self.request.public else None,
            independent=self.request.independent,
            attacks=self.attacks_of(one) if attacks is None else attacks,
            people=self.request.people,
            seeds=list(one.seeds),
            has_second=one.reach == "whole",
            beside=one.beside,
            images=self._images,
            prior=self._prior,
            membership=self.allowance.membership.settings if membership else None,
        )

    def shadow_tree(self, beside: Sequence[Beside], count: int, *, with_reference: bool = False) -> dict[str, Any]:
        """The sweep of so many shadow models of the reference's recipe; without the reference, of the model alone."""
        reference = shadows.reference_of(beside)
        membership = self.allowance.membership.settings
        assert reference is not None and membership is not None
        return shadows.shadow_sweep(self.tree(FIRST), reference, count, membership, alone=not with_reference)

    @property
    def _prior(self) -> dict[str, Any] | None:
        request = self.request
        return None if request.prior is None else imported_prior(request.prior, request.eyes, self.card.image_size)

    @cached_property
    def _images(self) -> int | None:
        return len(list_unlabelled(self.request.public)) if self.request.public else None
