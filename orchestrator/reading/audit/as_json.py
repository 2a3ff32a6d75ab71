"""audit.json: the audit of one model as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from smoothsweep.core.metrics.hiding import HidingVerdict
from smoothsweep.orchestrator.reading.audit.result import Audit, Reached, Trained
from smoothsweep.orchestrator.reading.audit.sentences import audit_sentences, person_name
from smoothsweep.orchestrator.reading.numbers.estimates import Comparison

JSON_VERSION = 1


def audit_json(audit: Audit, card: Mapping[str, Any], *, anonymous: bool = False) -> dict[str, Any]:
    """audit.json, as docs/audit.md describes it."""
    return {
        "version": JSON_VERSION,
        "model": dict(card),
        "test_acc": audit.test_acc,
        "classes": audit.classes,
        "chance": audit.chance,
        "judge": {"metric": audit.judge, "real_photographs": audit.ceiling},
        "attacks": [_attack_json(one) for one in audit.reached],
        "beyond_control": _gap_json(audit.beyond),
        "beside": [_trained_json(audit, one) for one in audit.beside],
        "by_access": {level: one.attack for level, one in audit.by_access().items()},
        "people": [{"person": person_name(p, anonymous=anonymous), "label": p.label, "share": p.share, "rate": p.rate,
                    "low": p.low, "high": p.high, "among_five": p.among_top} for p in audit.people],
        "said": {name: list(lines) for name, lines in audit_sentences(audit, anonymous=anonymous).items()},
    }  # fmt: skip


def _attack_json(one: Reached) -> dict[str, Any]:
    return {
        "attack": one.attack, "access": one.access, "control": one.control, "leak": one.leak, "low": _known(one.low),
        "high": _known(one.high), "seeds": one.seeds, "queries_per_person": one.queries,
        "device_seconds_per_person": one.seconds,
    }  # fmt: skip


def _trained_json(audit: Audit, one: Trained) -> dict[str, Any]:
    trained = one.role != "model"
    return {
        "role": one.role, "recipe": one.recipe if trained else None,
        "architecture": audit.architecture if trained else None, "epochs": audit.epochs if trained else None,
        "test_acc": one.test_acc, "attack": one.reached.attack, "leak": one.reached.leak,
        "low": _known(one.reached.low), "high": _known(one.reached.high), "seeds": one.reached.seeds,
        "leak_beside_reference": _gap_json(one.leak), "test_acc_beside_reference": _gap_json(one.accuracy),
        "removed_or_hidden": _hiding_json(one.hiding),
        "device_seconds": {"planned": one.planned_s, "training": one.training_s, "attacking": one.attacking_s},
    }  # fmt: skip


def _hiding_json(found: HidingVerdict | None) -> dict[str, Any] | None:
    if found is None:
        return None
    ends = {"removed_low": found.removed.low, "removed_high": found.removed.high}
    return {"verdict": found.word, "removed": found.removed.value, **ends}


def _gap_json(gap: Comparison) -> dict[str, Any]:
    return {
        **{name: _known(getattr(gap, name)) for name in ("difference", "low", "high")}, "verdict": gap.verdict or None,
    }  # fmt: skip


def _known(value: float) -> float | None:
    return None if pd.isna(value) else float(value) + 0.0  # a zero has no sign
