"""The attacker's part of a sweep file: prior, candidate pool, attack."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from core.attacks.crop_rule import CropRule
from core.errors import InputError
from sweeps.base import Beta, Count, FilePath, Model, NotNegative, Pair, Positive, Range, Seed


class Eigenfaces(Model):
    """PCA of the public images: fitted in seconds, needs no file."""

    kind: Literal["eigenfaces"]
    components: Count = 150
    seed: Seed = 0


class ShippedPrior(Model):
    """A generator that comes with smoothsweep."""

    kind: Literal["shipped"]
    name: Literal["stylegan2_synthetic64"] = "stylegan2_synthetic64"


class PriorFolder(Model):
    """A prior written by smoothsweep earlier: a directory with weights.safetensors and prior.json."""

    kind: Literal["folder"]
    path: FilePath


class StyleGAN2(Model):
    """A StyleGAN2 trained on the public images (non-saturating loss, lazy R1, EMA)."""

    kind: Literal["stylegan2"]
    z_dim: Count = 128
    w_dim: Count = 128
    mapping_layers: Count = 4
    channel_base: Count = 2048
    channel_max: Count = 128
    kimg: Positive = 200.0
    batch_size: Annotated[Count, Field(ge=4)] = 16
    lr: Positive = 0.002
    r1_gamma: NotNegative = 1.0
    augmentation: Literal["none", "light", "adaptive"] = "light"
    workers: Count = 1
    seed: Seed = 0


class Pool(Model):
    """The candidate pool: decoded once, shared by every target of the sweep."""

    size: Count = 2000
    seed: Seed = 42
    truncation_psi: Positive = 0.5
    truncation_cutoff: Count | None = 8  # how many of the prior's inputs are truncated; null is all
    crop: Count | None = None  # centre crop of decoded images in pixels, before resizing


class Attack(Model):
    """Plug & Play Attack; the defaults are the paper's for FaceScrub (Appendix B.4)."""

    kind: Literal["ppa"] = "ppa"
    loss: Literal["poincare", "cross_entropy"] = "poincare"
    pool: Pool = Pool()
    candidates: Count = 200  # per class, the start of the optimisation
    steps: Count = 50
    lr: Positive = 0.005
    betas: Pair[Beta] = (0.1, 0.1)
    crop_scale: Range = (0.9, 1.0)
    batch_size: Count = 25
    clip: bool | None = None  # clip images to [-1, 1] before the target sees them; null: no, as published
    # Of mean softplus(-D(image)) in the loss, for a prior folder with its discriminator; null: 0, as published.
    discriminator_weight: NotNegative | None = None
    selected: Count = 50  # per class, what the judges see
    selection_repeats: Count = 100
    selection_crop_scale: Range = (0.5, 0.9)
    selection_crop_ratio: Range = (0.8, 1.2)
    seed: Seed = 42
    # How the attacker reads a target of defense mid; null: as the protocol does (paper: noisy, clean: mean).
    readout: Literal["noisy", "mean", "expectation"] | None = None
    precision: Literal["fp32", "tf32", "bf16"] | None = None  # of the networks' passes; null: fp32. tf32 is CUDA's
    loot_size: Annotated[Count, Field(ge=16)] | None = None  # protocol clean: side of the loot; null: as decoded

    @model_validator(mode="after")
    def _stages_fit(self) -> Attack:
        CropRule(scale=self.crop_scale)
        try:
            CropRule(scale=self.selection_crop_scale, ratio=self.selection_crop_ratio)
        except InputError as error:
            raise ValueError(f"selection_{error}") from None
        if self.candidates > self.pool.size:
            raise ValueError(f"candidates: expected at most pool.size ({self.pool.size}), got {self.candidates}")
        if self.selected > self.candidates:
            raise ValueError(f"selected: expected at most candidates ({self.candidates}), got {self.selected}")
        return self
