"""The runs of an experiment by the fingerprint among their tags: one run for each thing, whatever wrote it and when."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from smoothsweep.orchestrator.tracking.runs.points import already_gone
from smoothsweep.orchestrator.tracking.runs.searching import PROPOSAL

KIND = "smoothsweep.kind"
KEYS = {"sweep": "smoothsweep.sweep", "trial": "smoothsweep.trial", "recipe": "smoothsweep.recipe"}
CONTENT = "smoothsweep.content"  # of a recipe's run: which trials its means are over
POINTS = "smoothsweep.points"  # fingerprint of the measured points that were written into a run
VERDICT_DIGEST = "smoothsweep.told"  # fingerprint of the report's verdict that the run holds
VERDICT_NUMBERS = "smoothsweep.told_numbers"  # its numbers with their steps, as JSON
PARENT = "mlflow.parentRunId"
EARLIER = "earlier "  # before the kind of a run that a present one has replaced
PAGE = 500


@dataclass(frozen=True, kw_only=True)
class StoredRun:
    """A run that exists.

    Attributes:
        status: RUNNING, FINISHED, FAILED or KILLED.
        content: Which trials a recipe's means are over; which proposal of a search a trial belongs to.
        started: Time of its start, in milliseconds.
        points: Fingerprint of its measured points, empty where an earlier version wrote them.
        seeds: How many seeds a recipe's means are over.
        verdict: Fingerprint of the report's verdict that it holds, empty without one.
        numbers: The numbers of that verdict, as `VERDICT_NUMBERS` has them.
        name, params: As the server had them when it was read.
        retired: A present run has replaced it.
    """

    run_id: str
    status: str
    content: str = ""
    started: int = 0
    points: str = ""
    seeds: int = 0
    verdict: str = ""
    numbers: str = ""
    name: str = ""
    params: Mapping[str, str] = field(default_factory=dict)
    retired: bool = False


class Runs:
    """kind ("sweep" | "trial" | "recipe") and fingerprint -> run. Read once; `read` again after a failure.

    A request that seemed lost may yet have created its run, and two drivers may both have created one. Reading keeps
    one of them, a finished one before others and then the oldest, and deletes the rest.
    """

    def __init__(self, client: Any, experiment_id: str) -> None:
        self._client, self._experiment_id = client, experiment_id
        self._known: dict[tuple[str, str], StoredRun] = {}
        self.read()

    def get(self, kind: str, fingerprint: str) -> StoredRun | None:
        return self._known.get((kind, fingerprint))

    def all(self) -> Iterable[tuple[tuple[str, str], StoredRun]]:
        """((kind, fingerprint), run) of everything known."""
        return self._known.items()

    def bring_back(self, kind: str, fingerprint: str) -> None:
        """Remember that a run is retired no more."""
        self.note(kind, fingerprint, replace(self._known[kind, fingerprint], retired=False))

    def read(self) -> None:
        """What the server has now. Memory: a few hundred bytes per run."""
        known: dict[tuple[str, str], StoredRun] = {}
        doubles: dict[str, str] = {}  # run that is one too many -> the one that is kept
        parents: dict[str, str] = {}  # run -> its parent
        for run in self._all():
            for kind, key in KEYS.items():
                if key in run.data.tags:
                    doubles.update(_enter(known, (kind, run.data.tags[key]), run))
            parents[run.info.run_id] = run.data.tags.get(PARENT, "")
        for child, parent in parents.items():
            if child in doubles:
                with already_gone():
                    self._client.delete_run(child)
            elif parent in doubles:
                self._client.set_tag(child, PARENT, doubles[parent])
        self._known = known

    def _all(self) -> Iterator[Any]:
        """Every run of the experiment, oldest first, a page at a time."""
        token, order = None, ["attributes.start_time ASC"]
        while True:
            page = self._client.search_runs([self._experiment_id], max_results=PAGE, page_token=token, order_by=order)
            yield from page
            token = page.token
            if not token:
                return

    def create(
        self, kind: str, fingerprint: str, name: str, tags: dict[str, str], started: int | None = None
    ) -> StoredRun:
        """A new run with these tags, in one transaction. started: when its work began, in milliseconds; None: now."""
        tags = {KIND: kind, KEYS[kind]: fingerprint, "mlflow.runName": name, **tags}
        run = self._client.create_run(self._experiment_id, start_time=started, tags=tags)
        stored = StoredRun(run_id=run.info.run_id, status="RUNNING", started=run.info.start_time)
        return self.note(kind, fingerprint, stored)

    def note(self, kind: str, fingerprint: str, stored: StoredRun) -> StoredRun:
        """Remember what has become of a run."""
        self._known[kind, fingerprint] = stored
        return stored

    def drop(self, kind: str, fingerprint: str) -> None:
        """Delete a run, to start over."""
        stored = self._known.pop((kind, fingerprint), None)
        if stored is not None:
            with already_gone():
                self._client.delete_run(stored.run_id)


def _enter(known: dict[tuple[str, str], StoredRun], key: tuple[str, str], run: Any) -> dict[str, str]:
    """Note the run unless a better one is known. Returns the run that is one too many, with the one kept instead."""
    content = run.data.tags.get(CONTENT) or run.data.tags.get(PROPOSAL, "")
    new = StoredRun(
        run_id=run.info.run_id,
        status=run.info.status,
        content=content,
        started=run.info.start_time,
        points=run.data.tags.get(POINTS, ""),
        seeds=len(run.data.tags.get("smoothsweep.seeds", "").split()),
        verdict=run.data.tags.get(VERDICT_DIGEST, ""),
        numbers=run.data.tags.get(VERDICT_NUMBERS, ""),
        name=run.info.run_name or "",
        params=run.data.params,
        retired=run.data.tags.get(KIND, "").startswith(EARLIER),
    )
    old = known.setdefault(key, new)
    if old is new:
        return {}
    if old.status != "FINISHED" and new.status == "FINISHED":
        known[key] = new
        return {old.run_id: new.run_id}
    return {new.run_id: old.run_id}
