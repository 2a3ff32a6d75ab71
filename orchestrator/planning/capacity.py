"""Whether a cluster can ever do what a sweep asks for: said at once, not after an hour of waiting for a machine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.sweeps.schema import Resources
from smoothsweep.tasks.stage_names import stage_title

if TYPE_CHECKING:
    from smoothsweep.orchestrator.cluster.connection import ClusterFacts

GPU_WISHES = {"gpus_per_training": True, "gpus_per_task": False}  # key of resources -> whether it is for trainings


def refuse_unfit(facts: ClusterFacts, resources: Resources, stages: Iterable[Stage]) -> None:
    """Raise InputError where a stage would wait for ever, or run on another device than the sweep asks for.

    stages: those that are to run. GPUs that the cluster promises (SMOOTHSWEEP_CLUSTER_GPUS) count as if they were
    there. A wish for GPUs that the sweep file does not state itself, the default, is no demand: CPUs do it then.
    """
    stages = list(stages)
    if not stages:
        return
    _check_cpus(facts, resources)
    for key, trains in GPU_WISHES.items():
        if any(stage.task.trains == trains for stage in stages):
            _check_gpus(facts, key, getattr(resources, key), stated=key in resources.model_fields_set)
    for stage in {stage.config["workers"]: stage for stage in stages if stage.config.get("workers", 1) > 1}.values():
        _check_workers(facts, stage)


def _check_cpus(facts: ClusterFacts, resources: Resources) -> None:
    if facts.node_cpus is not None and resources.cpus_per_task > facts.node_cpus:
        raise InputError(
            f"resources.cpus_per_task: expected at most {facts.node_cpus}, which the largest machine has, "
            f"got {resources.cpus_per_task}"
        )


def _check_gpus(facts: ClusterFacts, key: str, wish: float, *, stated: bool) -> None:
    if wish > 1 and wish != int(wish):
        raise InputError(f"resources.{key}: expected at most 1 or a whole number, got {wish:g}")
    if not facts.gpus:
        if stated and wish and not facts.is_local:
            raise InputError(
                f"resources.{key}: expected a cluster with GPUs, or with SMOOTHSWEEP_CLUSTER_GPUS set to those it can "
                f"grow to, got one without; {key} 0 asks for none"
            )
        return
    most = facts.gpus if facts.node_gpus is None else facts.node_gpus
    if wish > most:
        where = "the cluster" if facts.node_gpus is None else "the largest machine"
        raise InputError(f"resources.{key}: expected at most {most:g}, which {where} has, got {wish:g}")


def _check_workers(facts: ClusterFacts, stage: Stage) -> None:
    workers = stage.config["workers"]
    if facts.gpus:
        if workers > facts.gpus:
            raise InputError(
                f"workers: expected at most {int(facts.gpus)}, the GPUs that the cluster has or can grow to, "
                f"got {workers} for the stage {stage_title(stage.name)}"
            )
    elif workers > facts.cpus:
        raise InputError(
            f"workers: expected at most {facts.cpus}, the CPUs of the cluster, which has no GPUs; "
            f"got {workers} for the stage {stage_title(stage.name)}"
        )
