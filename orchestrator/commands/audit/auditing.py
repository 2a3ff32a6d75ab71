"""Run `smoothsweep audit`: a first answer, then the chosen effort, each a run of one sweep on one store.

What it may ask of an endpoint, and how long its steps will take.
"""

from __future__ import annotations

import json
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import takewhile
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import torch

from smoothsweep.core import screen
from smoothsweep.core.allotted import allotted_cpus
from smoothsweep.core.attacks.registry import make_attack
from smoothsweep.core.attacks.shared.base import ACCESS_LEVELS, Access, Part
from smoothsweep.core.checks import present
from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.data.likeness import refuse_shared, warnings_of
from smoothsweep.core.data.sources import TEST, TRAIN, Counted, count_labelled, list_unlabelled
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.base import Budget
from smoothsweep.core.files import write_file
from smoothsweep.core.judges.membership import Membership
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.models.recipe import TrainingRecipe
from smoothsweep.core.readers.files import read_text
from smoothsweep.core.text import duration, shortened
from smoothsweep.core.training.classifier import train_classifier
from smoothsweep.orchestrator.commands.audit import subject, sweep_file
from smoothsweep.orchestrator.commands.audit.pages import membership_stage, read_stored, write_audit
from smoothsweep.orchestrator.commands.audit.request import EFFORTS, AuditRequest
from smoothsweep.orchestrator.commands.audit.sweep_file import SHADOWS, Reach, as_loaded, label_of, portfolio
from smoothsweep.orchestrator.commands.requests import RunRequest
from smoothsweep.orchestrator.commands.run import run_and_report
from smoothsweep.orchestrator.planning.plan import make_plan
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.result.audit import MOST_SEEDS, Audit
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.imported import TargetCard
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.tasks.settings import recipe_from
from smoothsweep.tasks.target import PART

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


class Step(NamedTuple):
    """What one run of an audit covers.

    Attributes:
        reach: Which attacks of the portfolio are tried.
        seeds: Number of runs of every attack and every training.
        trainings: The recipes that are trained for comparison: a reference, then fixes.
        shadows: Number of shadow models of the reference's recipe, where membership is measured.
    """

    effort: str
    reach: Reach
    seeds: int
    trainings: tuple[dict[str, Any], ...] = ()
    shadows: int = 0


FIRST = Step("first", "quick", seeds=1)
"""The answer that comes before anything else is trained, or run again."""


def steps_of(trainings: Sequence[dict[str, Any]] = (), *, seeds: int = 1) -> list[Step]:
    """A first answer of the model alone, then the efforts, the least first. seeds: the fewest that were asked for."""
    quick: Reach = "adapted" if trainings else "quick"
    efforts = [
        Step("quick", quick, seeds, tuple(trainings), shadows=4),
        Step("standard", quick, max(STANDARD_SEEDS, seeds), tuple(trainings), shadows=8),
        Step("full", "whole", MOST_SEEDS, tuple(trainings), shadows=16),
    ]
    return efforts if not trainings and seeds == FIRST.seeds else [FIRST, *efforts]


def chosen(
    steps: Sequence[Step], request: AuditRequest, seconds_of: Callable[[Step], float], *, spent: float = 0.0
) -> Step:
    """The effort that was asked for, or the largest that is expected to fit into --minutes; at least the first step.

    seconds_of: what a step is expected to take; 0 for one that is done. spent: seconds so far.
    """

    def fits(step: Step) -> bool:
        if request.effort is not None:
            return EFFORTS.index(step.effort) <= EFFORTS.index(request.effort)
        seconds = seconds_of(step)
        return not seconds or spent + seconds <= 60 * request.patience

    return [steps[0], *takewhile(fits, steps[1:])][-1]


