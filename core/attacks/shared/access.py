"""What an attacker may see of a target."""

from __future__ import annotations

from typing import Literal, get_args

Access = Literal["none", "labels", "scores", "gradients"]
ACCESS_LEVELS: tuple[Access, ...] = get_args(Access)
"""Each level with all of those before it."""
