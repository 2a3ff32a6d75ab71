"""What a kind of private images is: its settings, and how they become images. Reading it loads no torch.

docs/new-data.md shows how to add one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from smoothsweep.core.bounds import Count

if TYPE_CHECKING:
    from smoothsweep.core.data.images import ImageSet


@dataclass(frozen=True, kw_only=True)
class DataKind:
    """The settings of a kind of private images, keys of a sweep file's `data`; a kind overrides what it changes.

    path: of a file or folder, of a kind that has a field of this name: its content counts in fingerprints, not its
    place.

    Attributes:
        samples_per_class: Train on this many images of each class, the first ones; judges compare with all.
        cites: Its sources, as `core.citations` has them.
    """

    cites: ClassVar[tuple[str, ...]] = ()

    samples_per_class: Count | None = None

    @property
    def classes_known(self) -> int | None:
        """How many classes there are, where the settings alone say it."""
        return None

    def training_counts(self) -> tuple[int, ...] | None:
        """Training images by class, where the settings alone say it."""
        return None

    def load(self, path: Path | None) -> tuple[ImageSet, ImageSet]:
        """Training and test images, square, uint8, of the same classes. path: of its files, None where it has none.

        Raises InputError for files that are not what it expects.
        """
        raise NotImplementedError  # every kind has its own: a test loads each row of the table