def run_audit(request: AuditRequest) -> int:
    """Audit a model and write its pages. Returns the exit code.

    Raises InputError for a faulty request, before anything is attacked.
    """
    started = time.monotonic()
    subject.check_request(request)
    people = count_labelled(request.private)
    if request.trained_on_data and not people.of(TEST):
        raise InputError(
            f"--trained-on-data: expected --data {request.data} to say which images are for training and which for "
            "testing (folders train and test, or a column split), got no split"
        )
    subject.check_reading(request, people.classes)
    told = _warn_of_shared_pictures(request)
    model, card = subject.bring_in(request, people.classes)
    if card.num_classes != people.classes:
        wanted = f"the model's {card.num_classes} people"
        raise InputError(f"{request.people_option} {request.private}: expected {wanted}, got {people.classes}")
    work = Work(request=request, model=model, card=card, people=people, started=started, told=told)
    model_itself = trials_of(sweep_file.as_loaded(work.tree(FIRST)))[0]
    if (asked := work.allowance.measuring) and membership_stage(model_itself, work.store) is None:
        screen.out(f"to come: membership: {asked:,} queries at most, {work.allowance.takes(asked)}")
    code = work.run()
    work.print_result()
    return code


@dataclass(kw_only=True)
class Work:
    """One audit while it runs, whose model is imported and whose data are counted.

    Attributes:
        started: When the command began, in monotonic seconds.
        told: Sentences on the public images for the pages.
        planned: Label of a training -> its forecast device-seconds.
        left: A sentence on what a larger effort would try.
        found: What this run has written pages of; None before.
        step: The last step begun.
    """

    request: AuditRequest
    model: Path
    card: TargetCard
    people: Counted
    started: float
    told: tuple[str, ...] = ()
    planned: dict[str, float] = field(default_factory=dict)
    left: tuple[str, ...] = ()
    found: Audit | None = None
    step: Step = FIRST

    def __post_init__(self) -> None:
        request, card = self.request, self.card
        self.independent, self.second = subject.judges_of(request)
        self.place = str(request.folder / STORE)
        # What the attacker sees: the access that was asked for, as far as the model gives it.
        self.access: Access = min(request.access, card.access, key=ACCESS_LEVELS.index)
        self.images = len(list_unlabelled(request.public)) if request.public else None
        foreign = subject.foreign_model(request, card.architecture)
        self.allowance = allowance_of(
            None if foreign is None else foreign.budget,
            self.people,
            attacked=min(request.people, card.num_classes),
            access=self.access,
            scores=card.access != "labels",
            membership=request.trained_on_data,
        )
        beyond = self.allowance.left_out(portfolio(self.access, "whole"))
        self.left_out = (*sweep_file.untried(request.access, card), *beyond)
        self.trainings = sweep_file.audit_trainings(request, card)
        self.few: tuple[str, ...] = ()
        try:
            sweep_file.check_halves(self.people)
        except InputError as error:
            self.few = (f"Not tried: {error}.",)

    @property
    def store(self) -> Store:
        """What every run of the audit has left."""
        return open_store(self.place)

    def attacks(self, step: Step) -> list[dict[str, Any]]:
        """Settings of the attacks of a step for which the query budget is enough."""
        return self.allowance.fitting(portfolio(self.access, step.reach))

    def tree(self, step: Step) -> dict[str, Any]:
        """The parsed sweep file of a step."""
        request, size = self.request, self.card.image_size
        return sweep_file.audit_sweep(
            model=self.model,
            card=self.card,
            data=request.private.resolve(),
            public=request.public.resolve() if request.public else None,
            independent=self.independent,
            attacks=self.attacks(step),
            people=request.people,
            seeds=list(range(1, step.seeds + 1)),
            has_second=step.reach == "whole",
            trainings=step.trainings,
            images=self.images,
            prior=None if request.prior is None else sweep_file.imported_prior(request.prior, request.eyes, size),
            membership=self.allowance.membership,
            bits=request.bits,
        )

    def shadow_tree(self, step: Step) -> dict[str, Any] | None:
        """The parsed sweep file that attacks membership by shadow models; None where none are trained."""
        if not step.trainings or self.allowance.membership is None or self.access == "labels" or self.few:
            return None
        return sweep_file.shadow_sweep(self.tree(FIRST), step.trainings[0], step.shadows)

    def run(self) -> int:
        """Make the first answer, then the chosen effort. Returns the exit code.

        What an earlier run has finished is no part of a smaller page: the audit begins there.
        """
        finished, seeds = self.earlier()
        steps = steps_of(self.trainings, seeds=max(self.request.seeds, seeds))
        steps = steps[next((at for at, step in enumerate(steps) if step.effort == finished), 0) :]
        if code := self.do(steps[0]):
            return code
        covered = [steps[0], *takewhile(self.covers, steps[1:])]
        step = chosen(covered, self.request, self.seconds_of, spent=time.monotonic() - self.started)
        if step is not steps[0] and (code := self.do(step)):
            return code
        if step is not steps[-1]:
            self.left = (self.left_words(steps[steps.index(step) + 1]),)
            self.write()
        return 0

    def earlier(self) -> tuple[str, int]:
        """The effort that an earlier run has finished, and with how many seeds; "" and 1 without one."""
        if not Path(self.place).is_dir():
            return "", 1
        try:
            told = json.loads(read_text(self.request.folder / RESULT))
            return str(told["effort"]), max(one["seeds"] for one in told["reached"])
        except (InputError, OSError, AttributeError, LookupError, TypeError, ValueError):  # none, or a damaged one
            return "", 1

    def covers(self, step: Step) -> bool:
        """Whether --queries are enough for a step."""
        return self.allowance.covers(self.attacks(step), seeds=step.seeds)

    def seconds_of(self, step: Step) -> float:
        """Expected seconds of a step; 0 for one that the store holds."""
        trees = self.tree(step), self.shadow_tree(step)
        expected = [forecast(tree, self.store) for tree in trees if tree is not None]
        if not (device_s := sum(missing for missing, _ in expected)):
            return 0.0
        paced = self.allowance.queries_of(self.attacks(step), seeds=step.seeds) / self.allowance.per_second
        unmeasured = SLOWER * max(time.monotonic() - self.started, wall_seconds(expected[0][1]))
        return START_S + max(
            wall_seconds(device_s),
            paced if self.allowance.queries else 0.0,
            unmeasured if step.reach == "whole" else 0.0,
        )

    def do(self, step: Step) -> int:
        """Run the sweeps of a step, writing the pages after each. Returns the exit code."""
        if not self.step.trainings:
            self.forecast_trainings(step)
        self.step = step
        sweeps = {SWEEP: self.tree(step)}
        if self.second:  # it judges the same reconstructions
            judges = sweep_file.verified(self.second)
            sweeps[SECOND] = {**sweeps[SWEEP], "name": Path(SECOND).stem, "judges": judges}
        if (shadowed := self.shadow_tree(step)) is not None:
            sweeps[SHADOWS] = shadowed
        for file, tree in sweeps.items():
            if file == SHADOWS and not (self.found and self.found.membership and self.found.membership.holds):
                break
            if self.found is not None:
                screen.out(f"so far: {self.found.said['answer'][0]}")
                screen.out(f"so far: {self.request.folder / 'audit.html'}; what follows refines it")
            sweep = self.request.folder / file
            write_file(sweep, sweep_file.as_file(tree), parents=True)
            code = run_and_report(RunRequest(sweep=sweep, store=self.place, yes=True), tells=False)
            self.write()
            if code:
                return code
        return 0

    def forecast_trainings(self, step: Step) -> None:
        """Print what a seed of each training of a step will cost."""
        first = step._replace(trainings=(), seeds=1)
        for one in step.trainings:
            alone, with_it = (forecast(self.tree(first._replace(trainings=t)), self.store)[0] for t in ((), (one,)))
            if with_it > alone:
                self.planned[label_of(one)] = with_it - alone
                screen.out(
                    f"to come: {label_of(one)}: {one['architecture']}, {one['epochs']} epochs, about "
                    f"{duration(with_it - alone)} of a device for each seed, to train it, attack it and judge the "
                    "reconstructions"
                )

    def write(self) -> None:
        """Write the pages from what is in the store."""
        request, folder, store = self.request, self.request.folder, self.store
        shadows, second = self.shadow_tree(self.step), folder / SECOND
        stored = read_stored(
            load_sweep(folder / SWEEP),
            store,
            folder,
            self.card,
            shadowed=None if shadows is None else sweep_file.as_loaded(shadows),
            without_shadows=LABELS_ALONE if self.access == "labels" and self.trainings else "",
            second=load_sweep(second) if self.second and second.is_file() else None,
            redact=request.redact,
            effort=self.step.effort,
            untried=self.left_out,
            unfit=(*self.left, *(self.few if request.trained_on_data and self.step.trainings else ())),
            own_test=self.people.of(TEST) > 0,
            planned=self.planned,
            strangers=self.images,
            told=self.told,
            unmeasured=self.allowance.unmeasured,
            access=self.access,
            judge_name=next((judge["name"] for judge in self.independent.values()), ""),
        )
        self.found = stored.audit
        name = REDACTED if request.redact else shortened(request.title)
        write_audit(stored, store, folder, self.card, name, redact=request.redact)

    def left_words(self, step: Step) -> str:
        """A sentence on what a step that is not made would add."""
        before = self.attacks(self.step)
        added = [make_attack(**one).words for one in self.attacks(step) if one not in before]
        added += [label_of(one) for one in step.trainings if one not in self.step.trainings]
        if step.seeds > self.step.seeds:
            added.append(f"{step.seeds} seeds instead of {self.step.seeds}")
        if not self.covers(step):
            return f"Not tried: {'; '.join(added)}; the same command with more --queries tries more."
        takes = duration(self.seconds_of(step))
        return f"Not tried: {'; '.join(added)}. The same command with --effort {step.effort} does, in about {takes}."

    def print_result(self) -> None:
        """Print the sentences of the pages, which attacks were not tried, and where the pages lie."""
        folder, said = self.request.folder, {} if self.found is None else self.found.said
        parts = ("answer", "beside", "membership", "trainings", "access", "people")
        for line in (*(line for part in parts for line in said.get(part, ())), *self.left_out):
            screen.out(line)
        screen.out(f"audit: {folder / 'audit.html'}, {folder / 'audit.pdf'}, {folder / RESULT}")
        screen.out(f"compare: smoothsweep ui --store {self.place}")


