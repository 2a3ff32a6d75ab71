"""What people read for the name of a stage: tables, progress, errors. Stores and columns keep the stage's own name."""

from __future__ import annotations

from smoothsweep.tasks.registry import TASKS

_DIGITS = 8
"""Digits of a fingerprint, where people read it."""


def stage_title(name: str) -> str:
    """`loot` as reconstructions, `judge_evaluator` as judge evaluator. A stage of an earlier version keeps its name."""
    known = TASKS.get(name)
    return (known.title if known else "") or name.replace("_", " ")


def stage_label(name: str, fingerprint: str) -> str:
    """One artifact, as lines name it: what it is, and how its fingerprint begins."""
    return f"{stage_title(name)} {fingerprint[:_DIGITS]}"
