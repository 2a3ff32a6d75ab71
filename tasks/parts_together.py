"""A part of an attack that several workers make under Ray Train: each with its rows of every batch, resumable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import torch

from smoothsweep.core.attacks.kept_networks import PART_NETWORKS, kind_of
from smoothsweep.core.attacks.registry import PARTS
from smoothsweep.core.attacks.shared.attack_inputs import MadePart, on_cpu
from smoothsweep.core.attacks.shared.view import View
from smoothsweep.core.training.team import Team
from smoothsweep.tasks import ray_train
from smoothsweep.tasks.attacking import OpenTarget, attack_inputs_of
from smoothsweep.tasks.context import Config, Inputs, TaskContext, joined_context
from smoothsweep.tasks.unfinished import load_checkpoint, save_checkpoint

FINAL_FILE = "final.pt"


def make_together(config: Config, inputs: Inputs, context: TaskContext) -> tuple[MadePart, int]:
    """The part, made on config['workers'] Ray Train workers, and how often they asked the target in all.

    On GPUs BatchNorm is synchronised, on CPUs torch has no such layer: each rank normalises its own rows, and the
    statistics that are kept are those of the first.
    """
    settings = {
        "config": dict(config),
        "inputs": {name: str(path) for name, path in inputs.items()},
        "work": str(context.work),
        "shared": context.shared,
    }
    ray_train.fit(_worker_loop, settings, workers=config["workers"], work=context.work, shared=context.shared)
    final: Any = load_checkpoint(context.work / FINAL_FILE)
    if final is None:
        raise RuntimeError("Ray Train ended without leaving the part")
    networks = {}
    for name, network_state in final["networks"].items():
        row = PART_NETWORKS[network_state["kind"]]
        networks[name] = row.load()(row.config(**network_state["config"]))
        networks[name].load_state_dict(network_state["state"])
        networks[name].eval().requires_grad_(False)
    return MadePart(tensors=final["tensors"], networks=networks, facts=final["facts"]), final["queries"]


def _worker_loop(settings: dict[str, Any]) -> None:
    """What each rank runs: the part's own function, with Ray Train's checkpoints in and out."""
    rank, world_size, device = ray_train.prepare_rank(settings["on_gpu"])
    team = Team(rank=rank, world_size=world_size, synchronised=settings["on_gpu"])
    config, shared = settings["config"], settings["shared"]
    inputs = {name: Path(path) for name, path in settings["inputs"].items()}
    with joined_context(inputs["public"], Path(settings["work"]), device=device, shared=shared) as (public, context):
        inputs = {name: shared.bring(path) if shared else path for name, path in inputs.items()} | {"public": public}
        kind = PARTS[config["part"]]
        view = OpenTarget(inputs.get("target"), config, device).view(kind.access if "target" in inputs else "none")
        part_context = Rank(context, view, team)
        made = kind.function()(
            config["settings"], attack_inputs_of(tuple(inputs), config, inputs, device), view, part_context
        )
        queries = part_context.queries
        if rank == 0:
            save_checkpoint(context.work / FINAL_FILE, _plain(made) | {"queries": queries})


def _plain(made: MadePart) -> dict[str, Any]:
    networks = {
        name: {
            "kind": kind_of(network),
            "config": asdict(cast("Any", network.config)),
            "state": on_cpu(network.state_dict()),
        }
        for name, network in made.networks.items()
    }
    return {"tensors": on_cpu(made.tensors), "networks": networks, "facts": dict(made.facts)}


class Rank:
    """An attack's `PartContext` of one rank: what it keeps is Ray Train's checkpoint, of the first rank."""

    def __init__(self, context: TaskContext, view: View, team: Team) -> None:
        self._context, self._view, self.team, self._shown_before = context, view, team, 0

    @property
    def queries(self) -> int:
        """How many images all ranks together were shown for what is there now. A collective."""
        counted = torch.tensor(self._view.queries, device=self._view.execution.device)
        return self._shown_before + int(self.team.sum(counted))

    def last_state(self) -> dict[str, Any] | None:
        state: Any = ray_train.last_state()
        if state is None:
            return None
        self._shown_before = int(state["queries"])
        return state["state"]

    def keep_state(self, state: Mapping[str, Any]) -> None:
        ray_train.report_state(self.team.rank, {"state": dict(state), "queries": self.queries})

    def progress(self, fraction: float, text: str) -> None:
        if self.team.rank == 0:
            self._context.progress(fraction, text)
