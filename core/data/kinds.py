"""Kinds of private images beyond those of `sweeps.parts`, by name. Reading the table loads no torch."""

from __future__ import annotations

from smoothsweep.core.data.base import DataKind
from smoothsweep.core.plugins import with_plugins

DATA: dict[str, type[DataKind]] = with_plugins("data", {}, DataKind)
