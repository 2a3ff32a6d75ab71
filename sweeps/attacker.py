"""The attacker's prior in a sweep file."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sweeps.base import Count, FilePath, Model, NotNegative, Positive, Seed


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
