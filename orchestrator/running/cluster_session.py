"""Where the trials of a run are worked on: a Ray cluster and the scheduler on it, connected when first needed."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from smoothsweep.orchestrator.cluster import interrupts
from smoothsweep.orchestrator.cluster.interrupts import ClusterLost
from smoothsweep.orchestrator.cluster.lifeline import Lifeline, lifeline_of_this_driver
from smoothsweep.orchestrator.planning.plan import refuse_unfit
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.schema import Resources

if TYPE_CHECKING:
    from smoothsweep.orchestrator.cluster.connection import ClusterFacts


class ClusterSession:
    """Use as a context manager: what was connected is let go of at the end."""

    def __init__(
        self,
        address: str | None,
        resources: Resources,
        store: Store,
        to_run: Iterable[Stage] = (),
        *,
        code: str | None = None,
    ) -> None:
        """to_run: stages that the cluster must be able to do; `facts` and `scheduler` raise InputError if it cannot.

        code: digest of the code that its workers must have, None for any.
        """
        self._address, self._resources, self._store, self._to_run = address, resources, store, to_run
        self._code = code
        self._scheduler: Any = None
        self._facts: ClusterFacts | None = None
        self._lifeline: Lifeline | None = None

    def __enter__(self) -> ClusterSession:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._facts is None:
            return
        from smoothsweep.orchestrator.cluster.connection import disconnect, end_work

        if self._lifeline is not None:
            self._lifeline.close()
        if kind is ClusterLost:
            return
        if kind is KeyboardInterrupt and self._scheduler is not None:
            end_work(self._scheduler)
        if interrupts.end_requested():
            return  # Ray ends with the process (`interrupts.leave`): its own shutdown would meet Tune's thread at work
        disconnect()
        self._store.sweep_away_drafts()  # of workers that were killed on the way

    @property
    def is_named_cluster(self) -> bool:
        """Whether there is a cluster to join, not one to start here."""
        return bool(self._address or os.environ.get("RAY_ADDRESS"))

    @property
    def scheduler(self) -> Any:
        """The actor that makes stages."""
        self._connect()
        return self._scheduler

    @property
    def facts(self) -> ClusterFacts:
        """What the cluster offers. Raises InputError if there is none at the address."""
        return self._connect()

    def _connect(self) -> ClusterFacts:
        if self._facts is None:
            from smoothsweep.orchestrator.cluster.connection import HEAD, connect
            from smoothsweep.orchestrator.scheduling.scheduler import StageScheduler

            self._facts = connect(self._address, self._resources.trial_slots)
            self._lifeline = lifeline_of_this_driver()
            refuse_unfit(self._facts, self._resources, self._to_run)
            on_head = StageScheduler.options(resources={HEAD: 0.001})
            resources = self._resources.model_dump()
            cpus, gpus = self._facts.cpus, self._facts.gpus
            self._scheduler = on_head.remote(self._store, resources, cpus, gpus, code=self._code)
        return self._facts
