"""What a kind of prior is, and the settings of each of ours: what planning reads. Loads no torch.

docs/new-prior.md shows how to add one. The table is `core.priors.kinds`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Le, Len, MultipleOf

from smoothsweep.core.bounds import Channels, Count, FilePath, Fraction, Positive, Seed, Width
from smoothsweep.core.cards import NetworkCard, NetworkKind
from smoothsweep.core.declared import check_fields
from smoothsweep.core.errors import InputError
from smoothsweep.core.named_code import load_named

WEIGHTS, DESCRIPTION, DISCRIMINATOR = "weights.safetensors", "prior.json", "discriminator.safetensors"
LICENCE = "licence.txt"  # beside weights, where what is made with them is bound to something


@dataclass(frozen=True, kw_only=True)
class PriorFiles:
    """Where a prior that is there already lies. key: of the sweep file, which named it."""

    weights: Path
    description: Path
    key: str
    discriminator: Path | None = None


@dataclass(frozen=True, kw_only=True)
class PriorSettings:
    """The parameters of a prior, the keys of a sweep file's `prior`; a kind overrides what it changes.

    Where a prior is made from public images, `network_card` is needed: planning asks for its sizes before it is made.

    Attributes:
        title: What pages call it, its kind where empty.
        unsaid: Parameters that a sweep file does not set: they are what the kind has.
        with_discriminator: Whether the discriminator that it was trained with lies beside it.
    """

    title: ClassVar[str] = ""
    unsaid: ClassVar[tuple[str, ...]] = ()
    with_discriminator: ClassVar[bool] = False

    @property
    def files(self) -> PriorFiles | None:
        """What it is read from; None where it is made from public images."""
        return None

    @property
    def licence(self) -> str | None:
        """What images and results that are made with it are bound to, for a person; None: nothing."""
        return None

    def network_card(self, size: int) -> NetworkCard:
        """What its network will be built from, of a prior that is made from public images of `size` pixels a side."""
        raise NotImplementedError  # every prior made from images has its own; those that are there are read from files

    def used_card(self, card: NetworkCard) -> NetworkCard:
        """What its network is built from, of a prior that is read from files whose card this is.

        Raises InputError for a network that these settings cannot have.
        """
        return card

    def check_public(self, *, count: int | None = None, size: int | None = None) -> None:
        """Raise InputError if it cannot be made from so many public images of that side; None: not known yet."""

    def check_shown(self, image_size: int) -> None:
        """Raise InputError if its images do not suit a target that takes images of that side."""


@dataclass(frozen=True, kw_only=True)
class PriorKind:
    """One kind of prior.

    Attributes:
        make: 'module:function' of (settings, public images uint8 [N, 3, R, R] or None) -> Prior.
        needs_public: Whether it learns from the public images.
        networks: Name in prior.json -> a network that came with this kind and that no other kind brings.
        cites: Its sources, as `core.citations` has them.
    """

    settings: type[PriorSettings]
    make: str
    needs_public: bool = False
    networks: Mapping[str, NetworkKind] = field(default_factory=dict)
    cites: tuple[str, ...] = ()

    def function(self) -> Callable[..., Any]:
        """The function that makes it."""
        return load_named(self.make)


@dataclass(frozen=True, kw_only=True)
class EigenfacesConfig:
    """The size of an eigenfaces prior.

    Attributes:
        resolution: Side length in pixels.
        components: Number of principal components (= z_dim = w_dim).
    """

    resolution: Annotated[int, Ge(1), Le(4096)]
    components: Annotated[int, Ge(1), Le(2**20)]

    def __post_init__(self) -> None:
        check_fields(self, "eigenfaces: ")

    num_ws: ClassVar[int] = 1

    @property
    def z_dim(self) -> int:
        return self.components

    w_dim = z_dim


@dataclass(frozen=True, kw_only=True)
class EigenfacesFit(PriorSettings):
    """PCA of the public images: fitted in seconds, needs no file.

    Attributes:
        components: Principal components, as many numbers as a latent has; fewer than there are public images.
        seed: Seed of the random sketch that stands in for the full PCA where images and pixels are many.
    """

    components: Count = 150
    seed: Seed = 0

    def network_card(self, size: int) -> NetworkCard:
        """Card of a network for images of `size` pixels a side."""
        return NetworkCard(kind="eigenfaces", config=EigenfacesConfig(resolution=size, components=self.components))

    def check_public(self, *, count: int | None = None, size: int | None = None) -> None:
        """Raise InputError for as many components as images, or more."""
        if count is not None and self.components >= count:
            got = self.components
            raise InputError(f"prior.components: expected fewer than the {count} public images, got {got}")


_SHIPPED_AT = Path(__file__).parent / "weights"
SHIPPED: dict[str, Path] = {"stylegan2_synthetic64": _SHIPPED_AT / "stylegan2_synthetic64"}
"""Priors that come with the package: the common stem of the two files. weights/README.md says how good they are."""


@dataclass(frozen=True, kw_only=True)
class ShippedPrior(PriorSettings):
    """A generator that comes with smoothsweep.

    name: the generator.
    """

    title: ClassVar[str] = "shipped generator"

    name: Literal["stylegan2_synthetic64"] = "stylegan2_synthetic64"

    @property
    def files(self) -> PriorFiles:
        """Beside this file."""
        stem = SHIPPED[self.name]
        return PriorFiles(
            weights=stem.with_suffix(".safetensors"), description=stem.with_suffix(".json"), key="prior.name"
        )


@dataclass(frozen=True, kw_only=True)
class PriorFolder(PriorSettings):
    """A prior that smoothsweep trained or imported earlier.

    path: the folder of the prior, with weights.safetensors and prior.json.
    """

    title: ClassVar[str] = "generator in a folder"
    with_discriminator: ClassVar[bool] = True

    path: FilePath

    @property
    def files(self) -> PriorFiles:
        """What `core.priors.registry.save_prior` wrote."""
        place = Path(self.path).expanduser()
        return PriorFiles(
            weights=place / WEIGHTS,
            description=place / DESCRIPTION,
            discriminator=place / DISCRIMINATOR,
            key="prior.path",
        )


Side = Annotated[int, Ge(8), Le(4096)]
MappingLayers = Annotated[int, Ge(1), Le(64)]
"""The most that a description may ask for, of widths too; what is published reaches an eighth of it."""


@dataclass(frozen=True, kw_only=True)
class HeldConfig:
    """A prior that is an object of this process, by its name in `core.held`, and its sizes."""

    name: str
    z_dim: int
    num_ws: int
    w_dim: int
    resolution: int


@dataclass(frozen=True, kw_only=True)
class StyleGAN2Config:
    """An unconditional StyleGAN2 pair: skip generator, residual discriminator (arXiv 1912.04958).

    Attributes:
        resolution: Side length R, a power of two >= 8.
        channel_base, channel_max: Channels at side r are min(channel_base // r, channel_max).
        conv_clamp: Activations are clamped to +- this (None: never), in fp32 too, because networks trained with a clamp
            rely on it.
        mbstd_group: Images per minibatch-std group of the discriminator, None for the whole batch. The defaults are the
            official ones for 1024 pixels.
    """

    resolution: Side = 1024
    z_dim: Width = 512
    w_dim: Width = 512
    mapping_layers: MappingLayers = 8
    channel_base: Annotated[int, Ge(8), Le(2**20)] = 32768
    channel_max: Width = 512
    conv_clamp: Positive | None = None
    mbstd_group: Annotated[int, Ge(1), Le(2**20)] | None = 4

    def __post_init__(self) -> None:
        check_fields(self, "stylegan2: ")
        if self.resolution & (self.resolution - 1):
            raise InputError(f"stylegan2: resolution: expected a power of two >= 8, got {self.resolution}")
        if self.channel_base < self.resolution:
            expected = f"expected at least {self.resolution}"
            raise InputError(f"stylegan2: channel_base: {expected}, got {self.channel_base}")
        if self.conv_clamp is not None:
            object.__setattr__(self, "conv_clamp", float(self.conv_clamp))  # 256 and 256.0 are one network

    @property
    def num_ws(self) -> int:
        return 2 * int(math.log2(self.resolution)) - 2

    @property
    def sides(self) -> tuple[int, ...]:
        """4, 8, ..., resolution."""
        return tuple(2**power for power in range(2, int(math.log2(self.resolution)) + 1))

    def channels(self, side: int) -> int:
        return min(self.channel_base // side, self.channel_max)


ALIGNED = 1024
EYES = ((383, 482), (641, 482))
"""FFHQ's aligned images: the side in pixels, and about where the eyes are (x, y)."""
LEVEL = 0.2  # how far one eye may stand above the other, of their distance: frames are not turned

Coordinate = Annotated[float, Ge(0), Le(4096)]


@dataclass(frozen=True, kw_only=True)
class Crop:
    """Where the eyes are in the data's images, so that the prior's faces are cropped to the same frame.

    Attributes:
        left_eye, right_eye: X and y in pixels of the eye that is left, or right, in the image.
        side: Side of these images in pixels.
    """

    left_eye: tuple[Coordinate, Coordinate]
    right_eye: tuple[Coordinate, Coordinate]
    side: Side

    def __post_init__(self) -> None:
        self.frame()

    def frame(self) -> tuple[float, float, float]:
        """Left, top and side of the square, as fractions of the prior's image. Raises InputError, one line."""
        (left, top), (right, bottom) = self.left_eye, self.right_eye
        distance = math.hypot(right - left, bottom - top)
        if max(left, top, right, bottom) >= self.side:
            got = f"{list(self.left_eye)}, {list(self.right_eye)}"
            raise InputError(f"prior.crop: expected eyes within {self.side} pixels, got {got}")
        if right - left < self.side / 50 or abs(bottom - top) > LEVEL * distance:
            got = f"{list(self.left_eye)}, {list(self.right_eye)}"
            raise InputError(f"prior.crop: expected the left eye left of the right one, about level, got {got}")
        scale = (EYES[1][0] - EYES[0][0]) / distance
        middle = (EYES[0][0] + EYES[1][0]) / 2
        corner = (middle - scale * (left + right) / 2, EYES[0][1] - scale * (top + bottom) / 2)
        if min(corner) < 0 or max(corner) + scale * self.side > ALIGNED:
            numbers = ", ".join(
                f"{number:.0f}" for number in (*corner, *(start + scale * self.side for start in corner))
            )
            raise InputError(
                f"prior.crop: expected a frame within the {ALIGNED} pixels of the prior's images, got the square "
                f"({numbers}): the data show more around the face than it does"
            )
        return corner[0] / ALIGNED, corner[1] / ALIGNED, scale * self.side / ALIGNED


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

    channels: Annotated[tuple[Annotated[Channels, Ge(4), MultipleOf(4)], ...], Len(2, 10)]
    head: Channels | None = None
    z_dim: Width = 512
    w_dim: Width = 512
    mapping_layers: MappingLayers = 8
    frame: tuple[Fraction, Fraction, Fraction] | None = None
    size: Side | None = None

    num_ws: ClassVar[int] = 1

    def __post_init__(self) -> None:
        for name in ("channels", "frame"):
            if isinstance(stated := getattr(self, name), list):
                object.__setattr__(self, name, tuple(stated))  # JSON has lists
        check_fields(self, "mobilestylegan: ")
        if self.frame is not None:
            left, top, side = map(float, self.frame)
            if not side > 0 or max(left, top) + side > 1 + 1e-9:
                raise InputError(f"mobilestylegan: frame: expected a square within the image, got {list(self.frame)}")
            object.__setattr__(self, "frame", (left, top, side))

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
