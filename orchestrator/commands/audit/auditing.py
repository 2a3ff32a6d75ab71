"""Run `smoothsweep audit`: a first answer, then as much as its effort says, each a run of one sweep on one store."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from smoothsweep.core import screen
from smoothsweep.core.attacks.registry import make_attack
from smoothsweep.core.attacks.shared.base import Access
from smoothsweep.core.data.likeness import refuse_shared, warnings_of
from smoothsweep.core.data.sources import TEST, Counted, count_labelled, list_unlabelled
from smoothsweep.core.errors import InputError
from smoothsweep.core.files import write_file
from smoothsweep.core.readers.files import read_text
from smoothsweep.core.text import duration, shortened
from smoothsweep.orchestrator.commands.audit.forecast import (
    START_S,
    Cost,
    as_loaded,
    cost_words,
    forecast,
    has_membership,
    wall_seconds,
)
from smoothsweep.orchestrator.commands.audit.judges import look_for_people
from smoothsweep.orchestrator.commands.audit.pages import AuditContext, write_audit
from smoothsweep.orchestrator.commands.audit.portfolio import (
    COMPONENTS,
    LEAST_PUBLIC,
    AuditTraining,
    Reach,
    components_of,
    imported_prior,
    portfolio,
)
from smoothsweep.orchestrator.commands.audit.queries import Allowance, allowance_of
from smoothsweep.orchestrator.commands.audit.subject import EFFORTS, AuditRequest
from smoothsweep.orchestrator.commands.audit.sweep_file import (
    SHADOWS,
    as_file,
    audit_sweep,
    lesser,
    shadow_sweep,
    too_few,
    untried,
    verified,
)
from smoothsweep.orchestrator.commands.plan import Confirmation
from smoothsweep.orchestrator.commands.run import run_and_report
from smoothsweep.orchestrator.reading.audit import MOST_SEEDS
from smoothsweep.orchestrator.reading.audit.result import RunNotes
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.imported import TargetCard

STORE, RESULT = "store", "audit.json"
SWEEP, SECOND = "audit.yaml", "audit-second.yaml"
STANDARD_SEEDS = 3
"""Seeds from which on the interval of a comparison is of use."""
SLOWER = 2.0
"""How much longer attacks that were never measured are expected to take than all work so far."""
REDACTED = "this model"  # on redacted pages: its file or endpoint may name a person or a machine
LABELS_ALONE = (
    "No shadow model was trained: attacks by shadow models compare scores, and this attacker sees labels alone."
)


@dataclass(frozen=True, kw_only=True)
class Step:
    """What one run of an audit covers.

    Attributes:
        effort: The least effort that includes it.
        reach: Which attacks of the portfolio are tried.
        seeds: Number of runs of every attack and every training.
        trainings: The models that are trained for comparison: a reference and fixes.
        shadows: Number of shadow models of the reference's recipe, where membership is measured.
    """

    effort: str
    reach: Reach
    seeds: int
    trainings: tuple[AuditTraining, ...] = ()
    shadows: int = 0


FIRST = Step(effort="first", reach="quick", seeds=1)
"""The answer that comes before anything else is trained, or run again."""


def steps_of(trainings: Sequence[AuditTraining] = (), *, seeds: int = 1) -> list[Step]:
    """The steps of an audit in their order: a first answer of the model alone, then one for each effort.

    seeds: runs that were asked for at least.
    """
    common: dict[str, Any] = {"trainings": tuple(trainings)}
    quick: Reach = "adapted" if trainings else "quick"
    efforts = [
        Step(effort="quick", reach=quick, seeds=seeds, shadows=4 if trainings else 0, **common),
        Step(effort="standard", reach=quick, seeds=max(STANDARD_SEEDS, seeds), shadows=8 if trainings else 0, **common),
        Step(effort="full", reach="whole", seeds=MOST_SEEDS, shadows=16 if trainings else 0, **common),
    ]
    return efforts if replace(FIRST, effort="quick") == efforts[0] else [FIRST, *efforts]


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

    def attacks(self, step: Step) -> list[dict[str, Any]]:
        """Settings of the attacks of a step for which the query budget is enough."""
        adapted = step.reach == "adapted"
        return self.allowance.fitting(portfolio(self.access, whole=step.reach == "whole", adapted=adapted))

    def tree(self, step: Step) -> dict[str, Any]:
        """The parsed sweep file of a step."""
        request, size = self.request, self.card.image_size
        return audit_sweep(
            model=self.model,
            card=self.card,
            data=request.data.resolve(),
            public=request.public.resolve() if request.public else None,
            independent=request.independent,
            attacks=self.attacks(step),
            people=request.people,
            seeds=list(range(1, step.seeds + 1)),
            has_second=step.reach == "whole",
            trainings=step.trainings,
            images=self.images,
            prior=None if request.prior is None else imported_prior(request.prior, request.eyes, size),
            membership=self.allowance.membership.settings,
            bits=request.bits,
        )

    def shadow_tree(self, step: Step) -> dict[str, Any] | None:
        """The parsed sweep file that attacks membership by shadow models; None where none are trained."""
        settings = self.allowance.membership.settings
        reference = next((one for one in step.trainings if one.is_reference), None)
        if reference is None or settings is None or self.access == "labels" or too_few(self.people):
            return None
        return shadow_sweep(self.tree(FIRST), reference, step.shadows, settings)


def run_audit(request: AuditRequest) -> int:
    """Audit a model and write its pages. Returns the exit code.

    Raises InputError for a faulty request, before anything is attacked.
    """
    started = time.monotonic()
    request.check()
    people = count_labelled(request.data)
    if request.trained_on_data and not people.of(TEST):
        raise InputError(
            f"--trained-on-data: expected --data {request.data} to say which images are for training and which for "
            "testing (folders train and test, or a column split), got no split"
        )
    form = request.form
    form.check_reading(people.classes)
    told = _warn_of_shared_pictures(request)
    model = form.bring_in(people.classes)
    card = form.read_card(model)
    if card.num_classes != people.classes:
        wanted = f"the model's {card.num_classes} people"
        raise InputError(f"{request.people_option} {request.data}: expected {wanted}, got {people.classes}")
    prepared = PreparedAudit(request=request, model=model.resolve(), card=card, people=people)
    for line in prepared.coming:
        screen.out(line)
    work = Work(prepared=prepared, started=started, told=told)
    code = work.run()
    work.print_result()
    return code


@dataclass(kw_only=True)
class Work:
    """One audit while it runs.

    Attributes:
        prepared: The audit's request, model and data.
        started: When the command began, in monotonic seconds.
        told: Sentences on the public images for the pages.
        planned: Label of a training -> its forecast cost.
        left: Sentences on what was not tried.
        has_pages: Whether this run has written the pages.
        step: The last step begun.
    """

    prepared: PreparedAudit
    started: float
    told: tuple[str, ...] = ()
    planned: dict[str, Cost] = field(default_factory=dict)
    left: tuple[str, ...] = ()
    has_pages: bool = False
    step: Step = FIRST

    @property
    def request(self) -> AuditRequest:
        """The options of the command."""
        return self.prepared.request

    @property
    def spent(self) -> float:
        """Seconds since the command began."""
        return time.monotonic() - self.started

    def run(self) -> int:
        """Make the steps of the effort that was asked for, or of those that fit into --minutes. Returns the exit code.

        What an earlier run has finished is no part of a smaller page: the audit begins there.
        """
        finished, seeds = self.earlier()
        steps = steps_of(self.prepared.trainings, seeds=max(self.request.seeds, seeds))
        begin = max((at for at, step in enumerate(steps) if step.effort in EFFORTS[:finished]), default=0)
        for at, step in enumerate(steps[begin:], begin):
            covered = self.prepared.allowance.covers(self.prepared.attacks(step), seeds=step.seeds)
            if at > begin and not (covered and self.wants(step)):
                self.left = (self.left_words(step, covered=covered),)
                self.write()
                return 0
            if code := self.do(step):
                return code
        return 0

    def earlier(self) -> tuple[int, int]:
        """How many efforts an earlier run has finished, and with how many seeds; 0 and 1 without one."""
        try:
            told = json.loads(read_text(self.request.folder / RESULT))
            return EFFORTS.index(told["effort"]) + 1, max(one["seeds"] for one in told["attacks"])
        except (InputError, OSError, LookupError, TypeError, ValueError):  # none, an older version's, a damaged one
            return 0, 1

    def wants(self, step: Step) -> bool:
        """Whether the effort that was asked for includes a step, or --minutes are expected to be enough for it."""
        if self.request.effort is not None:
            return EFFORTS.index(step.effort) <= EFFORTS.index(self.request.effort)
        seconds = self.seconds_of(step)
        return not seconds or self.spent + seconds <= 60 * self.request.patience

    def seconds_of(self, step: Step) -> float:
        """Expected seconds of a step; 0 for one that the store holds."""
        store, trees = open_store(self.prepared.store), [self.prepared.tree(step), self.prepared.shadow_tree(step)]
        costs = [forecast(tree, store) for tree in trees if tree is not None]
        device_s = sum(cost.device_s for cost in costs)
        if not device_s:
            return 0.0
        paced = self.prepared.allowance.seconds(self.prepared.attacks(step), seeds=step.seeds)
        unmeasured = SLOWER * max(self.spent, wall_seconds(costs[0].done)) if step.reach == "whole" else 0.0
        return START_S + max(wall_seconds(device_s), paced, unmeasured)

    def do(self, step: Step) -> int:
        """Run a step and write the pages. Returns the exit code."""
        self.forecast_trainings(step)
        self.step = step
        tree = self.prepared.tree(step)
        code = self._run(SWEEP, tree)
        if not code and self.request.second:  # it judges the same reconstructions
            judges = verified(self.request.second)
            code = self._run(SECOND, {**tree, "name": Path(SECOND).stem, "judges": judges})
        if not code and (shadowed := self.prepared.shadow_tree(step)) is not None and self._claims_membership:
            code = self._run(SHADOWS, shadowed)
        return code

    def forecast_trainings(self, step: Step) -> None:
        """Print what each training that a step begins with will cost."""
        if not step.trainings or self.step.trainings:
            return
        store, alone = open_store(self.prepared.store), replace(step, trainings=())
        model_alone = forecast(self.prepared.tree(alone), store)
        for one in step.trainings:
            cost = forecast(self.prepared.tree(replace(step, trainings=(one,))), store).without(model_alone)
            if cost.device_s:
                self.planned[one.label] = cost
                screen.out(f"to come: {one.label}: {cost_words(one, cost)}")

    def _run(self, file: str, tree: dict[str, Any]) -> int:
        """Run a sweep and write the pages. Returns the exit code."""
        sweep = self.request.folder / file
        if self.has_pages:
            screen.out(f"so far: {self._said()['answer'][0]}")
            screen.out(f"so far: {self.request.folder / 'audit.html'}; what follows refines it")
        write_file(sweep, as_file(tree), parents=True)
        code = run_and_report(sweep, [], self.prepared.store, None, None, None, Confirmation(yes=True), tells=False)
        self.write()
        return code

    def write(self) -> None:
        """Write the pages from what is in the store."""
        request, prepared, second = self.request, self.prepared, self.request.folder / SECOND
        shadowed = prepared.shadow_tree(self.step)
        if shadowed is not None and not has_membership(shadowed, open_store(prepared.store)):
            shadowed = None
        few = too_few(prepared.people) if request.trained_on_data and self.step.trainings else ""
        context = AuditContext(
            name=REDACTED if request.redact else shortened(request.title),
            card=prepared.card,
            anonymous=request.redact,
            notes=RunNotes(
                effort=self.step.effort,
                untried=prepared.left_out,
                unfit=(*self.left, *([few] if few else [])),
                own_test=prepared.people.of(TEST) > 0,
                planned={label: cost.device_s for label, cost in self.planned.items()},
                strangers=prepared.images,
                told=self.told,
                unmeasured=prepared.allowance.membership.left_out,
                access=prepared.access,
                judge_name=next((judge["name"] for judge in request.independent.values()), ""),
            ),
            member_access=prepared.access if request.trained_on_data else None,
            second=second if request.second and second.is_file() else None,
            shadowed=None if shadowed is None else as_loaded(shadowed),
            without_shadows=LABELS_ALONE if prepared.access == "labels" and prepared.trainings else "",
        )
        write_audit(request.folder / SWEEP, prepared.store, request.folder, context)
        self.has_pages = True

    def left_words(self, step: Step, *, covered: bool) -> str:
        """A sentence on what a step that is not made would add. covered: whether --queries are enough for it."""
        before, names = self.prepared.attacks(self.step), [one.label for one in self.step.trainings]
        added = [make_attack(**one).words for one in self.prepared.attacks(step) if one not in before]
        added += [one.label for one in step.trainings if one.label not in names]
        if step.seeds > self.step.seeds:
            added.append(f"{step.seeds} seeds instead of {self.step.seeds}")
        if not covered:
            return f"Not tried: {'; '.join(added)}; the same command with more --queries tries more."
        takes = duration(self.seconds_of(step))
        return f"Not tried: {'; '.join(added)}. The same command with --effort {step.effort} does, in about {takes}."

    @property
    def _claims_membership(self) -> bool:
        """Whether the pages make a claim about membership."""
        membership = json.loads(read_text(self.request.folder / RESULT)).get("membership")
        return membership is not None and membership["holds"]

    def _said(self) -> dict[str, list[str]]:
        return json.loads(read_text(self.request.folder / RESULT))["said"]

    def print_result(self) -> None:
        """Print the sentences of the pages, which attacks were not tried, and where the pages lie."""
        folder, said = self.request.folder, self._said()
        for part in ("answer", "beside", "membership", "trainings", "access", "people"):
            for line in said[part]:
                screen.out(line)
        for line in self.prepared.left_out:
            screen.out(line)
        screen.out(f"audit: {folder / 'audit.html'}, {folder / 'audit.pdf'}, {folder / RESULT}")
        screen.out(f"compare: smoothsweep ui --store {self.prepared.store}")


def _warn_of_shared_pictures(request: AuditRequest) -> tuple[str, ...]:
    """Refuse private pictures that are public too, and warn of pairs that look alike, of ill-fitting images, and of
    public images that show the same people, where a face embedder judges.

    Returns the warnings for the pages, without names; none for rendered public faces, which are no photographs.
    Raises InputError where a picture is in both sets.
    """
    if (public := request.public) is None:
        return ()
    option, data, bits = request.people_option, request.data, request.bits
    if (images := len(list_unlabelled(public))) < LEAST_PUBLIC:
        raise InputError(f"--public {public}: expected at least {LEAST_PUBLIC} images, got {images or 'none'}")
    screen.out(f"comparing the pictures of {option} with {images} of --public")
    pairs, doubts = refuse_shared(data, public, bits=bits)
    shown = look_for_people(data, public, request.independent, bits=bits)
    for line in (*warnings_of(pairs, doubts, private=option), *shown.warnings):
        screen.err(f"smoothsweep: --public {public}: {line}")
    for line in shown.notes:
        screen.out(line)
    if images <= COMPONENTS:
        fewer = f"{images} images make a prior of {components_of(images)} directions instead of {COMPONENTS}"
        screen.err(f"smoothsweep: --public {public}: {fewer}; an attacker with more images may find more")
    return (*warnings_of(pairs, doubts, private="the private set", named=False), *shown.unnamed)
