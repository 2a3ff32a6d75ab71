"""`smoothsweep audit`, from the model to its pages: a first answer, then rounds that refine it while there is time."""

from __future__ import annotations

import json
import time

from smoothsweep.core import screen
from smoothsweep.core.audit.portfolio import COMPONENTS, LEAST_PUBLIC, components_of
from smoothsweep.core.data.own.overlap import refuse_shared, warnings_of
from smoothsweep.core.data.sources import TEST, count_labelled, list_unlabelled
from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.commands.audit import late
from smoothsweep.orchestrator.commands.audit.rounds import FIRST, Asked, refinements
from smoothsweep.orchestrator.commands.audit.subject import AuditRequest, as_target, imported_model
from smoothsweep.orchestrator.commands.audit.work import Work
from smoothsweep.orchestrator.commands.importing.converting import check_description


def run_audit(request: AuditRequest) -> int:
    """Everything. Returns the exit code; InputError before anything is attacked for what is wrong with the request."""
    started = time.monotonic()
    request.check()
    people = count_labelled(request.data)
    request.check_split(people.of(TEST) > 0)
    if not request.gallery and request.imported is None:
        check_description(as_target(request, request.folder / "model", people.classes))
    notes = _look_for_the_same(request)
    model, card = imported_model(request, people.classes)
    asked = Asked(request=request, model=model, card=card, people=people)
    work = Work(asked=asked, started=started, told=notes)
    for line in asked.coming:
        screen.out(line)
    wanted = request.trainings(card)
    done = work.earlier(wanted) or FIRST
    code = work.do(done)
    trainings = () if code else work.fitting(wanted, after=done)
    if not code and all(one in done.trainings for one in trainings):
        code = work.attack_by_shadows()
    for one in refinements(asked.access, trainings, seeds=request.seeds):
        wider = one.beyond(done)
        if wider == done:
            continue
        if code or not work.fits(wider, after=done):
            break
        code, done = work.do(wider), wider
    while not code and (more := done.further) and work.fits(more, after=done):
        code, done = work.do(more), more  # slow attacks that do not fit leave time for seeds of the quick ones
    if not code and len(done.seeds) < request.seeds and more is not None:
        work.write(late.seeds_left(request, done, next_s=work.seconds_of(more, after=done)))
    _say_where(work)
    return code


def _look_for_the_same(request: AuditRequest) -> tuple[str, ...]:
    """Raise InputError where a private picture is public too; say which only look it, and what does not fit. What of it
    the pages say, without names; nothing of rendered public faces, which are new."""
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


def _say_where(work: Work) -> None:
    """What the pages say, what they could not try, and where they are."""
    folder = work.request.folder
    sentences = json.loads((folder / "audit.json").read_text(encoding="utf-8"))["said"]
    for part in ("answer", "beside", "membership", "trainings", "access", "people"):
        for line in sentences[part]:
            screen.out(line)
    for line in work.left_out:
        screen.out(line)
    screen.out(f"audit: {folder / 'audit.html'}, {folder / 'audit.pdf'}, {folder / 'audit.json'}")
    screen.out(f"compare: smoothsweep ui --store {work.asked.store}")
