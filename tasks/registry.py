"""Every kind of stage: which plain function does it, and which version of its meaning it has.

A task function is `run(config, inputs, out, context) -> metrics`: it reads the artifact directories in `inputs`,
writes files into `out` and returns scalar metrics (None where a value could not be measured). It knows nothing of
Ray, of fingerprints or of the store. Functions are named, not imported, so that planning a sweep loads no torch.

Raise a version when the same configuration would give different numbers: old artifacts are then left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from smoothsweep.core.attacks.registry import ATTACKS, PARTS
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.base import RECONSTRUCTIONS, StageWork
from smoothsweep.core.judges.table import JUDGES, stage_of, work_of
from smoothsweep.core.named_code import load_named
from smoothsweep.tasks.classes import with_same_classes


@dataclass(frozen=True, kw_only=True)
class Task(StageWork):
    """One kind of stage.

    Attributes:
        title: What people read for its name (`tasks.registry`), where that is not the name with spaces.
    """

    version: int
    run: str
    title: str = ""

    def refuse(self, config: Mapping[str, Any], inputs: Mapping[str, Mapping[str, Any]]) -> None:
        """Raise the InputError that the task would raise before it begins; inputs: name -> configuration."""
        if self.check is not None:
            load_named(self.check)(config, {name: inputs[name] for name in self.check_reads if name in inputs})

    def function(self) -> Callable[..., Any]:
        return with_same_classes(load_named(self.run), self.labelled) if self.labelled else load_named(self.run)

    def shard_function(self) -> Callable[..., Any]:
        if self.shard is None:
            raise TypeError(f"{self.run} is not sharded")
        shard = load_named(self.shard)
        return with_same_classes(shard, self.labelled, whole=False) if self.labelled else shard


HISTORY = ("history.parquet",)
"""One row per epoch: what was not measured in it is missing. The losses are looked at as they come."""
MISSING_LOSSES = {part: ("losses.safetensors",) for part in ("general_gan", "specific_gan")}
"""Parts whose generator rests in some steps, which then have no loss of it."""

LABELLED_PARTS = tuple(name for name, part in PARTS.items() if part.labelled)
OTHER_TARGETS = tuple(dict.fromkeys(role for attack in ATTACKS.values() for role in attack.other_targets))
LABELLED_MATERIALS = ("target", "data", *LABELLED_PARTS, *OTHER_TARGETS)
"""Inputs of attacks and of their parts that have classes."""

TASKS: dict[str, Task] = {
    "data": Task(
        version=2,
        title="private images",
        run="smoothsweep.tasks.data:prepare_private",
        on_device=False,
        check="smoothsweep.tasks.settings:check_data",
    ),
    "public": Task(
        version=2,
        title="public images",
        run="smoothsweep.tasks.data:prepare_public",
        on_device=False,
        check="smoothsweep.tasks.settings:check_public",
    ),
    "prior": Task(
        version=1,
        run="smoothsweep.tasks.data:fit_prior",
        trains=True,
        check="smoothsweep.tasks.settings:check_prior",
        check_reads=("public",),
    ),
    "target": Task(
        version=2,
        run="smoothsweep.tasks.target:train_target",
        trains=True,
        labelled=("data", "reference", "poison"),
        check="smoothsweep.tasks.settings:check_training",
        check_reads=("data", "poison"),
        not_finite=HISTORY,
    ),
    "imported": Task(
        version=3, title="imported target", run="smoothsweep.tasks.imported:adopt_classifier", labelled=("data",)
    ),
    "shadow": Task(
        version=1,
        title="shadow model",
        run="smoothsweep.tasks.target:train_shadow",
        trains=True,
        labelled=("data",),
        check="smoothsweep.tasks.settings:check_shadow",
        check_reads=("data",),
        not_finite=HISTORY,
    ),
    "attack": Task(
        version=4,
        run="smoothsweep.tasks.attack:collect_classes",
        shard="smoothsweep.tasks.attack:invert_classes",
        labelled=LABELLED_MATERIALS,
        check="smoothsweep.tasks.settings:check_attack",
        # no step of a candidate that is frozen, no walk without a start, facts that a class does not have
        not_finite=("curves.safetensors", "reconstructions.safetensors:radius", "rows.parquet"),
    ),
    RECONSTRUCTIONS: Task(
        version=3,
        title="reconstructions",
        run="smoothsweep.tasks.reconstructions:synthesise",
        labelled=("attack", *LABELLED_PARTS),
    ),
    "embeddings": Task(
        version=3,
        title="image embeddings",
        run="smoothsweep.tasks.judges:embed_real_images",
        labelled=("data", "network"),
        check="smoothsweep.tasks.settings:check_judge",
    ),
    "strangers": Task(
        version=1,
        title="stranger embeddings",
        run="smoothsweep.tasks.judges:embed_strangers",
        check="smoothsweep.tasks.settings:check_strangers",
        check_reads=("public",),
    ),
    "projected": Task(
        version=1, title="projected photographs", run="smoothsweep.tasks.judges:project_photographs", labelled=("data",)
    ),
    "poison": Task(
        version=1,
        title="poisoned images",
        run="smoothsweep.tasks.poison:choose_poison",
        on_device=False,
        labelled=("data",),
        check="smoothsweep.tasks.settings:check_poison",
        check_reads=("data",),
    ),
    **{stage_of(name): Task(**vars(work_of(name)), title=f"judge {name}") for name in JUDGES},
    "toy": Task(
        version=1,
        title="toy example",
        run="smoothsweep.tasks.data:run_toy",
        on_device=False,
        # the official descent may leave every bound: this is what the paper's figure shows
        not_finite=("toy.safetensors:path", "toy.safetensors:endless_path", "metrics:distance_no_stop"),
    ),
    **{
        name: Task(
            version=part.version,
            title=part.title,
            run="smoothsweep.tasks.attack:make_part",
            trains=part.trains,
            labelled=LABELLED_MATERIALS if part.labelled else (),
            not_finite=MISSING_LOSSES.get(name, ()),
        )
        for name, part in PARTS.items()
    },
}


def task(name: str) -> Task:
    """The task of that name; InputError naming the valid ones otherwise."""
    try:
        return TASKS[name]
    except KeyError:
        raise InputError(f"stage: expected one of {', '.join(TASKS)}, got {name!r}") from None


_DIGITS = 8
"""Digits of a fingerprint, where people read it."""


def stage_title(name: str) -> str:
    """`loot` as reconstructions, `judge_evaluator` as judge evaluator. A stage of an earlier version keeps its name."""
    known = TASKS.get(name)
    return (known.title if known else "") or name.replace("_", " ")


def stage_label(name: str, fingerprint: str) -> str:
    """One artifact, as lines name it: what it is, and how its fingerprint begins."""
    return f"{stage_title(name)} {fingerprint[:_DIGITS]}"
