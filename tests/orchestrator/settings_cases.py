"""What the tables of settings share: their type, and the sweep that most of them change."""

from typing import Any

from tiny import tiny_sweep

Cases = dict[str, tuple[Any, str, dict[str, Any]]]
"""Class -> a sweep that has it, where it stands there, and for each field another value and what that needs."""

TINY = tiny_sweep
LABELLED = {"kind": "labelled", "path": "$a/faces.parquet"}
UNLABELLED = {"kind": "unlabelled", "path": "$a/others.parquet"}
