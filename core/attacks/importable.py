"""What every GAN of an attack's own can be instead: one that somebody else trained. Loads no torch."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from core.bounds import FilePath
from core.checks import require


@dataclass(frozen=True, kw_only=True)
class Importable:
    """How a GAN is trained, unless it comes from elsewhere.

    imported: the folder that `smoothsweep import gan` wrote; then nothing is trained, and nothing else may be said.
    """

    imported: FilePath | None = None

    def check_alone(self) -> None:
        """Raise InputError for a setting of a training beside a GAN that is not trained here."""
        if self.imported is None:
            return
        said = [field.name for field in fields(self) if getattr(self, field.name) != field.default]
        others = [name for name in said if name != "imported"]
        require(not others, "attack.gan", "no other key beside imported", ", ".join(others))

    @property
    def settings(self) -> dict[str, Any]:
        """What decides the training: all but `imported`."""
        return {name: value for name, value in asdict(self).items() if name != "imported"}
