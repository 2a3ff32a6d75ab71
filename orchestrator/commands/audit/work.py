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
from smoothsweep.core.audit.references import AuditTraining
from smoothsweep.core.data.sources import TEST
from smoothsweep.core.errors import InputError
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
    wall_seconds,
)
from smoothsweep.orchestrator.commands.audit.pages import AuditContext, write_audit
from smoothsweep.orchestrator.commands.audit.rounds import FIRST, REACHES, SEEDS, Asked, Round, round_of
from smoothsweep.orchestrator.commands.audit.subject import AuditRequest
from smoothsweep.orchestrator.commands.audit.sweep_file import (
    as_file,
    verified,
)
from smoothsweep.orchestrator.commands.confirm import Confirmation
from smoothsweep.orchestrator.commands.run import run_and_report
from smoothsweep.orchestrator.reading.audit.notes import RunNotes
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.yaml_reader import read_yaml

SWEEP = "audit.yaml"
SECOND, SECOND_NAME = "audit-second.yaml", "audit-second"
SLOWER = 2.0
REDACTED = "this model"
"""What redacted pages call the model: its file or endpoint may name a person or a machine."""


@dataclass(kw_only=True)
class Work:
    """One audit while it is made. started: monotonic seconds; told: what the pages say of the public images. planned:
    of what is trained beside the model, by its label. unfit: sentences on what there was no time for,
    short_of_time: the same of attacks. has_pages:
    whether this run has written them. shadows: models by which membership is attacked beside the reference, those
    there are and those to be trained; attacked_by: how many this run has attacked with. round: the last one.
    """

    asked: Asked
    started: float
    told: tuple[str, ...] = ()
    planned: dict[str, Cost] = field(default_factory=dict)
    unfit: list[str] = field(default_factory=list)
    short_of_time: tuple[str, ...] = ()
    has_pages: bool = False
    shadows: int = 0
    attacked_by: int = 0
    round: Round = FIRST

    @property
    def request(self) -> AuditRequest:
        return self.asked.request

    @property
    def spent(self) -> float:
        """Seconds since the command began."""
        return time.monotonic() - self.started

    def has_time_for(self, seconds: float) -> bool:
        """Always for what is in the store: a shorter budget makes no answer poorer than it was."""
        return not seconds or self.spent + seconds <= 60 * self.request.minutes

    def fits(self, one: Round, *, after: Round) -> bool:
        """Whether there is time, and there are queries, for a round."""
        return self.asked.covers(one) and self.has_time_for(self.seconds_of(one, after=after))

    @cached_property
    def sweep(self) -> Path:
        return self.request.folder / SWEEP

    @cached_property
    def second(self) -> Path:
        """The sweep file of the second embedder's judging."""
        return self.request.folder / SECOND

    def earlier(self, wanted: Sequence[AuditTraining]) -> Round | None:
        """The widest round that an earlier run of this command answered, with all of it in the store; None without.

        What the pages show already is where a further run begins, however few its minutes are.
        """
        if not self.sweep.is_file() or not (self.request.folder / "audit.json").is_file():
            return None
        try:
            tree, store = read_yaml(read_text(self.sweep), SWEEP), open_store(self.asked.store)
            before = round_of(tree, self.asked.access, wanted)
            if not forecast(tree, store).device_s:
                return before  # also where a later version tries more attacks, which it then does first
            for many in range(len(before.seeds), 0, -1):
                for reach in reversed(REACHES[: REACHES.index(before.reach) + 1]):
                    one = replace(before, seeds=SEEDS[:many], reach=reach)
                    if not forecast(self.asked.tree(one, membership=False), store).device_s:
                        return one
        except (InputError, OSError, LookupError, TypeError, ValueError):  # another audit's file, or a damaged one
            return None
        return None

    def seconds_of(self, one: Round, *, after: Round) -> float:
        """How long a round is expected to take; 0 where everything is in the store, and for what `fitting` let through.

        Attacks that were never measured are the slow ones: about twice the whole so far, by whichever run it was made.
        """
        if one.trainings != after.trainings:
            return 0.0
        cost = forecast(self.asked.tree(one), open_store(self.asked.store))
        if not cost.device_s:
            return 0.0
        paced = self.asked.allowance.seconds(self.asked.attacks(one), seeds=len(one.seeds))
        if one.reach != after.reach:
            return max(SLOWER * max(self.spent, wall_seconds(cost.done)), paced)
        return START_S + max(wall_seconds(cost.device_s), paced)

    def do(self, one: Round) -> int:
        """Run a round, and write the pages. Returns the exit code."""
        self.round = one
        return self._run(self.sweep, self.asked.tree(one)) or self._judge_again(one) or self.attack_by_shadows()

    def attack_by_shadows(self) -> int:
        """Train the shadow models, where there are any to be trained beside the reference, and attack the membership of
        the model and of the reference by them. Returns the exit code."""
        models = self.asked.shadow_models(self.round.trainings)
        self.shadows = max(self.shadows, models.finished if models else 0)
        if models is None or self.shadows <= self.attacked_by:
            return 0
        self.attacked_by = self.shadows
        return self._run(self.request.folder / shadows.FILE, models.tree(self.shadows))

    def _run(self, sweep: Path, tree: dict[str, Any]) -> int:
        """Run a sweep and write the pages. Returns the exit code."""
        self._say_so_far()
        write_file(sweep, as_file(tree), parents=True)
        code = run_and_report(sweep, [], self.asked.store, None, None, None, Confirmation(yes=True), tells=False)
        self.write()
        return code

    def _judge_again(self, one: Round) -> int:
        """The same reconstructions by the second embedder, as a sweep of its own in the same store, and the pages with
        it. Returns the exit code."""
        if not self.request.second:
            return 0
        judges = verified(self.request.second)
        return self._run(self.second, {**self.asked.tree(one), "name": SECOND_NAME, "judges": judges})

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
        whole = replace(self.round, reach="whole")
        until = self.spent + self.seconds_of(whole, after=self.round)
        self.short_of_time = late.attacks_left(self.asked, self.round, until_s=until)
        models = self.asked.shadow_models(self.round.trainings)
        found = models.finished if models else 0
        context = AuditContext(
            name=REDACTED if self.request.redact else brief(self.request.model.stem),
            card=self.asked.card,
            anonymous=self.request.redact,
            notes=RunNotes(
                untried=self.left_out,
                unfit=tuple(self.unfit),
                own_test=self.asked.people.of(TEST) > 0,
                planned={label: cost.device_s for label, cost in self.planned.items()},
                strangers=self.asked.images,
                told=self.told,
                unmeasured=self.asked.allowance.membership.left_out,
                access=self.asked.access,
                judge_name=next((judge["name"] for judge in self.request.independent.values()), ""),
            ),
            member_access=self.asked.access if self.request.trained_on_data else None,
            second=self.second if self.request.second and self.second.is_file() else None,
            shadowed=as_loaded(models.tree(found)) if models and found else None,
            without_shadows=shadows.without(self.request, self.asked.access),
        )
        write_audit(self.sweep, self.asked.store, self.request.folder, context)
        self.has_pages = True

    def fitting(self, wanted: Sequence[AuditTraining], *, after: Round) -> tuple[AuditTraining, ...]:
        """Those of the trainings that there is time for, the reference first; without it none. Says what each will
        cost, and notes of the others that they were left out. after: the round on top of which they come."""
        if not wanted:
            return ()
        store, alone = open_store(self.asked.store), Round(seeds=SEEDS[:1], reach="adapted").beyond(after)
        model_alone = forecast(self.asked.tree(alone), store)
        kept: list[AuditTraining] = []
        total, left = START_S + wall_seconds(model_alone.device_s), 0.0
        for one in wanted:
            tree = self.asked.tree(replace(alone, trainings=(one,)).beyond(alone))
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
        self.shadows = self._plan_shadows(wanted, fit=fits, before=total if fits else total + left)
        if self.unfit and all(one in after.trainings for one in kept):
            self.write()
        return tuple(kept)

    def _plan_shadows(self, wanted: Sequence[AuditTraining], *, fit: bool, before: float) -> int:
        """How many shadow models there are, or are to be trained: says what they will cost, or notes why there are
        none. wanted: what is trained beside the model. fit: whether the reference is among what there is time for.
        before: seconds that all else takes which comes before them."""
        models, before = self.asked.shadow_models(wanted), before + START_S
        if models is None:
            return 0
        if models.finished == shadows.COUNTS[0] or self.asked.access == "labels" or not self._claims_membership:
            return models.finished
        if few := shadows.too_few(self.asked.people):
            self.leave_out(few)
            return models.finished
        costs = models.costs()
        for count, cost in costs.items():
            if fit and self.has_time_for(before + wall_seconds(cost.device_s)):
                screen.out(f"to come: {models.words(count, cost)}")
                return count
        if not models.finished:
            least = costs[count := shadows.COUNTS[-1]]
            minutes = (self.spent + before + wall_seconds(least.device_s)) / 60
            self.leave_out(
                f"Not tried: {models.words(count, least)}. The same command with --minutes "
                f"{max(minutes + 1, self.request.minutes + 1):.0f} or more tries it."
            )
        return models.finished

    @property
    def _claims_membership(self) -> bool:
        """Whether the pages make a claim about membership; they were written after the first round."""
        found = json.loads(read_text(self.request.folder / "audit.json")).get("membership")
        return found is not None and found["holds"]

    @property
    def left_out(self) -> tuple[str, ...]:
        """A sentence on every attack that was not tried, and why."""
        return (*self.asked.left_out, *self.short_of_time)

    def leave_out(self, line: str) -> None:
        """Say what there is no time or no use for, here and on the pages that are written next."""
        self.unfit.append(line)
        screen.out(line)
