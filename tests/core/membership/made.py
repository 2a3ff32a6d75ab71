"""A membership attack by its name, as the stage that judges membership builds it."""

from smoothsweep.core.declared import build
from smoothsweep.core.membership.registry import MEMBERSHIP_ATTACKS


def make_membership_attack(kind, **parameters):
    what = f"membership attack {kind}"
    return build(MEMBERSHIP_ATTACKS[kind], parameters, what=what, prefix=f"{what}: ")
