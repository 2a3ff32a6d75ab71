"""What a sweep's numbers rest on: data, judges and attacks, each by a digest that holds across sweeps.

A stage's fingerprint covers everything that it rests on, the recipe included. Here the trial's own target is replaced
by a word. So the attack on two recipes has one digest where nothing but the recipe differs. A bundle brings it along,
so that its rows can be compared with those of another sweep.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from smoothsweep.orchestrator.planning.trial import InversionStages, Trial, inversion_stages
from smoothsweep.orchestrator.result.data import Axis, ReportData
from smoothsweep.orchestrator.result.summary import Summary, attack_label, recipe_label
from smoothsweep.orchestrator.stages.stage import Stage, canonical_json
from smoothsweep.sweeps.loaded import as_inversion

COMPARISON, ROWS_BY_CLASS = "comparison.json", "per_class.parquet"
"""Names of the files in a bundle."""


SEED = 0
"""Stages are compared under one seed; which seeds were run is compared by itself."""

Settings = dict[str, str | int | float | bool | None]
"""Dotted key -> value."""


class Condition(BaseModel):
    """One condition under which a sweep was run.

    Attributes:
        digest: Equal where the condition is the same.
        settings: What it was made of, to say how two differ.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    digest: str = Field(max_length=64)
    settings: Settings = {}


class AttackNote(Condition):
    """label: the attack's name in tables."""

    label: str


class TrialNote(BaseModel):
    """A row of the results.

    Attributes:
        recipe, attack: Digests of the two.
        label: The report's name of the recipe.
        defense: The defense as the sweep states it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    trial: str = Field(pattern=r"^[0-9a-f]{12}$")
    recipe: str = Field(max_length=64)
    label: str
    attack: str = Field(max_length=64)
    defense: dict[str, Any] | None = None


class Conditions(BaseModel):
    """What a sweep's numbers rest on.

    Attributes:
        data: One for each set of private data.
        judges: Stage -> one for each setting.
        attacks: Digest -> attack, in the order of the report.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    data: tuple[Condition, ...]
    judges: dict[str, tuple[Condition, ...]]
    attacks: dict[str, AttackNote]
    trials: tuple[TrialNote, ...]


def conditions_of(trials: Sequence[Trial], names: Mapping[str, tuple[str, str]]) -> Conditions:
    """Read them off the trials' stages. names: trial -> the report's names of its recipe and attack."""
    data: dict[str, Condition] = {}
    judges: dict[str, dict[str, Condition]] = {}
    attacks: dict[str, AttackNote] = {}
    notes = []
    for trial in trials:
        settings = as_inversion(trial.settings)
        stages = inversion_stages(settings, SEED)
        settings_json = settings.model_dump(mode="json", exclude_none=True)
        data.setdefault(stages.data.fingerprint, _condition(stages.data.fingerprint, settings_json, "data"))
        for name, digest in _judges(stages).items():
            judges.setdefault(name, {}).setdefault(digest, _condition(digest, settings_json, "judges"))
        attack = "" if stages.attack is None else _digest(stages.attack, {stages.target.fingerprint: "target"})
        recipe, label = names[trial.id]
        if attack not in attacks:
            words = label or ("" if settings.attack is None else settings.attack.words)
            condition = _condition(attack, settings_json, "attack", "prior", "public", "classes")
            attacks[attack] = AttackNote(label=words, **dict(condition))
        fingerprint, defense = stages.target.fingerprint, trial.stated_defense
        notes.append(TrialNote(trial=trial.id, recipe=fingerprint, label=recipe, attack=attack, defense=defense))
    return Conditions(
        data=tuple(data.values()),
        judges={name: tuple(conditions.values()) for name, conditions in judges.items()},
        attacks=attacks,
        trials=tuple(notes),
    )


def _judges(stages: InversionStages) -> dict[str, str]:
    """Stage of a judge -> its digest, whatever it judged."""
    masked = {stages.target.fingerprint: "target"}
    if stages.attack is not None:
        masked |= {stages.attack.fingerprint: "attack"}
        masked |= {stages.inverted.fingerprint: "reconstructions"}
    return {name: _digest(stage, masked) for name, stage in stages.judges.items()}


def _digest(stage: Stage, masked: Mapping[str, str]) -> str:
    """The stage's fingerprint with words in the place of these inputs."""
    inputs = {name: masked.get(source.fingerprint) or _digest(source, masked) for name, source in stage.inputs.items()}
    identity = f"{stage.name} {stage.task.version} {canonical_json(stage.config)} {sorted(inputs.items())}"
    return sha256(identity.encode()).hexdigest()


def _condition(digest: str, settings: Mapping[str, Any], *keys: str) -> Condition:
    leaves = {name: value for key in keys if key in settings for name, value in _leaves(key, settings[key])}
    return Condition(digest=digest, settings=leaves)


def _leaves(key: str, value: Any) -> Iterator[tuple[str, str | int | float | bool | None]]:
    if isinstance(value, Mapping):
        for inner, each in value.items():
            yield from _leaves(f"{key}.{inner}", each)
    else:
        yield key, value if isinstance(value, str | int | float | bool) else canonical_json(value)


class Standing(BaseModel):
    """What a sweep states beside its rows.

    Attributes:
        baseline: Its reference recipe by the report's name, None without one or with several.
        min_test_acc, accuracy_margin: The accuracy asked for, as in the sweep's file.
        primary: The leak that decides, where its search names one.
        people: Classes of the private data.
        real_images: Test images that the judges were tried on.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    protocol: Literal["clean", "paper"]
    baseline: str | None = None
    min_test_acc: float | None = None
    accuracy_margin: float
    primary: str | None = None
    people: int | None = None
    real_images: int | None = None


class Comparison(BaseModel):
    """What a sweep states, the conditions of its rows, and why metrics are missing."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    standing: Standing
    conditions: Conditions
    reasons: dict[str, str]


def comparison_of(trials: Sequence[Trial], data: ReportData, summary: Summary) -> Comparison:
    """The comparison of a sweep in the store. trials: all; those of fresh seeds and cheap attacks are left out."""
    mine = compared(trials)
    return Comparison(
        standing=Standing(
            protocol=data.protocol,
            baseline=summary.baseline_recipe,
            min_test_acc=data.min_test_acc,
            accuracy_margin=data.accuracy_margin,
            primary=data.primary,
            people=data.people,
            real_images=data.real_images,
        ),
        conditions=conditions_of(mine, _names(mine, data.axes)),
        reasons=dict(data.reasons),
    )


def compared(trials: Sequence[Trial]) -> list[Trial]:
    """The trials that recipes are compared by."""
    return [trial for trial in trials if trial.phase == "sweep"]


def _names(trials: Sequence[Trial], axes: Sequence[Axis]) -> Mapping[str, tuple[str, str]]:
    """Trial -> the report's names of its recipe and attack."""
    return {t.id: (recipe_label(axes, t.cell.axes), attack_label(axes, t.cell.axes)) for t in trials}
