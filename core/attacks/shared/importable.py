"""What every training of an attack's own has: one worker, and a GAN that stands in its place. No torch."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from smoothsweep.core.bounds import Count, FilePath
from smoothsweep.core.checks import require


@dataclass(frozen=True, kw_only=True)
class Shared:
    """What every one of them has.

    workers: 1, as older sweep files may say; a part of an attack is trained by one process.
    """

    workers: Count = 1

    @property
    def settings(self) -> dict[str, Any]:
        """What decides the training, but for `workers`, which stands beside it, and where another one lies."""
        return {name: value for name, value in asdict(self).items() if name not in ("workers", "imported")}

    def check_workers(self, key: str) -> None:
        """Raise InputError for several workers."""
        require(self.workers == 1, f"{key}.workers", "1, which trains the parts of an attack", self.workers)


@dataclass(frozen=True, kw_only=True)
class Importable(Shared):
    """How a GAN is trained, unless it comes from elsewhere.

    imported: the folder that `smoothsweep import gan` wrote; then nothing is trained, and no other key may stand
    beside it.
    """

    imported: FilePath | None = None

    def check_alone(self, usual: Importable) -> None:
        """Raise InputError for a setting of a training beside a GAN that is not trained here. usual: the attack's."""
        if self.imported is None:
            return
        given_settings = [
            field.name
            for field in fields(self)
            if getattr(self, field.name) not in (field.default, getattr(usual, field.name))
        ]
        others = [name for name in given_settings if name != "imported"]
        require(not others, "attack.gan", "no other key beside imported", ", ".join(others))