def _warn_of_shared_pictures(request: AuditRequest) -> tuple[str, ...]:
    """Refuse private pictures that are public too, and warn of pairs that look alike, of ill-fitting images, and of
    public images that show the same people, where a face embedder judges.

    Returns the warnings for the pages, without names; none for rendered public faces, which are no photographs.
    Raises InputError where a picture is in both sets.
    """
    if (public := request.public) is None:
        return ()
    option, data, bits, least = request.people_option, request.private, request.bits, sweep_file.LEAST_PUBLIC
    if (images := len(list_unlabelled(public))) < least:
        raise InputError(f"--public {public}: expected at least {least} images, got {images or 'none'}")
    screen.out(f"comparing the pictures of {option} with {images} of --public")
    pairs, doubts = refuse_shared(data, public, bits=bits)
    shown = subject.look_for_people(data, public, subject.judges_of(request)[0], bits=bits)
    told = [*warnings_of(pairs, doubts, private=option), *shown.warnings]
    if images <= sweep_file.COMPONENTS:
        fewer = f"{sweep_file.components_of(images)} directions instead of {sweep_file.COMPONENTS}"
        told.append(f"{images} images make a prior of {fewer}; an attacker with more images may find more")
    for line in told:
        screen.err(f"smoothsweep: --public {public}: {line}")
    for line in shown.notes:
        screen.out(line)
    return (*warnings_of(pairs, doubts, private="the private set", named=False), *shown.unnamed)


