"""What pages read of finished stages: verified before a run takes them for finished, and when a page is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from smoothsweep.core.errors import ArtifactDamaged, InputError
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.base import Store, report_damage

Result = TypeVar("Result")

SHOWN_BYTES = 2**20  # tables, curves, names: what pages read whole. Tensors are verified by their readers


def quarantine_damaged(store: Store, stages: Iterable[Stage]) -> None:
    """Verify the small files of those of these stages that are finished; what is damaged is told of and set aside.

    It is then missing, and the next plan makes it again.
    """
    for stage in stages:
        if store.has(stage):
            try:
                _verify(store, stage)
            except ArtifactDamaged as damaged:
                report_damage(str(damaged))


def read_with_repair(read: Callable[[], Result]) -> tuple[Result, bool]:
    """read(), again whenever it meets a damaged artifact, which is then set aside and told of; whether it met one."""
    met: set[str] = set()
    while True:
        try:
            return read(), bool(met)
        except ArtifactDamaged as damaged:
            if str(damaged) in met:  # setting it aside did not help
                raise InputError(str(damaged)) from None
            report_damage(str(damaged))
            met.add(str(damaged))


def _verify(store: Store, stage: Stage) -> None:
    for name in store.manifest(stage)["files"]:
        path = store.place(stage) / name  # of a remote store what is here; the rest is verified as it is fetched
        if path.is_file() and path.stat().st_size < SHOWN_BYTES:
            store.file(stage, name)
