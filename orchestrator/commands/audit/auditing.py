"""Run `smoothsweep audit`: a first answer, then wider rounds that refine it while there is time."""

from __future__ import annotations

import json
import time

from smoothsweep.core import screen
from smoothsweep.core.audit.portfolio import COMPONENTS, LEAST_PUBLIC, components_of
from smoothsweep.core.data.own.overlap import refuse_shared, warnings_of
from smoothsweep.core.data.sources import TEST, count_labelled, list_unlabelled
from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.commands.audit.importing import as_target, imported_model
from smoothsweep.orchestrator.commands.audit.rounds import FIRST, PreparedAudit, refinements, seeds_left
from smoothsweep.orchestrator.commands.audit.subject import AuditRequest
from smoothsweep.orchestrator.commands.audit.work import Work
from smoothsweep.orchestrator.commands.importing.converting import check_description


def run_audit(request: AuditRequest) -> int:
    """Audit a model and write its pages. Returns the exit code.

    Raises InputError for a faulty request, before anything is attacked.
    """
    started = time.monotonic()
    request.check()
    people = count_labelled(request.data)
    request.check_split(people.of(TEST) > 0)
    if not request.gallery and request.imported is None:
        check_description(as_target(request, request.folder / "model", people.classes))
    notes = _warn_of_shared_pictures(request)
    model, card = imported_model(request, people.classes)
    prepared = PreparedAudit(request=request, model=model, card=card, people=people)
    work = Work(prepared=prepared, started=started, told=notes)
    for line in prepared.coming:
        screen.out(line)
    wanted = request.trainings(card)
    done = work.earlier(wanted) or FIRST
    code = work.do(done)
    trainings = () if code else work.fitting(wanted, after=done)
    if not code and all(one in done.trainings for one in trainings):
        code = work.attack_by_shadows()
    for one in refinements(prepared.access, trainings, seeds=request.seeds):
        wider = one.beyond(done)
        if wider == done:
            continue
        if code or not work.fits(wider, after=done):
            break
        code, done = work.do(wider), wider
    while not code and (more := done.further) and work.fits(more, after=done):
        code, done = work.do(more), more  # slow attacks that do not fit leave time for seeds of the quick ones
    if not code and len(done.seeds) < request.seeds and more is not None:
        work.write(seeds_left(request, done, next_s=work.seconds_of(more, after=done)))
    _print_result(work)
    return code


def _warn_of_shared_pictures(request: AuditRequest) -> tuple[str, ...]:
    """Refuse private pictures that are public too, and warn of pairs that look alike and of ill-fitting images.

    Returns the warnings for the pages, without names; none for rendered public faces, which are no photographs.
    Raises InputError where a picture is in both sets.
    """
    if request.public is None:
        return ()
    if (images := len(list_unlabelled(request.public))) < LEAST_PUBLIC:
        raise InputError(f"--public {request.public}: expected at least {LEAST_PUBLIC} images, got {images or 'none'}")
    screen.out(f"comparing the pictures of {request.people_option} with {images} of --public")
    pairs, doubts = refuse_shared(request.data, request.public)
    for line in warnings_of(pairs, doubts, private=request.people_option):
        screen.err(f"smoothsweep: --public {request.public}: {line}")
    if images <= COMPONENTS:
        fewer = f"{images} images make a prior of {components_of(images)} directions instead of {COMPONENTS}"
        screen.err(f"smoothsweep: --public {request.public}: {fewer}; an attacker with more images may find more")
    return warnings_of(pairs, doubts, private="the private set", named=False)


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
