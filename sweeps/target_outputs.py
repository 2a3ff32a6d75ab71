"""What of a target a sweep asks for, beside what the target shows: a model that answers alone shows less."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smoothsweep.core.attacks.registry import access_needed, needs_layers
from smoothsweep.core.attacks.shared.access import ACCESS_LEVELS
from smoothsweep.core.external.kinds import agreed_to, needs_consent
from smoothsweep.sweeps.imported import ImportedClassifier

if TYPE_CHECKING:
    from smoothsweep.sweeps.schema import InversionSweep


def check_target_outputs(sweep: InversionSweep) -> None:
    """Raise ValueError, one line naming the attack or judge, for one that needs more than the target gives."""
    for name, judge in sweep.judges.classifiers.items():
        if isinstance(judge, ImportedClassifier) and (words := judge.answers_alone):
            raise ValueError(f"judges.{name}: expected a classifier with features, got {words}, which answers alone")
    check_what_a_defense_leaves(sweep)
    target = sweep.recipe
    if not isinstance(target, ImportedClassifier) or (words := target.answers_alone) is None:
        return
    _check_consent(target, words)
    gives = target.checked.access
    for name, judge in sweep.judges.built.items():
        if judge.layers:
            raise ValueError(f"judges.{name}: expected none for {words}, whose layers nobody sees")
        if ACCESS_LEVELS.index(judge.needs or judge.sees) > ACCESS_LEVELS.index(gives):
            raise ValueError(f"judges.{name}: expected none for {words} that gives {gives} alone")
    if sweep.attack is not None:
        _check_attack(sweep, words, target)


def check_what_a_defense_leaves(sweep: InversionSweep) -> None:
    """Raise ValueError for an attack or a judge that needs more of a target than the answers its defense alters."""
    defense = sweep.recipe.defense
    if defense is None:
        return
    wants = {"attack": access_needed(sweep.attack.built)} if sweep.attack is not None else {}
    wants |= {f"judges.{name}": judge.sees for name, judge in sweep.judges.built.items()}
    for key, access in wants.items():
        if ACCESS_LEVELS.index(access) > ACCESS_LEVELS.index(defense.leaves):
            expected = f"expected nothing that sees more than {defense.leaves} of a target with defense {defense.kind}"
            raise ValueError(f"{key}: {expected}, got one that sees {access}")


def _check_consent(target: ImportedClassifier, words: str) -> None:
    """A folder from another person is not reason enough to run their code, or to send pictures where they say."""
    if not needs_consent(target.architecture):
        return
    if not target.file.is_file():
        raise ValueError(f"recipe.imported: expected {words} described in {target.file}, got nothing there")
    if not agreed_to(target.file):
        raise ValueError(
            f"recipe.imported: expected {words} that you have brought in yourself by `smoothsweep import "
            f"target` or `audit`, got one from elsewhere: {target.file}"
        )


def _check_attack(sweep: InversionSweep, words: str, target: ImportedClassifier) -> None:
    settings = sweep.inverted_by
    attack, kind, gives = settings.built, settings.kind, target.checked.access
    needed = access_needed(attack)
    if ACCESS_LEVELS.index(needed) > ACCESS_LEVELS.index(gives):
        raise ValueError(
            f"attack.kind: expected an attack on {gives}, which is all that {words} gives here, got "
            f"{kind}, which needs {needed}"
        )
    if needs_layers(attack):
        raise ValueError(f"attack.kind: expected an attack on answers alone, since {words} shows no layers, got {kind}")
    if attack.report is not None and sweep.protocol == "paper":
        raise ValueError(
            f"protocol: expected clean for {words} under {kind}, whose official report looks at the "
            "target's layers, got paper"
        )
