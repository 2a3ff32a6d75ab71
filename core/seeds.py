"""Seeds that depend on what is drawn, not on what was drawn before.

Every random draw of an attack has its own generator, derived from (seed, class, stage, ...). A class
therefore gets the same numbers whether it is attacked alone, among others, in another order or on another
worker.
"""

from __future__ import annotations

import hashlib
import json
import operator
from collections.abc import Sequence

import torch


def derive_seed(*key: int | str) -> int:
    """A seed in [0, 2^63) from the SHA-256 of `key`. Different keys, and 1 and "1", give unrelated seeds.

    Integers of NumPy count as integers; anything but integers and strings is a TypeError.
    """
    parts = [part if isinstance(part, str) else operator.index(part) for part in key]
    digest = hashlib.sha256("\x1f".join(repr(part) for part in parts).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def generator(*key: int | str) -> torch.Generator:
    """A CPU generator seeded by `derive_seed(*key)`: the same draws whatever device the attack runs on."""
    return torch.Generator().manual_seed(derive_seed(*key))


def combined_seed(parts: Sequence[int]) -> int:
    """One seed in [0, 2^56) from the attack's own and the trial's."""
    return int.from_bytes(hashlib.sha256(json.dumps(list(parts)).encode()).digest()[:7], "big")
