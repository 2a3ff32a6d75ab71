"""`smoothsweep audit`, from the model to its pages: a first answer, then rounds that refine it while there is time."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from smoothsweep.core import screen
from smoothsweep.core.audit.portfolio import COMPONENTS, LEAST_PUBLIC, components_of
from smoothsweep.core.audit.references import Beside
from smoothsweep.core.data.own.overlap import refuse_shared, warnings_of
from smoothsweep.core.data.sources import list_unlabelled
from smoothsweep.core.errors import InputError
from smoothsweep.core.readers.files import read_text
from smoothsweep.orchestrator.commands.audit.forecast import forecast
from smoothsweep.orchestrator.commands.audit.late import seeds_left
from smoothsweep.orchestrator.commands.audit.rounds import FIRST, REACHES, SEEDS, Round, refinements, round_of
from smoothsweep.orchestrator.commands.audit.subject import AuditRequest, as_target, imported_model, people_of
from smoothsweep.orchestrator.commands.audit.work import STORE, SWEEP, Work
from smoothsweep.orchestrator.commands.importing.converting import check_description
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.imported import CARD
from smoothsweep.sweeps.yaml_reader import read_yaml


def run_audit(request: AuditRequest) -> int:
    """Everything. Returns the exit code; InputError before anything is attacked for what is wrong with the request."""
    started = time.monotonic()
    request.check()
    people, own_test = people_of(request.data)
    request.check_split(own_test)
    if not request.gallery and not (isinstance(request.model, Path) and (request.model / CARD).is_file()):
        check_description(as_target(request, request.folder / "model", people))
    told = _look_for_the_same(request)
    model, card = imported_model(request, people)
    work = Work(request=request, model=model, card=card, started=started, own_test=own_test, told=told)
    for line in work.coming:
        screen.out(line)
    wanted = request.beside(card)
    done = _earlier(work, wanted) or FIRST
    code = work.do(done)
    beside = () if code else work.fitting(wanted, after=done)
    if not code and all(one in done.beside for one in beside):
        code = work.attack_by_shadows()
    for one in refinements(work.access, beside, seeds=request.seeds):
        wider = one.beyond(done)
        if wider == done:
            continue
        if code or not work.fits(wider, after=done):
            break
        code, done = work.do(wider), wider
    while not code and (more := done.further) and work.fits(more, after=done):
        code, done = work.do(more), more  # slow attacks that do not fit leave time for seeds of the quick ones
    if not code and (short := seeds_left(work, done)):
        work.write(*short)
    _say_where(work)
    return code


def _earlier(work: Work, wanted: Sequence[Beside]) -> Round | None:
    """The widest round that an earlier run of this command answered, with all of it in the store; None without.

    What the pages show already is where a further run begins, however few its minutes are.
    """
    if not work.sweep.is_file() or not (work.request.folder / "audit.json").is_file():
        return None
    try:
        tree, store = read_yaml(read_text(work.sweep), SWEEP), open_store(work.store)
        before = round_of(tree, work.access, wanted)
        if not forecast(tree, store).device_s:
            return before  # also where a later version tries more attacks, which it then does first
        for many in range(len(before.seeds), 0, -1):
            for reach in reversed(REACHES[: REACHES.index(before.reach) + 1]):
                one = replace(before, seeds=SEEDS[:many], reach=reach)
                if not forecast(work.tree(one, membership=False), store).device_s:
                    return one
    except (InputError, OSError, LookupError, TypeError, ValueError):  # another audit's file, or a damaged one
        return None
    return None


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
    said = json.loads((folder / "audit.json").read_text(encoding="utf-8"))["said"]
    for part in ("answer", "beside", "membership", "trainings", "access", "people"):
        for line in said[part]:
            screen.out(line)
    for line in work.left_out:
        screen.out(line)
    screen.out(f"audit: {folder / 'audit.html'}, {folder / 'audit.pdf'}, {folder / 'audit.json'}")
    screen.out(f"compare: smoothsweep ui --store {folder / STORE}")
