"""Code that a table names as 'module:name', so that reading the table imports none of it."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def load_named(place: str, package: str = "") -> Any:
    """What 'module:name' names. package: what comes before the module, with its last dot. Imports the module."""
    module, _, name = place.partition(":")
    return getattr(import_module(package + module), name)
