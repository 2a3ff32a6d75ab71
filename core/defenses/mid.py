"""MID: a variational information bottleneck before the last layer (Wang et al., AAAI 2021).

The structure and the loss are those of VGG16_vib and train_vib.py in AlanPeng0897/Defend_MI, BiDO/; the place within
other architectures is that of the paper's Appendix B.5. Those codes draw the noise in every forward pass, at test time
too: readout `noisy`. A white-box attacker need not accept that, hence two more readouts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from smoothsweep.core.bounds import Fraction, NotNegative, Width
from smoothsweep.core.checks import require_choice, require_count
from smoothsweep.core.defenses.base import (
    Defense,
    Step,
    StepLoss,
    criterion_losses,
    init_linear,
    new_linear,
    replace_module,
    watch,
)
from smoothsweep.core.defenses.own_noise import OwnNoise
from smoothsweep.core.defenses.strengths import Family, numbers
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.anatomy import anatomy_of
from smoothsweep.core.models.classifiers import Classifier

READOUTS = ("noisy", "mean", "expectation")
READOUT_OF_PROTOCOL = {
    "paper": "noisy",  # the official codes draw noise in every pass, tests and attacks included
    "clean": "mean",  # an attacker who holds the weights can leave the noise out
}
_SHIFT = 5.0  # sigma = softplus(raw - 5): small at initialisation
_UNDERFLOW = -15.0  # below it log(softplus(x)) is x to float32 precision, and far below it softplus(x) is 0


@dataclass(frozen=True, kw_only=True)
class Mid(Defense):
    """Features [n, F] -> h = mu + sigma * noise [n, k] -> logits, with `beta` times KL(h | N(0, 1)) in the loss.

    Attributes:
        beta: Weight of the KL divergence, a sum over k and a mean over the batch.
        k: Size of the bottleneck, None for half the features.
        beta_warmup: Fraction of the training in [0, 1] over which beta rises linearly to its value, 0 for none (as
            published).
    """

    cites: ClassVar[tuple[str, ...]] = ("wang2021improving",)
    family: ClassVar[Family | None] = Family(
        name="MID",
        word="MID",
        parameter="",
        read=numbers("beta", named=True),
        starts_plain=False,
        why="at beta 0 the bottleneck and its noise remain",
        defaults={"beta_warmup": 0.0},
    )
    readouts: ClassVar[tuple[str, ...]] = READOUTS
    usual_readouts: ClassVar[Mapping[str, str]] = READOUT_OF_PROTOCOL
    noiseless: ClassVar[str | None] = "mean"

    beta: NotNegative
    k: Width | None = None
    beta_warmup: Fraction = 0.0

    def prepare(self, model: Classifier, *, generator: Generator) -> None:
        """Put the bottleneck between features and head; in the VGG it takes the place of the last BatchNorm1d."""
        self.check(model.architecture)
        norm = anatomy_of(model.architecture).last_norm
        if norm is not None:
            replace_module(model.backbone, norm, nn.Identity())
        k = self.k or model.feature_dim // 2
        model.head = BottleneckHead(model.feature_dim, k, model.num_classes, generator=generator)

    def read(self, model: Classifier, readout: str | None, *, protocol: str, seed: int) -> None:
        """As `set_readout`; by itself noisy under `paper`, as published, and by the mean under `clean`."""
        set_readout(model, readout or self.usual_readouts[protocol], seed=seed)

    def seed_noise(self, model: Classifier, seed: int) -> bool:
        """Nothing is drawn where the mean is read."""
        bottleneck_of(model).seed_noise(seed)
        return draws_noise(model)

    def loss(self, step: Step) -> StepLoss:
        """The criterion plus beta times the divergence; facts: kl (per image, unweighted), sigma_mean, beta."""
        head = bottleneck_of(step.model)
        with watch({"statistics": head.statistics}, lambda output: output) as seen:
            losses, logits = criterion_losses(step, step.forward(step.images))
        mu, raw = seen["statistics"].chunk(2, dim=1)
        divergence = gaussian_kl(mu, raw).mean()
        beta = self.beta_at(step.epoch, step.epochs)
        facts = {"kl": divergence.detach(), "sigma_mean": _sigma(raw.detach()).mean()}
        facts["beta"] = divergence.new_tensor(beta)
        return StepLoss(losses.mean() + beta * divergence, logits, facts)

    def beta_at(self, epoch: int, epochs: int) -> float:
        """The weight in a zero-based epoch; the rise is complete with the epoch that ends at `beta_warmup`."""
        done = (epoch + 1) / epochs
        return self.beta if done >= self.beta_warmup else self.beta * done / self.beta_warmup


class BottleneckHead(OwnNoise, nn.Linear):
    """Features [n, F] -> logits [n, C] through k noisy numbers; `weight` and `bias` are those of the last layer.

    In training mode the noise comes from torch's generator of the features' device, as dropout's does. Otherwise
    `readout` decides: `noisy` draws from the head's own generator, `mean` sets the noise to 0, `expectation` averages
    the logits of `draws` noisy passes. `eval()` starts that generator anew, so that an evaluation between two epochs
    gives the same numbers in a training that was interrupted.
    """

    def __init__(self, features: int, k: int, classes: int, *, generator: Generator) -> None:
        with torch.random.fork_rng(devices=[]):  # Linear draws its own weights, which are replaced
            super().__init__(k, classes)
        init_linear(self, generator)
        self.in_features = features  # what it takes, as every head says
        self.k = k
        self.statistics = new_linear(features, 2 * k, generator)
        self.read("noisy")

    def read(self, readout: str, *, draws: int = 16, seed: int = 0) -> None:
        """Choose the readout and start its noise anew; see `set_readout`."""
        self.readout, self.draws = readout, draws
        self.seed_noise(seed)

    def forward(self, input: Tensor) -> Tensor:
        """[n, F] -> logits [n, C]."""
        mu, raw = self.statistics(input).chunk(2, dim=1)
        if self.training:
            return super().forward(mu + _sigma(raw) * torch.randn_like(mu))
        if self.readout == "mean":
            return super().forward(mu)
        # On the CPU, so that the numbers do not depend on the device.
        noise = torch.randn(mu.shape, generator=self.noise).to(device=mu.device, dtype=mu.dtype)
        if self.readout == "expectation":
            noise = noise / self.draws**0.5  # the last layer is linear: exactly the law of a mean of `draws` passes
        return super().forward(mu + _sigma(raw) * noise)


def gaussian_kl(mu: Tensor, raw: Tensor) -> Tensor:
    """KL of N(mu, sigma^2) to N(0, 1) with sigma = softplus(raw - 5), summed over k: [n, k] twice -> [n].

    Finite however small sigma is: its logarithm is not taken of a number that can underflow to 0.
    """
    sigma = _sigma(raw)
    return -0.5 * (1 + 2 * _log_sigma(raw) - mu.square() - sigma.square()).sum(dim=1)


def _sigma(raw: Tensor) -> Tensor:
    return F.softplus(raw - _SHIFT)


def _log_sigma(raw: Tensor) -> Tensor:
    """log(softplus(x)), where it would underflow by its expansion x - exp(x) / 2 (to 1e-14 below -15)."""
    x = raw - _SHIFT
    small = x < _UNDERFLOW
    usual = F.softplus(x.masked_fill(small, 0.0)).log()  # masked, or its gradient would be 0 * inf
    return torch.where(small, x - x.clamp(max=_UNDERFLOW).exp() / 2, usual)


def bottleneck_of(model: nn.Module) -> BottleneckHead:
    """The bottleneck of a classifier. Raises InputError if it has none."""
    head = getattr(model, "head", None)
    if not isinstance(head, BottleneckHead):
        raise InputError("readout: expected a classifier trained with defense mid, got one without a bottleneck")
    return head


def set_readout(model: nn.Module, readout: str, *, draws: int = 16, seed: int = 0) -> None:
    """Choose how a network with a bottleneck is read outside training, and seed its noise.

    readout: `noisy` (as published: a fresh draw for every image in every call), `mean` (h = mu, deterministic), or
    `expectation` (the mean logits of `draws` noisy passes; more draws come closer to `mean`). Noise is drawn in the
    order of the calls: seed anew, with `seed_noise`, wherever results must not depend on what was computed before.
    Raises InputError for an unknown readout, fewer than one draw or a network without a bottleneck.
    """
    require_choice("readout", readout, READOUTS)
    require_count("readout: draws", draws)
    bottleneck_of(model).read(readout, draws=draws, seed=seed)


def seed_noise(model: nn.Module, seed: int) -> None:
    """Start the noise of a network with a bottleneck anew; any other network draws none and is left alone."""
    for module in model.modules():
        if isinstance(module, BottleneckHead):
            module.seed_noise(seed)


def draws_noise(model: object) -> bool:
    """Whether a network in evaluation mode gives other logits in every call."""
    modules = model.modules() if isinstance(model, nn.Module) else ()
    return any(isinstance(module, BottleneckHead) and module.readout != "mean" for module in modules)
