"""Run the rounds of one audit within its time and its query budget, and write the pages after each."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from smoothsweep.core import screen
from smoothsweep.core.data.sources import TEST
from smoothsweep.core.errors import InputError
from smoothsweep.core.files import write_file
from smoothsweep.core.readers.files import read_text
from smoothsweep.core.text import shortened
from smoothsweep.orchestrator.commands.audit import shadows
from smoothsweep.orchestrator.commands.audit.forecast import (
    START_S,
    Cost,
    as_loaded,
    cost_words,
    forecast,
    wall_seconds,
)
from smoothsweep.orchestrator.commands.audit.pages import AuditContext, write_audit
from smoothsweep.orchestrator.commands.audit.portfolio import AuditTraining
from smoothsweep.orchestrator.commands.audit.rounds import (
    FIRST,
    REACHES,
    SEEDS,
    PreparedAudit,
    Round,
    attacks_left,
    round_of,
)
from smoothsweep.orchestrator.commands.audit.subject import AuditRequest
from smoothsweep.orchestrator.commands.audit.sweep_file import (
    as_file,
    verified,
)
from smoothsweep.orchestrator.commands.plan import Confirmation
from smoothsweep.orchestrator.commands.run import run_and_report
from smoothsweep.orchestrator.reading.audit.result import RunNotes
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.yaml_reader import read_yaml

SWEEP = "audit.yaml"
SECOND, SECOND_NAME = "audit-second.yaml", "audit-second"
SLOWER = 2.0
REDACTED = "this model"  # on redacted pages: its file or endpoint may name a person or a machine


@dataclass(kw_only=True)
class Work:
    """One audit while it runs.

    Attributes:
        prepared: The audit's request, model and data.
        started: When the command began, in monotonic seconds.
        told: Sentences on the public images for the pages.
        planned: Label of a training -> its forecast cost.
        unfit: Sentences on trainings and seeds for which there was no time.
        short_of_time: Sentences on attacks for which there was no time.
        has_pages: Whether this run has written the pages.
        shadows: Number of shadow models, both finished and still to be trained.
        attacked_by: Number of shadow models that this run has attacked with.
        round: The last round begun.
    """

    prepared: PreparedAudit
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
        """The options of the command."""
        return self.prepared.request

    @property
    def spent(self) -> float:
        """Seconds since the command began."""
        return time.monotonic() - self.started

    def has_time_for(self, seconds: float) -> bool:
        """Whether so many seconds fit into --minutes; 0, which means everything is in the store, always fits."""
        return not seconds or self.spent + seconds <= 60 * self.request.minutes

    def fits(self, one: Round) -> bool:
        """Whether a round fits into the remaining time and the query budget."""
        return self.prepared.covers(one) and self.has_time_for(self.seconds_of(one))

    @cached_property
    def sweep(self) -> Path:
        """The sweep file of the audit."""
        return self.request.folder / SWEEP

    @cached_property
    def second(self) -> Path:
        """The sweep file in which the second embedder judges."""
        return self.request.folder / SECOND

    def earlier(self) -> Round | None:
        """The widest round of an earlier run whose results are all in the store; None without an earlier run.

        A further run begins there, so that it shows no less than the pages do, however few its minutes are.
        """
        if not self.sweep.is_file() or not (self.request.folder / "audit.json").is_file():
            return None
        try:
            tree, store = read_yaml(read_text(self.sweep), SWEEP), open_store(self.prepared.store)
            before = round_of(tree, self.prepared.access, self.prepared.trainings)
            if not forecast(tree, store).device_s:
                return before  # also where a later version tries more attacks, which it then does first
            for many in range(len(before.seeds), 0, -1):
                for reach in reversed(REACHES[: REACHES.index(before.reach) + 1]):
                    one = replace(before, seeds=SEEDS[:many], reach=reach)
                    if not forecast(self.prepared.tree(one, membership=False), store).device_s:
                        return one
        except (InputError, OSError, LookupError, TypeError, ValueError):  # another audit's file, or a damaged one
            return None
        return None

    def seconds_of(self, one: Round) -> float:
        """Expected seconds of the next round; 0 for what the store holds, and for trainings, which `fitting` admits.

        Attacks that were never measured are the slow ones: they are expected to take twice as long as all work so far.
        """
        if one.trainings != self.round.trainings:
            return 0.0
        cost = forecast(self.prepared.tree(one), open_store(self.prepared.store))
        if not cost.device_s:
            return 0.0
        paced = self.prepared.allowance.seconds(self.prepared.attacks(one), seeds=len(one.seeds))
        if one.reach != self.round.reach:
            return max(SLOWER * max(self.spent, wall_seconds(cost.done)), paced)
        return START_S + max(wall_seconds(cost.device_s), paced)

    def do(self, one: Round) -> int:
        """Run a round and write the pages. Returns the exit code."""
        self.round = one
        return self._run(self.sweep, self.prepared.tree(one)) or self._judge_again(one) or self.attack_by_shadows()

    def attack_by_shadows(self) -> int:
        """Train the planned shadow models, and attack the membership of the model and the reference with them.

        Returns the exit code; 0 where no further shadow models are planned.
        """
        models = self.prepared.shadow_models(self.round.trainings)
        self.shadows = max(self.shadows, models.finished if models else 0)
        if models is None or self.shadows <= self.attacked_by:
            return 0
        self.attacked_by = self.shadows
        return self._run(self.request.folder / shadows.FILE, models.tree(self.shadows))

    def _run(self, sweep: Path, tree: dict[str, Any]) -> int:
        """Run a sweep and write the pages. Returns the exit code."""
        self._print_finding_so_far()
        write_file(sweep, as_file(tree), parents=True)
        code = run_and_report(sweep, [], self.prepared.store, None, None, None, Confirmation(yes=True), tells=False)
        self.write()
        return code

    def _judge_again(self, one: Round) -> int:
        """Judge the same reconstructions by the second embedder, as a further sweep, and write the pages with it.

        Returns the exit code; 0 without a second embedder.
        """
        if not self.request.second:
            return 0
        judges = verified(self.request.second)
        return self._run(self.second, {**self.prepared.tree(one), "name": SECOND_NAME, "judges": judges})

    def _print_finding_so_far(self) -> None:
        """Print the finding so far and where the pages are; nothing before this run has written them."""
        if not self.has_pages:
            return
        finding = json.loads(read_text(self.request.folder / "audit.json"))["said"]["answer"][0]
        screen.out(f"so far: {finding}")
        screen.out(f"so far: {self.request.folder / 'audit.html'}; what follows refines it")

    def write(self, *further: str) -> None:
        """Write the pages from what is in the store. further: sentences on what there was no time for."""
        self.unfit.extend(further)
        self.short_of_time = attacks_left(
            self.prepared, self.round, until_s=lambda wider: self.spent + self.seconds_of(wider)
        )
        models = self.prepared.shadow_models(self.round.trainings)
        shadow_count = models.finished if models else 0
        context = AuditContext(
            name=REDACTED if self.request.redact else shortened(self.request.title),
            card=self.prepared.card,
            anonymous=self.request.redact,
            notes=RunNotes(
                untried=self.left_out,
                unfit=tuple(self.unfit),
                own_test=self.prepared.people.of(TEST) > 0,
                planned={label: cost.device_s for label, cost in self.planned.items()},
                strangers=self.prepared.images,
                told=self.told,
                unmeasured=self.prepared.allowance.membership.left_out,
                access=self.prepared.access,
                judge_name=next((judge["name"] for judge in self.request.independent.values()), ""),
            ),
            member_access=self.prepared.access if self.request.trained_on_data else None,
            second=self.second if self.request.second and self.second.is_file() else None,
            shadowed=as_loaded(models.tree(shadow_count)) if models and shadow_count else None,
            without_shadows=shadows.without(self.prepared.trainings, self.prepared.access),
        )
        write_audit(self.sweep, self.prepared.store, self.request.folder, context)
        self.has_pages = True

    def fitting(self) -> tuple[AuditTraining, ...]:
        """The trainings for which there is time, the reference first; none where the reference does not fit.

        Prints what each will cost, and notes the others for the pages.
        """
        wanted, after = self.prepared.trainings, self.round
        if not wanted:
            return ()
        store, alone = open_store(self.prepared.store), Round(seeds=SEEDS[:1], reach="adapted").beyond(after)
        model_alone = forecast(self.prepared.tree(alone), store)
        kept: list[AuditTraining] = []
        total, left = START_S + wall_seconds(model_alone.device_s), 0.0
        for one in wanted:
            tree = self.prepared.tree(replace(alone, trainings=(one,)).beyond(alone))
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
        self.shadows = self._plan_shadows(fit=fits, before=total if fits else total + left)
        if self.unfit and all(one in after.trainings for one in kept):
            self.write()
        return tuple(kept)

    def _plan_shadows(self, *, fit: bool, before: float) -> int:
        """Number of shadow models to attack with. Prints their cost, or notes for the pages why there are none.

        Args:
            fit: Whether there is time for the reference.
            before: Seconds of all work that precedes the shadow models.
        """
        models, before = self.prepared.shadow_models(self.prepared.trainings), before + START_S
        if models is None:
            return 0
        if models.finished == shadows.COUNTS[0] or self.prepared.access == "labels" or not self._claims_membership:
            return models.finished
        if few := shadows.too_few(self.prepared.people):
            self.leave_out(few)
            return models.finished
        costs = models.costs()
        for count, cost in costs.items():
            if fit and self.has_time_for(before + wall_seconds(cost.device_s)):
                screen.out(f"to come: {models.words(count, cost)}")
                return count
        if not models.finished:
            cheapest = costs[count := shadows.COUNTS[-1]]
            minutes = (self.spent + before + wall_seconds(cheapest.device_s)) / 60
            self.leave_out(
                f"Not tried: {models.words(count, cheapest)}. The same command with --minutes "
                f"{max(minutes + 1, self.request.minutes + 1):.0f} or more tries it."
            )
        return models.finished

    @property
    def _claims_membership(self) -> bool:
        """Whether the pages make a claim about membership; they were written after the first round."""
        membership = json.loads(read_text(self.request.folder / "audit.json")).get("membership")
        return membership is not None and membership["holds"]

    @property
    def left_out(self) -> tuple[str, ...]:
        """A sentence on every attack that was not tried, and why."""
        return (*self.prepared.left_out, *self.short_of_time)

    def leave_out(self, line: str) -> None:
        """Print a sentence on what is left out, and note it for the pages."""
        self.unfit.append(line)
        screen.out(line)
