"""The attacker's priors by kind: their settings, declared once, and who makes them. Reading the table loads no torch.

docs/new-prior.md shows how to add one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from smoothsweep.core.bounds import Count, FilePath, Seed, Width
from smoothsweep.core.checks import present
from smoothsweep.core.declared import build
from smoothsweep.core.errors import InputError
from smoothsweep.core.plugins import refuse_broken, with_plugins
from smoothsweep.core.priors.framing import Crop
from smoothsweep.core.priors.gan_recipe import GanRecipe, check_batch
from smoothsweep.core.priors.random_face_facts import MOST_PER_PIXEL, RANDOM_FACE_LICENCE

if TYPE_CHECKING:
    from smoothsweep.core.cards.network_card import NetworkCard
    from smoothsweep.core.priors.card import StyleGAN2Config

STYLEGAN2 = ("karras2020analyzing", "karras2020training")
"""What to cite for its networks and their training."""

WEIGHTS, DESCRIPTION, DISCRIMINATOR = "weights.safetensors", "prior.json", "discriminator.safetensors"
LICENCE = "licence.txt"  # beside weights, where what is made with them is bound to something

_OF_EVERY_TRAINING = ("betas", "r1_interval", "ema_kimg", "ema_rampup", "style_mixing", "ada_target", "ada_kimg")
_SHIPPED_AT = Path(__file__).parent / "weights"
SHIPPED: dict[str, Path] = {"stylegan2_synthetic64": _SHIPPED_AT / "stylegan2_synthetic64"}
"""Priors that come with the package: the common stem of the two files. weights/README.md says how good they are."""


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

    title: what pages call it, its kind where empty. unsaid: parameters that a sweep file does not set: they are what
    the kind has. with_discriminator: whether the discriminator that it was trained with lies beside it.
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

    def network_card(self, size: int | None) -> NetworkCard:
        """What its network is built from; size: side in pixels of the public images, where it learns from them.

        Raises InputError, one line, for a file that does not say it.
        """
        from smoothsweep.core.priors.card import read_prior_card

        return read_prior_card(present(self.files, "the prior's files").description)

    def check_public(self, *, count: int | None = None, size: int | None = None) -> None:
        """Raise InputError if it cannot be made from so many public images of that side; None: not known yet."""

    def check_shown(self, image_size: int) -> None:
        """Raise InputError if its images do not suit a target that takes images of that side."""


@dataclass(frozen=True, kw_only=True)
class EigenfacesFit(PriorSettings):
    """PCA of the public images: fitted in seconds, needs no file.

    components: principal components, as many numbers as a latent has; fewer than there are public images. seed: of the
    random sketch that stands in for the full PCA where images and pixels are many.
    """

    components: Count = 150
    seed: Seed = 0

    def network_card(self, size: int | None) -> NetworkCard:
        """Of the images' side."""
        from smoothsweep.core.cards.network_card import NetworkCard
        from smoothsweep.core.priors.card import EigenfacesConfig

        return NetworkCard(
            kind="eigenfaces", config=EigenfacesConfig(resolution=present(size, "size"), components=self.components)
        )

    def check_public(self, *, count: int | None = None, size: int | None = None) -> None:
        """Raise InputError for as many components as images, or more."""
        if count is not None and self.components >= count:
            got = self.components
            raise InputError(f"prior.components: expected fewer than the {count} public images, got {got}")


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


@dataclass(frozen=True, kw_only=True)
class RandomFace(PriorFolder):
    """Photorealistic faces by MobileStyleGAN, from the package random-face: for non-commercial use.

    path: the folder that `smoothsweep import prior random-face` wrote; resolution: side in pixels of the whole image,
    below 1024 by a read-out of the first stages, which costs less; crop: the frame of the data's faces, null for all
    of the image.
    """

    title: ClassVar[str] = "FFHQ prior"

    resolution: Literal[64, 128, 256, 1024] = 128
    crop: Crop | None = None

    @property
    def licence(self) -> str:
        """As the import notes it."""
        return RANDOM_FACE_LICENCE

    @property
    def files(self) -> PriorFiles:
        """What the import wrote for this resolution."""
        place = Path(self.path).expanduser() / str(self.resolution)
        return PriorFiles(weights=place / WEIGHTS, description=place / DESCRIPTION, key="prior.path")

    def network_card(self, size: int | None) -> NetworkCard:
        """As imported, with the frame."""
        from smoothsweep.core.cards.network_card import NetworkCard

        card = super().network_card(size)
        if card.kind != "mobilestylegan" or card.config.whole != self.resolution:
            got = f"{card.kind} of {card.config.resolution}"
            raise InputError(
                f"{self.files.description}: expected mobilestylegan of {self.resolution} pixels, got {got}"
            )
        frame = None if self.crop is None else self.crop.frame()
        return NetworkCard(kind=card.kind, config=replace(card.config, frame=frame))

    def check_shown(self, image_size: int) -> None:
        """Raise InputError for several times the pixels that the target sees: they cost minutes and show nothing."""
        shown = self.resolution * (1.0 if self.crop is None else self.crop.frame()[2])
        if shown > MOST_PER_PIXEL * image_size:
            raise InputError(
                f"prior.resolution: expected at most {MOST_PER_PIXEL} pixels for each of the target's {image_size}, "
                f"got {self.resolution}, which shows {shown:.0f}"
            )


