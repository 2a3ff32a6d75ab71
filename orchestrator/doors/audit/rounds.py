"""`smoothsweep audit`, from the model to its pages: a first answer, then rounds that refine it while there is time."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core import screen
from core.audit.portfolio import portfolio
from core.data.listing import few
from core.data.own.shared import refuse_shared, said
from core.data.sources import list_unlabelled
from core.errors import InputError
from core.files import write_file
from core.words import brief
from orchestrator.doors.audit.pages import write_audit
from orchestrator.doors.audit.subject import AuditRequest, imported_model, people_of
from orchestrator.doors.audit.sweep_file import as_file, audit_sweep, lesser, untried
from orchestrator.doors.confirm import Confirmation
from orchestrator.doors.run import run_and_report
from sweeps.imported import TargetCard

SEEDS = (1, 2, 3, 4, 5)
SWEEP, STORE = "audit.yaml", "store"


@dataclass(frozen=True, kw_only=True)
class Round:
    """seeds of the attacks; whole: all attacks, not only those of the first answer. share: of the time that the whole
    so far took, how much this round is expected to take."""

    seeds: tuple[int, ...]
    whole: bool
    share: float


def rounds(access: str) -> Iterator[Round]:
    """The first answer, then the slower attacks, then more seeds."""
    yield Round(seeds=SEEDS[:1], whole=False, share=0.0)
    if len(portfolio(access, whole=True)) > len(portfolio(access, whole=False)):
        yield Round(seeds=SEEDS[:1], whole=True, share=2.0)
    for many in range(2, len(SEEDS) + 1):
        yield Round(seeds=SEEDS[:many], whole=True, share=1 / (many - 1))


def run_audit(request: AuditRequest) -> int:
    """Everything. Returns the exit code; InputError before anything is attacked for what is wrong with the request."""
    started = time.monotonic()
    request.check()
    people = people_of(request.data)
    _look_for_the_same(request)
    model, card = imported_model(request, people)
    access, code = lesser(request.access, card.access), 0
    for one in rounds(access):
        spent = time.monotonic() - started
        if one.share and spent * (1 + one.share) > 60 * request.minutes:
            break
        code = _run(request, model, card, one)
        if code:
            break
    _say_where(request)
    return code


def _look_for_the_same(request: AuditRequest) -> None:
    """Raise InputError where a private picture is public too; say which only look it."""
    if not list_unlabelled(request.public):
        raise InputError(f"--public {request.public}: expected images, got none")
    if pairs := refuse_shared(request.data, request.public):
        alike = f"{len(pairs)} pictures of --data look like one of --public: {few(said(pairs, '~'))}"
        screen.err(f"smoothsweep: {alike}; an attack that shows them may have shown what was public")


def _run(request: AuditRequest, model: Path, card: TargetCard, one: Round) -> int:
    sweep = request.folder / SWEEP
    write_file(sweep, as_file(_tree(request, model, card, one)), parents=True)
    store = str(request.folder / STORE)
    code = run_and_report(sweep, [], store, None, None, None, Confirmation(yes=True))
    write_audit(sweep, store, request.folder, name=brief(request.model.stem), card=card, anonymous=request.redact,
                untried=untried(request.access, card))  # fmt: skip
    return code


def _tree(request: AuditRequest, model: Path, card: TargetCard, one: Round) -> dict[str, Any]:
    access = lesser(request.access, card.access)
    return audit_sweep(
        model=model, card=card, data=request.data.resolve(), public=request.public.resolve(),
        embedder=request.embedder, access=access, people=request.people, seeds=list(one.seeds),
        whole=one.whole,
    )  # fmt: skip


def _say_where(request: AuditRequest) -> None:
    folder = request.folder
    said = json.loads((folder / "audit.json").read_text(encoding="utf-8"))["said"]
    for line in (*said["answer"], *said["access"], *said["people"]):
        screen.out(line)
    screen.out(f"audit: {folder / 'audit.html'}, {folder / 'audit.pdf'}, {folder / 'audit.json'}")
    screen.out(f"compare: smoothsweep ui --store {folder / STORE}")
