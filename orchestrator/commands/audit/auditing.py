"""Run `smoothsweep audit`: a first answer, then wider rounds that refine it while there is time."""

from __future__ import annotations

import json
import time

from smoothsweep.core import screen
from smoothsweep.core.data.likeness import refuse_shared, warnings_of
from smoothsweep.core.data.sources import TEST, count_labelled, list_unlabelled
from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.commands.audit.people_shown import look_for_people
from smoothsweep.orchestrator.commands.audit.portfolio import COMPONENTS, LEAST_PUBLIC, components_of
from smoothsweep.orchestrator.commands.audit.rounds import FIRST, PreparedAudit, refinements, seeds_left
from smoothsweep.orchestrator.commands.audit.subject import AuditRequest
from smoothsweep.orchestrator.commands.audit.work import Work


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
    work = Work(prepared=prepared, started=started, told=told)
    for line in prepared.coming:
        screen.out(line)
    code = _refine(work)
    _print_result(work)
    return code


def _refine(work: Work) -> int:
    """Run a first answer, then wider rounds while there is time. Returns the exit code."""
    if code := work.do(work.earlier() or FIRST):
        return code
    trainings, seeds = work.fitting(), work.request.seeds
    if all(one in work.round.trainings for one in trainings) and (code := work.attack_by_shadows()):
        return code
    for one in refinements(work.prepared.access, trainings, seeds=seeds):
        wider = one.beyond(work.round)
        if wider == work.round:
            continue
        if not work.fits(wider):
            break
        if code := work.do(wider):
            return code
    while (more := work.round.further) and work.fits(more):
        if code := work.do(more):  # slow attacks that do not fit leave time for seeds of the quick ones
            return code
    if more is not None and len(work.round.seeds) < seeds:
        work.write(seeds_left(seeds, work.request.minutes, work.round, next_s=work.seconds_of(more)))
    return 0


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


def _print_result(work: Work) -> None:
    """Print the sentences of the pages, which attacks were not tried, and where the pages lie."""
    folder = work.request.folder
    sentences = json.loads((folder / "audit.json").read_text(encoding="utf-8"))["said"]
    for part in ("answer", "beside", "membership", "trainings", "access", "people"):
        for line in sentences[part]:
            screen.out(line)
    for line in work.left_out:
        screen.out(line)
    screen.out(f"audit: {folder / 'audit.html'}, {folder / 'audit.pdf'}, {folder / 'audit.json'}")
    screen.out(f"compare: smoothsweep ui --store {work.prepared.store}")
