"""How an attack that searches among z turns them into images, and what each field may be. Loads no torch."""

from __future__ import annotations

from dataclasses import dataclass

from core.checks import require_count, require_number


@dataclass(frozen=True, kw_only=True)
class LatentSettings:
    """truncation_psi, truncation_cutoff: handed to the prior's mapping (1: nothing is pulled; cutoff None: every
    layer); image_crop: side in pixels of the centre crop of the prior's images, None for no crop.
    """

    truncation_psi: float = 1.0
    truncation_cutoff: int | None = None
    image_crop: int | None = None

    def __post_init__(self) -> None:
        require_number("attack.truncation_psi", self.truncation_psi, 0, above=True)
        if self.truncation_cutoff is not None:
            require_count("attack.truncation_cutoff", self.truncation_cutoff, 0)
        if self.image_crop is not None:
            require_count("attack.image_crop", self.image_crop)

    @property
    def crop(self) -> int | None:
        """As given."""
        return self.image_crop
