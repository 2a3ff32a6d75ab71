"""What planning reads of the package random-face: the settings, and the configuration of its network. No torch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

from smoothsweep.core.cards.network_card import NetworkCard
from smoothsweep.core.checks import require_count, require_number
from smoothsweep.core.errors import InputError
from smoothsweep.core.priors.folder_settings import PriorFolder
from smoothsweep.core.priors.framing import Crop
from smoothsweep.core.priors.settings import DESCRIPTION, WEIGHTS, PriorFiles

RANDOM_FACE_LICENCE = (
    "The package random-face is under the Apache License 2.0. Its weights were distilled from NVIDIA's StyleGAN2 of "
    "FFHQ, whose licence allows non-commercial use only (research or evaluation), and the photographs of FFHQ have "
    "terms of their own. Treat the weights, and images and results made with them, as non-commercial: do not "
    "redistribute the imported folder, and let what is made with it carry this notice."
)
MOST_PER_PIXEL = 4
"""Pixels of a prior, at most, for each pixel that a target sees, along a side."""
READ_OUT = (64, 128, 256)
"""Sides in pixels of random-face's images that a read-out makes; without one it makes 1024."""
IMAGES = 96
"""Images of 1024 pixels that the read-outs learn from unless another number is given."""


@dataclass(frozen=True, kw_only=True)
class MobileStyleGANConfig:
    """MobileStyleGAN (arXiv 2104.04767), or its first stages with a read-out of its own.

    Attributes:
        channels: Channels of the features of side 4, 8, 16, ...; the image has twice the side of the last.
        head: Outputs of the last convolution, None for as many as the last channels.
        frame: The square that is shown, (left, top, side) as fractions of the whole image's side; None: all of it.
        size: Side in pixels of what is made of the frame, None: as many as it has.
    """

    channels: tuple[int, ...]
    head: int | None = None
    z_dim: int = 512
    w_dim: int = 512
    mapping_layers: int = 8
    frame: tuple[float, float, float] | None = None
    size: int | None = None

    num_ws: ClassVar[int] = 1

    def __post_init__(self) -> None:
        for name, minimum, maximum in (("z_dim", 1, 2**14), ("w_dim", 1, 2**14), ("mapping_layers", 1, 64)):
            require_count(f"mobilestylegan: {name}", getattr(self, name), minimum, maximum)
        channels = self.channels
        if not isinstance(channels, list | tuple) or not 2 <= len(channels) <= 10:
            raise InputError(f"mobilestylegan: channels: expected 2 to 10 numbers, got {channels!r}")
        for count in channels:
            require_count("mobilestylegan: channels", count, 4, 2**12)
            if count % 4:
                raise InputError(f"mobilestylegan: channels: expected multiples of 4, got {count}")
        object.__setattr__(self, "channels", tuple(channels))  # JSON has lists
        if self.head is not None:
            require_count("mobilestylegan: head", self.head, 1, 2**12)
        if self.size is not None:
            require_count("mobilestylegan: size", self.size, 8, 4096)
        if self.frame is not None:
            self._check_frame(self.frame)

    def _check_frame(self, frame: object) -> None:
        if not isinstance(frame, list | tuple) or len(frame) != 3:
            raise InputError(f"mobilestylegan: frame: expected left, top and side, got {frame!r}")
        for number in frame:
            require_number("mobilestylegan: frame", number, 0, 1)
        left, top, side = frame
        if not side > 0 or max(left, top) + side > 1 + 1e-9:
            raise InputError(f"mobilestylegan: frame: expected a square within the image, got {list(frame)}")
        object.__setattr__(self, "frame", (float(left), float(top), float(side)))

    @property
    def whole(self) -> int:
        """Side in pixels of the whole image."""
        return 4 * 2 ** len(self.channels)

    @property
    def resolution(self) -> int:
        """Side in pixels of what is made."""
        if self.size is not None:
            return self.size
        return self.whole if self.frame is None else max(8, round(self.frame[2] * self.whole))


@dataclass(frozen=True, kw_only=True)
class RandomFace(PriorFolder):
    """Photorealistic faces by MobileStyleGAN, from the package random-face: for non-commercial use.

    path: the folder that `smoothsweep import prior random-face` wrote;

    Attributes:
        resolution: Side in pixels of the whole image, below 1024 by a read-out of the first stages, which costs less.
        crop: The frame of the data's faces, null for all of the image.
    """

    title: ClassVar[str] = "FFHQ prior"

    resolution: Literal[64, 128, 256, 1024] = 128
    crop: Crop | None = None

    @property
    def licence(self) -> str:
        """The licence that the import notes."""
        return RANDOM_FACE_LICENCE

    @property
    def files(self) -> PriorFiles:
        """What the import wrote for this resolution."""
        place = Path(self.path).expanduser() / str(self.resolution)
        return PriorFiles(weights=place / WEIGHTS, description=place / DESCRIPTION, key="prior.path")

    def used_card(self, card: NetworkCard) -> NetworkCard:
        """The card as imported, with the frame. Raises InputError for another network or another resolution."""
        if card.kind != "mobilestylegan" or card.config.whole != self.resolution:
            got = f"{card.kind} of {card.config.resolution}"
            raise InputError(
                f"{self.files.description}: expected mobilestylegan of {self.resolution} pixels, got {got}"
            )
        frame = None if self.crop is None else self.crop.frame()
        return NetworkCard(kind=card.kind, config=replace(card.config, frame=frame))

    def check_shown(self, image_size: int) -> None:
        """Raise InputError for several times the pixels that the target sees: they cost minutes and show nothing."""
        side = self.resolution * (1.0 if self.crop is None else self.crop.frame()[2])
        if side > MOST_PER_PIXEL * image_size:
            raise InputError(
                f"prior.resolution: expected at most {MOST_PER_PIXEL} pixels for each of the target's {image_size}, "
                f"got {self.resolution}, which shows {side:.0f}"
            )
