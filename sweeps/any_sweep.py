"""What every kind of sweep has, and how callers ask a sweep of any kind."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from smoothsweep.core.bounds import Count, NotNegative, Positive
from smoothsweep.sweeps.base import NAME, Model, Several

if TYPE_CHECKING:
    from smoothsweep.sweeps.search import Search

Protocol = Literal["clean", "paper"]


class Resources(Model):
    """What one task may take. GPUs are used where the cluster has them.

    How an attack's networks run (rows, compile, cuda_graphs) changes how sums are rounded, and many steps of a descent
    can make a different reconstruction of that: a value other than the default is part of a result's identity, and such
    a sweep shares no attack with one that has another. Nothing else here changes a result.

    Attributes:
        cpus_per_task: CPU cores that Ray reserves for each task; trainings on several workers aside.
        gpus_per_training: GPUs reserved for one training, a fraction to share a device; at most what there is.
        gpus_per_task: GPUs reserved for one task of an attack or a judge, a fraction to share a device; at most what
            there is.
        classes_per_task: Classes that one task of an attack inverts; null chooses it so that every device gets several
            tasks.
        trial_slots: Trials that run at once on this machine without a cluster; null: two per CPU.
        attack_rows: Images that go through the networks at once in an attack; null: as many as suit the kind of device.
        attack_compile: Compile prior and target by torch.compile, which takes a minute before the first step.
        attack_cuda_graphs: Record prior and target once as CUDA graphs and replay them.
        training_timeout_minutes: Minutes after which one training is ended (Ray Train's workers too); null: it is ended
            when silent for 20 times as long as such a stage has taken, half an hour at least.
        attack_timeout_minutes: Minutes after which one task of an attack, a few classes, is ended; null: as for a
            training.
    """

    cpus_per_task: Count = 1
    gpus_per_training: NotNegative = 1.0
    gpus_per_task: NotNegative = 0.5
    classes_per_task: Count | None = None
    trial_slots: Count | None = None
    attack_rows: Count | None = None
    attack_compile: bool = False
    attack_cuda_graphs: bool = False
    training_timeout_minutes: Positive | None = None
    attack_timeout_minutes: Positive | None = None

    @model_validator(mode="after")
    def _one_way_to_run(self) -> Resources:
        if self.attack_compile and self.attack_cuda_graphs:
            raise ValueError("attack_compile, attack_cuda_graphs: expected at most one of them, got both")
        return self


class Tracking(Model):
    """What MLflow gets beside runs and reports."""

    models: Literal["frontier", "all", "none"] = "frontier"  # recipes whose targets become registered models at the end


class AnySweep(Model):
    """The keys of every sweep file.

    A kind adds its own. What a caller may ask of any sweep (`search`, `budget`, `reaudit`, `min_test_acc`, `paper`,
    `accuracy_margin`, `every_seed`, `looks`, `protocol`, `tracking`) is a key or a property of it or, where its files
    cannot say it, a constant of its class.

    Attributes:
        name: The name of the sweep, its results and its report: letters, digits, ".", "_", "-", at most 64 characters.
        grid: Dotted key of this file -> list of values to try; every combination is a cell.
        cells: Combinations that form no full grid; each is combined with the whole grid.
        baseline: Dotted key -> value, the cell that the others are compared with.
    """

    name: Annotated[str, Field(pattern=NAME)]
    grid: dict[str, list[Any]] = Field(default_factory=dict)
    cells: Several[dict[str, Any]] = ()
    baseline: dict[str, Any] = Field(default_factory=dict)
    resources: Resources = Resources()

    if TYPE_CHECKING:

        @property
        def search(self) -> Search | None: ...

        @property
        def min_test_acc(self) -> float | None: ...

    @property
    def combinations(self) -> list[dict[str, Any]]:
        """Every combination of the grid, which beside a search holds keys of the attacker alone."""
        return [dict(zip(self.grid, values, strict=True)) for values in itertools.product(*self.grid.values())]

    @property
    def accuracy_needed(self) -> float | None:
        """The test accuracy without which a recipe is not recommended, if the file asks for one."""
        constraint = self.search.constraints.get("test_acc") if self.search else None
        return constraint.at_least if constraint else self.min_test_acc

    @property
    def leak_searched(self) -> str | None:
        """The leak that a search drives down, which decides its report and its second audit too."""
        return next(iter(self.search.leaks), None) if self.search else None
