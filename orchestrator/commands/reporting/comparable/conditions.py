"""The conditions of a sweep's numbers: data, judges and attacks, each by a digest that holds across sweeps.

A stage's fingerprint covers everything that it rests on, the recipe included. Here the trial's own target is replaced
by a word. So the attack on two recipes has one digest where nothing but the recipe differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from smoothsweep.orchestrator.planning.trial import InversionStages, Trial, inversion_stages
from smoothsweep.orchestrator.stages.shared import canonical_json
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.sweeps.loaded import as_inversion

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
