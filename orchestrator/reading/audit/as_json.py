"""Write an audit as the data of audit.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from smoothsweep.core.membership.measuring import WithinPersons
from smoothsweep.core.metrics.leak_comparisons import LeakComparison
from smoothsweep.orchestrator.reading.audit.members import AttackFound, AuditMembership
from smoothsweep.orchestrator.reading.audit.result import Audit, Reached, Trained
from smoothsweep.orchestrator.reading.audit.sentences import audit_sentences, person_name
from smoothsweep.orchestrator.reading.audit.shadows import ByShadows
from smoothsweep.orchestrator.result.estimates import Comparison
from smoothsweep.orchestrator.result.standing import Standing

JSON_VERSION = 1


def audit_json(audit: Audit, card: Mapping[str, Any], *, anonymous: bool = False) -> dict[str, Any]:
    """The content of audit.json, as docs/audit.md describes it."""
    return {
        "version": JSON_VERSION,
        "model": dict(card),
        "effort": audit.effort or None,
        "test_acc": audit.test_acc,
        "classes": audit.classes,
        "chance": audit.chance,
        "judge": {
            "metric": audit.judge,
            "name": audit.judge_name or None,
            "real_photographs": audit.ceiling,
            "can_tell": audit.can_tell,
        },
        "attacks": [_attack_json(one) for one in audit.reached],
        "standing": [_standing_json(one) for one in audit.standing],
        "second_judge": audit.second_name or None,
        "second_standing": [_standing_json(one) for one in audit.second],
        "beyond_control": _gap_json(audit.beyond),
        "beside": [_trained_json(audit, one) for one in audit.beside],
        "membership": _membership_json(audit.membership),
        "by_access": {level: one.attack for level, one in audit.by_access().items()},
        "people": [
            {
                "person": person_name(p, anonymous=anonymous),
                **_values(p, "label share rate low high"),
                "among_five": p.among_top,
                **_values(p, "control verified"),
            }
            for p in audit.people
        ],
        "said": {name: list(lines) for name, lines in audit_sentences(audit, anonymous=anonymous).items()},
    }


def _attack_json(one: Reached) -> dict[str, Any]:
    return {
        **_values(one, "attack access control leak"),
        **_ends(one),
        "seeds": one.seeds,
        "queries_per_person": one.queries,
        "device_seconds_per_person": one.seconds,
    }


def _standing_json(one: Standing) -> dict[str, Any]:
    return {
        **_values(one, "metric words"),
        **{name: _values(number, "value low high") for name, number in one.numbers.items()},
    }


def _membership_json(membership: AuditMembership | None) -> dict[str, Any] | None:
    """The entry of membership, without attacks where no claim is made; None where it was not measured."""
    if membership is None:
        return None
    recipes = membership.recipes if membership.holds else ()
    return {
        **_values(membership, "holds shift members others copies"),
        "labels_asked_of": membership.drawn,
        "chosen_beforehand": membership.beforehand.attack,
        "attacks": [_told_json(one) for one in recipes[0].told] if recipes else [],
        "beside": [
            {**_values(one, "role recipe trainings"), "attacks": [_told_json(attack) for attack in one.told]}
            for one in recipes[1:]
        ],
        "beside_reference": membership.model.word or None if recipes else None,
        "shadow_models": _shadows_json(membership.shadows) if membership.shadows and recipes else None,
    }


def _shadows_json(shadows: ByShadows) -> dict[str, Any]:
    return {
        **_values(shadows, "count recipe architecture epochs persons"),
        "chosen_beforehand": shadows.beforehand.attack,
        "attacks": [_within_json(one) for one in shadows.told],
        "reference": [_within_json(one) for one in shadows.reference],
        "device_seconds": shadows.seconds,
    }


def _within_json(one: WithinPersons) -> dict[str, Any]:
    return {
        "attack": one.attack,
        "shadow_models": one.has_shadows,
        "auc_within": one.auc,
        **_ends(one),
        "found_at_1_percent": one.found["fpr1"],
        "found_at_0_1_percent": one.found["fpr01"],
    }


def _told_json(one: AttackFound) -> dict[str, Any]:
    ends = {"auc": _known(one.auc), **_ends(one)}
    return {**_values(one, "attack access"), **ends, "found_at_1_percent": one.found}


def _trained_json(audit: Audit, one: Trained) -> dict[str, Any]:
    trained = one.role != "model"
    return {
        "role": one.role,
        "recipe": one.recipe if trained else None,
        "architecture": audit.architecture if trained else None,
        "epochs": audit.epochs if trained else None,
        "test_acc": one.test_acc,
        **_values(one.reached, "attack leak"),
        **_ends(one.reached),
        "seeds": one.reached.seeds,
        "reduction": _reduction_json(one.leak),
        "test_acc_beside_reference": _gap_json(one.accuracy),
        "device_seconds": {"planned": one.planned_s, "training": one.training_s, "attacking": one.attacking_s},
    }


def _reduction_json(one: LeakComparison | None) -> dict[str, Any] | None:
    """The reduction of the leak relative to the reference; None where the two were not compared."""
    if one is None:
        return None
    part = one.hidden.part if one.hidden else None
    return {
        "verdict": one.word,
        "reduction": one.reduction + 0.0,
        **_values(one, "low high comparisons seeds"),
        "seeds_needed": one.needed and one.needed.seeds,
        "classes_needed": one.needed and one.needed.classes,
        **_values(one, "attack attack_reference"),
        "hidden": part.value if part else None,
        "hidden_low": part.low if part else None,
        "hidden_high": part.high if part else None,
    }


def _gap_json(gap: Comparison) -> dict[str, Any]:
    return {"difference": _known(gap.difference), **_ends(gap), "verdict": gap.verdict or None}


def _values(one: object, names: str) -> dict[str, Any]:
    """Attributes under their own names."""
    return {name: getattr(one, name) for name in names.split()}


def _ends(one: Any) -> dict[str, float | None]:
    """The ends of its interval, null where none is known."""
    return {"low": _known(one.low), "high": _known(one.high)}


def _known(value: float) -> float | None:
    return None if pd.isna(value) else float(value) + 0.0  # a zero has no sign
