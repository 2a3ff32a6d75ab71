"""Membership attacks by name. Reading the table loads no torch."""

from __future__ import annotations

from typing import Any

from smoothsweep.core.declared import build
from smoothsweep.core.errors import InputError
from smoothsweep.core.membership.base import MembershipAttack
from smoothsweep.core.membership.label_only import LabelDistance, LabelViews
from smoothsweep.core.membership.shadow_attacks import BavariaN, BavariaT, Lira, LiraOffline, Rmia, RmiaOffline
from smoothsweep.core.membership.thresholds import Loss, LossPerClass, LossTrace, Margin, MarginPerClass

MEMBERSHIP_ATTACKS: dict[str, type[MembershipAttack]] = {
    "margin": Margin,
    "margin_per_class": MarginPerClass,
    "loss": Loss,
    "loss_per_class": LossPerClass,
    "label_views": LabelViews,
    "label_distance": LabelDistance,
    "lira": Lira,
    "lira_offline": LiraOffline,
    "rmia": Rmia,
    "rmia_offline": RmiaOffline,
    "bavaria_t": BavariaT,
    "bavaria_n": BavariaN,
    "loss_trace": LossTrace,
}


def make_membership_attack(kind: str, **parameters: Any) -> MembershipAttack:
    """The named attack with these parameters, plain values as a file gives them.

    Raises InputError for an unknown name or parameter, or a value out of range.
    """
    if kind not in MEMBERSHIP_ATTACKS:
        raise InputError(f"membership attack: expected one of {', '.join(MEMBERSHIP_ATTACKS)}, got {kind!r}")
    what = f"membership attack {kind}"
    return build(MEMBERSHIP_ATTACKS[kind], parameters, what=what, prefix=f"{what}: ")
