"""`smoothsweep audit`, from the model to its pages: a first answer, then rounds that refine it while there is time."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from smoothsweep.core import screen
from smoothsweep.core.audit.portfolio import COMPONENTS, MOST_SEEDS, Reach, portfolio
from smoothsweep.core.audit.references import Beside
from smoothsweep.core.data.listing import few
from smoothsweep.core.data.own.overlap import refuse_shared, said
from smoothsweep.core.data.sources import list_unlabelled
from smoothsweep.core.durations import duration
from smoothsweep.core.errors import InputError
from smoothsweep.core.files import write_file
from smoothsweep.core.text import brief
from smoothsweep.orchestrator.commands.audit.forecast import START_S, Cost, forecast, wall_seconds
from smoothsweep.orchestrator.commands.audit.pages import write_audit
from smoothsweep.orchestrator.commands.audit.prior import imported_prior
from smoothsweep.orchestrator.commands.audit.subject import AuditRequest, imported_model, people_of
from smoothsweep.orchestrator.commands.audit.sweep_file import as_file, audit_sweep, components_of, lesser, untried
from smoothsweep.orchestrator.commands.confirm import Confirmation
from smoothsweep.orchestrator.commands.run import run_and_report
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.imported import TargetCard

SEEDS = tuple(range(1, MOST_SEEDS + 1))
SWEEP, STORE = "audit.yaml", "store"
SLOWER = 2.0
LEAST_PUBLIC = 3  # images: of two the prior has a single direction


@dataclass(frozen=True, kw_only=True)
class Round:
    """seeds: of attacks and trainings; reach: which attacks; beside: what is trained beside the model."""

    seeds: tuple[int, ...]
    reach: Reach
    beside: tuple[Beside, ...] = ()

    @property
    def further(self) -> Round | None:
        """The same with one seed more; None after the last."""
        return replace(self, seeds=SEEDS[: len(self.seeds) + 1]) if len(self.seeds) < len(SEEDS) else None


FIRST = Round(seeds=SEEDS[:1], reach="quick")


def refinements(access: str, beside: tuple[Beside, ...] = (), *, seeds: int = 1) -> Iterator[Round]:
    """What comes after the first answer: what is trained beside the model, the seeds asked for, the slower attacks,
    more seeds."""
    reach: Reach = "adapted" if beside else "quick"
    if beside:
        yield Round(seeds=SEEDS[:1], reach=reach, beside=beside)
    for many in range(2, seeds + 1):
        yield Round(seeds=SEEDS[:many], reach=reach, beside=beside)
    if len(portfolio(access, whole=True)) > len(portfolio(access, whole=False, adapted=bool(beside))):
        yield Round(seeds=SEEDS[:seeds], reach="whole", beside=beside)
    for many in range(seeds + 1, len(SEEDS) + 1):
        yield Round(seeds=SEEDS[:many], reach="whole", beside=beside)


def run_audit(request: AuditRequest) -> int:
    """Everything. Returns the exit code; InputError before anything is attacked for what is wrong with the request."""
    started = time.monotonic()
    request.check()
    people, own_test = people_of(request.data)
    _look_for_the_same(request)
    model, card = imported_model(request, people)
    work = Work(request=request, model=model, card=card, started=started, own_test=own_test)
    wanted = request.beside(card)
    code, done = work.do(FIRST), FIRST
    for one in refinements(work.access, () if code else work.fitting(wanted), seeds=request.seeds):
        if code or not work.has_time_for(work.seconds_of(one, after=done)):
            break
        code, done = work.do(one), one
    while not code and (more := done.further) and work.has_time_for(seconds := work.seconds_of(more, after=done)):
        code, done = work.do(more), more  # slow attacks that do not fit leave time for seeds of the quick ones
    if not code and len(done.seeds) < request.seeds:
        work.write(
            f"--seeds {request.seeds} was asked for; --minutes {request.minutes:g} were enough for {len(done.seeds)}: "
            f"the next takes about {duration(seconds)} on this machine. The same command with more minutes goes on."
        )
    _say_where(request)
    return code


def _look_for_the_same(request: AuditRequest) -> None:
    """Raise InputError where a private picture is public too; say which only look it. Rendered public faces are new."""
    if request.public is None:
        return
    if (images := len(list_unlabelled(request.public))) < LEAST_PUBLIC:
        raise InputError(f"--public {request.public}: expected at least {LEAST_PUBLIC} images, got {images or 'none'}")
    pairs, doubts = refuse_shared(request.data, request.public)
    for doubt in doubts:
        screen.err(f"smoothsweep: --public {request.public}: {doubt}; a low leak may then be the attacker's weakness")
    if pairs:
        alike = f"{len(pairs)} pictures of --data show one of --public, or look like it: {few(said(pairs, '~'))}"
        screen.err(f"smoothsweep: {alike}; an attack that shows them may have shown what was public")
    if images <= COMPONENTS:
        fewer = f"{images} images make a prior of {components_of(images)} directions instead of {COMPONENTS}"
        screen.err(f"smoothsweep: --public {request.public}: {fewer}; an attacker with more images may find more")


@dataclass(kw_only=True)
class Work:
    """One audit while it is made. started: monotonic seconds; own_test: whether the data say which images are for
    testing. planned: of what is trained beside the model, by its label. unfit: sentences on what there was no time for.
    """

    request: AuditRequest
    model: Path
    card: TargetCard
    started: float
    own_test: bool
    planned: dict[str, Cost] = field(default_factory=dict)
    unfit: list[str] = field(default_factory=list)

    @property
    def access(self) -> str:
        return lesser(self.request.access, self.card.access)

    @property
    def spent(self) -> float:
        """Seconds since the command began."""
        return time.monotonic() - self.started

    def has_time_for(self, seconds: float) -> bool:
        """Always for what is in the store: a shorter budget makes no answer poorer than it was."""
        return not seconds or self.spent + seconds <= 60 * self.request.minutes

    @cached_property
    def sweep(self) -> Path:
        return self.request.folder / SWEEP

    @cached_property
    def store(self) -> str:
        return str(self.request.folder / STORE)

    def seconds_of(self, one: Round, *, after: Round) -> float:
        """How long a round is expected to take; 0 where everything is in the store, and for what `fitting` let through.

        Attacks that were never measured are the slow ones: about twice the whole so far.
        """
        if one.beside != after.beside:
            return 0.0
        device_s = forecast(self._tree(one), open_store(self.store)).device_s
        if not device_s:
            return 0.0
        return SLOWER * self.spent if one.reach != after.reach else START_S + wall_seconds(device_s)

    def do(self, one: Round) -> int:
        """Run a round, and write the pages. Returns the exit code."""
        write_file(self.sweep, as_file(self._tree(one)), parents=True)
        code = run_and_report(self.sweep, [], self.store, None, None, None, Confirmation(yes=True))
        self.write()
        return code

    def write(self, *further: str) -> None:
        """The pages from what is in the store. further: sentences on what there was no time for."""
        self.unfit.extend(further)
        write_audit(
            self.sweep,
            self.store,
            self.request.folder,
            name=brief(self.request.model.stem),
            card=self.card,
            anonymous=self.request.redact,
            untried=untried(self.request.access, self.card),
            own_test=self.own_test,
            unfit=tuple(self.unfit),
            planned={label: cost.device_s for label, cost in self.planned.items()},
        )

    def fitting(self, wanted: Sequence[Beside]) -> tuple[Beside, ...]:
        """Those of the trainings that there is time for, the reference first; without it none. Says what each will
        cost, and notes of the others that they were left out."""
        if not wanted:
            return ()
        store = open_store(self.store)
        model_alone = forecast(self._tree(Round(seeds=SEEDS[:1], reach="adapted")), store)
        kept: list[Beside] = []
        total = START_S + wall_seconds(model_alone.device_s)
        for one in wanted:
            tree = self._tree(Round(seeds=SEEDS[:1], reach="adapted", beside=(one,)))
            cost = forecast(tree, store).without(model_alone)
            seconds = wall_seconds(cost.device_s)
            if (kept or one.is_reference) and (not cost.device_s or self.has_time_for(total + seconds)):
                total += seconds
                kept.append(one)
                if cost.device_s:
                    self.planned[one.label] = cost
                    screen.out(f"to come: {one.label}: {_cost_words(one, cost)}")
                continue
            minutes = (self.spent + total + seconds) / 60
            self.unfit.append(
                f"Not tried: {one.label}: {_cost_words(one, cost)}. The same command with --minutes "
                f"{max(minutes + 1, self.request.minutes + 1):.0f} or more tries it."
            )
            screen.out(self.unfit[-1])
        if self.unfit and not kept:
            self.write()
        return tuple(kept)

    def _tree(self, one: Round) -> dict[str, Any]:
        return audit_sweep(
            model=self.model,
            card=self.card,
            data=self.request.data.resolve(),
            public=self.request.public.resolve() if self.request.public else None,
            independent=self.request.independent,
            access=self.access,
            people=self.request.people,
            seeds=list(one.seeds),
            reach=one.reach,
            beside=one.beside,
            images=self._images,
            prior=self._prior,
        )

    @property
    def _prior(self) -> dict[str, Any] | None:
        request = self.request
        return None if request.prior is None else imported_prior(request.prior, request.eyes, self.card.image_size)

    @cached_property
    def _images(self) -> int | None:
        return len(list_unlabelled(self.request.public)) if self.request.public else None


def _cost_words(one: Beside, cost: Cost) -> str:
    network = f"{one.settings['architecture']}, {one.settings['epochs']} epochs"
    attacks = f"{duration(cost.rest)} to attack it and judge the reconstructions"
    return f"{network}, about {duration(cost.training)} of a device to train it and {attacks}"


def _say_where(request: AuditRequest) -> None:
    folder = request.folder
    said = json.loads((folder / "audit.json").read_text(encoding="utf-8"))["said"]
    for line in (*said["answer"], *said["beside"], *said["trainings"], *said["access"], *said["people"]):
        screen.out(line)
    screen.out(f"audit: {folder / 'audit.html'}, {folder / 'audit.pdf'}, {folder / 'audit.json'}")
    screen.out(f"compare: smoothsweep ui --store {folder / STORE}")