@dataclass(frozen=True, kw_only=True)
class StyleGAN2Training(GanRecipe, PriorSettings):
    """A StyleGAN2 trained on the public images (non-saturating loss, lazy R1, EMA).

    z_dim, w_dim: numbers in a latent z, or w; mapping_layers: layers of the network from z to w; channel_base: channels
    of a layer times its side in pixels; channel_max: channels of a layer at most; workers: processes of Ray Train that
    share every batch; seed: of first weights and draws.
    """

    title: ClassVar[str] = "StyleGAN2"
    unsaid: ClassVar[tuple[str, ...]] = _OF_EVERY_TRAINING

    z_dim: Width = 128
    w_dim: Width = 128
    mapping_layers: Count = 4
    channel_base: Count = 2048
    channel_max: Count = 128
    workers: Count = 1
    seed: Seed = 0

    def check_public(self, *, count: int | None = None, size: int | None = None) -> None:
        """Raise InputError for images of a side, or batches, that the networks do not take. Loads torch."""
        if size is not None:
            check_batch(self, self.network(size).mbstd_group, self.workers)

    def network_card(self, size: int | None) -> NetworkCard:
        """Of the images' side."""
        from smoothsweep.core.cards.network_card import NetworkCard

        return NetworkCard(kind="stylegan2", config=self.network(present(size, "size")))

    def network(self, resolution: int) -> StyleGAN2Config:
        """The pair of networks for images of this side."""
        from smoothsweep.core.priors.card import StyleGAN2Config

        return StyleGAN2Config(
            resolution=resolution,
            z_dim=self.z_dim,
            w_dim=self.w_dim,
            mapping_layers=self.mapping_layers,
            channel_base=self.channel_base,
            channel_max=self.channel_max,
        )


@dataclass(frozen=True, kw_only=True)
class PriorKind:
    """One kind of prior.

    make: 'module:function' of (settings, public images uint8 [N, 3, R, R] or None) -> Prior; None where it is trained
    step by step, which tasks/stylegan.py does, on several workers if asked; needs_public: whether it learns from the
    public images; cites: its sources, as `core.citations` has them.
    """

    settings: type[PriorSettings]
    make: str | None
    needs_public: bool = False
    cites: tuple[str, ...] = ()

    def function(self) -> Callable[..., Any]:
        """The function that makes it."""
        module, _, name = str(self.make).partition(":")
        return getattr(import_module(module), name)


PRIORS: dict[str, PriorKind] = with_plugins(
    "priors",
    {
        "eigenfaces": PriorKind(
            settings=EigenfacesFit,
            make="smoothsweep.core.priors.eigenfaces:from_public",
            needs_public=True,
            cites=("turk1991eigenfaces",),
        ),
        "shipped": PriorKind(
            settings=ShippedPrior, make="smoothsweep.core.priors.registry:from_files", cites=STYLEGAN2
        ),
        "folder": PriorKind(settings=PriorFolder, make="smoothsweep.core.priors.registry:from_files", cites=STYLEGAN2),
        "random_face": PriorKind(
            settings=RandomFace,
            make="smoothsweep.core.priors.random_face.making:framed",
            cites=("belousov2021mobilestylegan", "karras2019style"),
        ),
        "stylegan2": PriorKind(settings=StyleGAN2Training, make=None, needs_public=True, cites=STYLEGAN2),
    },
    PriorKind,
)


def make_settings(kind: str, **parameters: Any) -> PriorSettings:
    """The settings of a prior of that kind, of plain values. Raises InputError, which lists the kinds."""
    refuse_broken("priors", kind)
    if kind not in PRIORS:
        raise InputError(f"prior.kind: expected one of {', '.join(PRIORS)}, got {kind!r}")
    return build(PRIORS[kind].settings, parameters, what=f"prior {kind}", prefix="prior.")