# What may be asked of an endpoint

PROTOCOL = "clean"
OWN: Mapping[str, Any] = {"trained_on_data": True}
"""Settings of the judge of membership for a model trained on the training images of `--data`."""

TEST_FRACTION = 0.1
TRYING = 8
"""Images, besides those of `--data`, that an import sends to find out what a model answers."""

LEAST_DRAWN = 20
"""Fewest training images, and fewest test images, whose labels are queried: fewer show nothing."""


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """The query budget of an audit.

    The attack with the fewest queries runs first, then membership, which is asked once for all seeds, then the others.

    Attributes:
        queries: The most that may be sent in all; None without bound.
        reading: Queries that test whether the model recognises the data.
        people: How many people are attacked.
        membership: Settings of its judge; None where it is not measured.
        measuring: The most queries that measuring membership sends.
        unmeasured: Why membership is not measured although it was asked for.
    """

    queries: int | None = None
    reading: int = 0
    per_second: float = 1.0
    people: int
    membership: Mapping[str, Any] | None = None
    measuring: int = 0
    unmeasured: tuple[str, ...] = ()

    def queries_of(self, attacks: Iterable[Mapping[str, Any]], *, seeds: int = 1) -> int:
        """The most queries that attacks send, over all people and seeds.

        Parts that several attacks share, such as a pool, count once. An attack that states no bound counts as 0.
        """
        total, shared = 0, list[tuple[Part, ...]]()
        for attack in (make_attack(**settings) for settings in attacks):
            if (each := attack.most_queries(PROTOCOL)) is not None:
                total += each * self.people
                if attack.parts not in shared:
                    shared.append(attack.parts)
                    total += attack.most_queries_once
        return seeds * total

    def fitting(self, attacks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The attacks that fit into the budget, chosen from the fewest queries upwards, in their given order."""
        kept = list[dict[str, Any]]()
        for settings in sorted(attacks, key=lambda settings: self.queries_of([settings])):
            if self.covers([*kept, settings]):
                kept.append(settings)
        return [settings for settings in attacks if settings in kept]

    def covers(self, attacks: Sequence[Mapping[str, Any]], *, seeds: int = 1) -> bool:
        """Whether the budget is enough for all of these attacks with so many seeds, beside reading and membership."""
        fixed = self.reading + self.measuring
        return self.queries is None or fixed + self.queries_of(attacks, seeds=seeds) <= self.queries

    def takes(self, queries: int) -> str:
        """How long so many queries take, in words."""
        return f"about {duration(queries / self.per_second)} at {self.per_second:g} a second"

    def left_out(self, attacks: Sequence[dict[str, Any]]) -> tuple[str, ...]:
        """A sentence for each attack that does not fit: its name and its queries."""
        kept = self.fitting(attacks)
        lines = []
        for settings in (one for one in attacks if one not in kept):
            attack, cost = make_attack(**settings), self.queries_of([settings])
            each = attack.most_queries(PROTOCOL) or 0
            lines.append(
                f"Not tried: {attack.words}, which may ask {cost:,} queries for {self.people} people ({each:,} a "
                f"person), in {self.takes(cost)}; --queries {self.queries} does not allow it."
            )
        return tuple(lines)


def allowance_of(
    agreed: Budget | None, data: Counted, *, attacked: int, access: Access, scores: bool, membership: bool
) -> Allowance:
    """The query budget of an audit: what was agreed for an endpoint, without bound for any other model.

    Membership asks for the labels of as many images as the budget leaves after the cheapest attack.

    Args:
        agreed: The user's limits for an endpoint; None for any other model.
        data: How many private images each person has.
        attacked: Number of people to attack.
        scores: Whether the model answers with scores.
        membership: Whether membership is asked for.
    """
    if agreed is None:
        return Allowance(people=attacked, membership=OWN if membership else None)
    images, tested = (data.of(TRAIN), data.of(TEST)), data.of(TEST) or ceil(TEST_FRACTION * data.pictures.total())
    reading = TRYING + 2 * tested  # as the import shows them, and as the sweep keeps them
    allowance = Allowance(queries=agreed.queries, reading=reading, per_second=agreed.per_second, people=attacked)
    if not membership:
        return allowance

    def cost(drawn: int | None) -> int:
        return Membership(**OWN, images=drawn).most_pictures(*images, scores=scores)

    fitting = allowance.fitting(portfolio(access))
    before = reading + min(filter(None, (allowance.queries_of([one]) for one in fitting)), default=0)
    whole, left = cost(None), agreed.queries - before
    if whole <= left:
        return replace(allowance, membership=OWN, measuring=whole)
    if more := bisect_right(range(LEAST_DRAWN, max(images)), left, key=cost):
        drawn = LEAST_DRAWN + more - 1
        return replace(allowance, membership={**OWN, "images": drawn}, measuring=cost(drawn))
    line = (
        f"Not measured: membership, which may ask {whole:,} queries for {sum(images):,} images ({cost(LEAST_DRAWN):,} "
        f"where labels are asked of {LEAST_DRAWN} training and test images alone), in {allowance.takes(whole)}; "
        f"--queries {agreed.queries} does not allow it."
    )
    return replace(allowance, unmeasured=(line,))


# Time

START_S = 20.0
"""Seconds of a step before its first stage runs and after its last."""

TIMED = 3
"""Timed batches, of which the quickest counts."""

SHADOW_S = 5.0
"""Seconds of a shadow model besides its training: starting the process, reading images, answering."""


def wall_seconds(device_s: float) -> float:
    """Seconds that so many device-seconds take on this machine, whose devices work in parallel."""
    return device_s / (torch.cuda.device_count() if torch.cuda.is_available() else allotted_cpus())


def forecast(tree: dict[str, Any], store: Store) -> tuple[float, float]:
    """Device-seconds of a parsed sweep file: of what the store lacks, as far as that can be told, and of what it holds.

    A stage like a measured one is expected to take as long, a training that was never measured as a few of its steps
    tell, an attack or a judge the mean of the measured ones. The store must hold the data.
    """
    plan = make_plan(trials_of(as_loaded(tree)), store)
    missing = 0.0
    for stage in plan.missing:
        if (measured := plan.history.expected(stage)) is not None:
            missing += measured[0]
        elif stage.name in ("target", "shadow"):
            missing += _training_seconds(stage, store)
        else:
            missing += plan.history.usual(stage.name) or 0.0
    held = (stage for stage in plan.stages if stage.fingerprint in plan.cached)
    return missing, sum(float(store.manifest(stage)["seconds"]) for stage in held)


def _training_seconds(stage: Stage, store: Store) -> float:
    """What a training, or one of a part of the images for a shadow model, is expected to take."""
    data, part = store.metrics(stage.inputs["data"]), stage.config.get(PART)
    train, test, classes = (int(present(data[key], key)) for key in ("num_train", "num_test", "num_classes"))
    return (0.0 if part is None else SHADOW_S) + timed_training(
        recipe_from(stage.config),
        images=train if part is None else round(part["share"] * (train + test)),
        classes=classes,
        side=stage.inputs["data"].config["size"],
        transform_input=bool(stage.config.get("transform_input")),
    )


@lru_cache
def timed_training(
    recipe: TrainingRecipe, *, images: int, classes: int, side: int, transform_input: bool = False
) -> float:
    """Seconds of a plain training of `recipe` on so many images of `side` pixels, on this machine's device.

    Trains on one batch of noise, once to warm up and `TIMED` times, of which the quickest counts; on a CPU in one
    thread, as a stage does. Cached for recipes that differ in their defense alone. Measuring the test accuracy is left
    out.
    """
    count = min(recipe.batch_size, images)
    noise = torch.randint(0, 256, (count, 3, side, side), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    names = tuple(map(str, range(classes)))
    data = ImageSet(images=noise, labels=torch.arange(count) % classes, names=names)
    model = build_classifier(recipe.architecture, classes, protocol=PROTOCOL, transform_input=transform_input)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        records = train_classifier(model, data, replace(recipe, epochs=1 + TIMED), seed=0, device=device)
    finally:
        torch.set_num_threads(threads)
    return min(record.seconds for record in records[1:]) * images / count * recipe.epochs
