"""Runs that an earlier version of a stage, or of the user's files, has made: kept, and no longer shown as the present.

A stage whose version was raised is another stage, so a sweep that is continued gets new runs beside the old ones. The
old ones lose the kind that pages filter by, and say which run has taken their place.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from smoothsweep.orchestrator.tracking.runs.points import already_gone
from smoothsweep.orchestrator.tracking.runs.runs import EARLIER, KIND, Runs, StoredRun

REPLACED_BY = "smoothsweep.replaced_by"


def retire(client: Any, runs: Runs, present: Mapping[str, Collection[str]]) -> int:
    """Retire each run that is none of the present ones, and means the same as one of them. Returns how many.

    runs: as read after the last of them was written, with its params. present: kind of run -> fingerprints. Two runs
    mean the same when they have one name, and one value in every param that both have. Recipes that the sweep no longer
    names, or that other settings were tried with, stay as they are.
    """
    if not any(key[1] not in present.get(key[0], ()) for key, run in runs.all() if key[0] in present):
        return 0
    now = {
        kind: [run for (of, fingerprint), run in runs.all() if of == kind and fingerprint in fingerprints]
        for kind, fingerprints in present.items()
    }
    retired = 0
    for (kind, fingerprint), run in list(runs.all()):
        if kind not in present or fingerprint in present[kind] or run.retired:
            continue
        if heir := next((fingerprint for fingerprint in now[kind] if _means_the_same(fingerprint, run)), None):
            client.set_tag(run.run_id, REPLACED_BY, heir.run_id)
            client.set_tag(run.run_id, KIND, f"{EARLIER}{kind}")
            retired += 1
    return retired


def bring_back(client: Any, runs: Runs, kind: str, fingerprint: str) -> None:
    """Have a run that was retired be shown again, where there is one: the code is what it was."""
    run = runs.get(kind, fingerprint)
    if run is not None and run.retired:
        client.set_tag(run.run_id, KIND, kind)
        with already_gone():
            client.delete_tag(run.run_id, REPLACED_BY)
        runs.bring_back(kind, fingerprint)


def _means_the_same(a: StoredRun, b: StoredRun) -> bool:
    shared = a.params.keys() & b.params.keys()
    return bool(shared) and a.name == b.name and all(a.params[key] == b.params[key] for key in shared)
