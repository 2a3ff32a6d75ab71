"""The layers and networks that defenses build in or train beside a classifier."""

from __future__ import annotations

import copy
import hashlib
import math
from collections import abc
from collections.abc import Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from smoothsweep.core.checks import present
from smoothsweep.core.data.augmentation import AugmentationDraw, apply_augmentation, draw_augmentation, rotated
from smoothsweep.core.data.augmentation_settings import Augmentation
from smoothsweep.core.defenses.base import SmoothedLoss, over_outputs
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.classifiers import Classifier, UnalteredLogits
from smoothsweep.core.models.inference import evaluating
from smoothsweep.core.models.recipe import TrainingRecipe, learning_rate, make_optimizer

if TYPE_CHECKING:
    from smoothsweep.core.defenses.decoys import Ssd


class SameHead(nn.Linear):
    """Another head's weights under their names, for a head that uses them in its own way."""

    def __init__(self, head: nn.Linear) -> None:
        super().__init__(head.in_features, head.out_features, device="meta")
        self.weight, self.bias = head.weight, head.bias


def new_linear(inputs: int, outputs: int, generator: Generator) -> nn.Linear:
    """A linear layer with torch's usual initial weights, drawn from `generator`."""
    layer = nn.utils.skip_init(nn.Linear, inputs, outputs)
    init_linear(layer, generator)
    return layer


def init_linear(layer: nn.Linear, generator: Generator) -> None:
    """torch's usual initial weights of a linear layer, uniform within 1 / sqrt(inputs), from `generator`."""
    bound = layer.weight.shape[1] ** -0.5
    with torch.no_grad():
        layer.weight.uniform_(-bound, bound, generator=generator)
        layer.bias.uniform_(-bound, bound, generator=generator)


def replace_module(root: nn.Module, path: str, module: nn.Module) -> None:
    """Put `module` where `path` points below `root`."""
    parent, _, name = path.rpartition(".")
    setattr(root.get_submodule(parent), name, module)


class OwnNoise(nn.Module):
    """Stands before the layer's own class. seed; noise: a generator on the CPU, which evaluation mode starts anew."""

    seed: int
    noise: Generator

    def seed_noise(self, seed: int) -> None:
        """Start the noise of evaluation anew: the same calls from here on give the same numbers."""
        self.seed, self.noise = seed, Generator().manual_seed(seed)

    def train(self, mode: bool = True) -> Self:
        """Switch the mode; evaluation mode starts its noise anew."""
        if not mode:
            self.seed_noise(self.seed)
        return super().train(mode)


class DropoutHead(SameHead):
    """Another head's weights behind dropout."""

    def __init__(self, head: nn.Linear, p: float) -> None:
        super().__init__(head)
        self.p = p

    def forward(self, input: Tensor) -> Tensor:
        """[n, F] -> logits [n, C]."""
        return super().forward(F.dropout(input, self.p, self.training))


class ClippedHead(SameHead):
    """Another head's weights, its output clipped."""

    def __init__(self, head: nn.Linear, norm: float) -> None:
        super().__init__(head)
        self.norm = norm

    def forward(self, input: Tensor) -> Tensor:
        """[n, F] -> logits [n, C] of length at most `norm`."""
        logits = super().forward(input)
        length = logits.norm(dim=1, keepdim=True)
        return logits * (self.norm / length.clamp(min=self.norm))


class ScaledSkip(nn.Module):
    """A skip connection times `scale`; at 0 the layers on it are dropped and it adds nothing."""

    def __init__(self, skip: nn.Module | None, scale: float) -> None:
        super().__init__()
        self.skip = None if scale == 0 else skip
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        """[N, C, H, W] -> what the block adds to its output."""
        if self.scale == 0:
            return x.new_zeros(())
        return self.scale * (x if self.skip is None else self.skip(x))


def unlink_dense_blocks(model: Classifier, cut: Sequence[bool], generator: Generator) -> None:
    """Turn the blocks to cut into chains of their layers; layers whose inputs have another width begin anew."""
    features: Any = model.backbone.features
    channels = features.norm0.num_features
    for number, is_cut in enumerate(cut, start=1):
        layers = list(getattr(features, f"denseblock{number}").children())
        growth = layers[0].conv2.out_channels
        for i, layer in enumerate(layers):
            inputs = channels + i * growth if not is_cut or i == 0 else growth
            _fit_inputs(layer, "norm1", "conv1", inputs, generator)
        channels = growth if is_cut else channels + len(layers) * growth
        if is_cut:
            setattr(features, f"denseblock{number}", nn.Sequential(*layers))
        if number < len(cut):
            transition = getattr(features, f"transition{number}")
            halved = channels // 2
            _fit_inputs(transition, "norm", "conv", channels, generator, outputs=halved)
            channels = halved
    if features.norm5.num_features != channels:
        features.norm5 = nn.BatchNorm2d(channels)
        model.head = new_linear(channels, model.num_classes, generator)


def _fit_inputs(
    module: nn.Module, norm: str, convolution: str, inputs: int, generator: Generator, outputs: int | None = None
) -> None:
    """A new norm and 1x1 convolution in `module` if theirs take another number of channels."""
    if getattr(module, norm).num_features == inputs:
        return
    outputs = outputs or getattr(module, convolution).out_channels
    setattr(module, norm, nn.BatchNorm2d(inputs))
    setattr(module, convolution, _new_convolution(inputs, outputs, generator))


def _new_convolution(inputs: int, outputs: int, generator: Generator) -> nn.Conv2d:
    """A 1x1 convolution with DenseNet's initial weights."""
    layer = nn.utils.skip_init(nn.Conv2d, inputs, outputs, kernel_size=1, bias=False)
    with torch.no_grad():
        nn.init.kaiming_normal_(layer.weight, generator=generator)
    return layer


GROUPS = 32  # of GroupNorm, as Opacus has them


def norm_of_one(module: nn.BatchNorm1d | nn.BatchNorm2d) -> nn.Module:
    """A norm over one image's features in the place of one over the batch, with its weights."""
    features, affine = module.num_features, module.affine
    if isinstance(module, nn.BatchNorm1d):
        norm: nn.Module = nn.LayerNorm(features, eps=module.eps, elementwise_affine=affine)
    else:
        norm = nn.GroupNorm(math.gcd(GROUPS, features), features, eps=module.eps, affine=affine)
    if affine:
        norm.weight, norm.bias = module.weight, module.bias
    return norm


_SHIFT = 5.0  # sigma = softplus(raw - 5): small at initialisation
_UNDERFLOW = -15.0  # below it log(softplus(x)) is x to float32 precision, and far below it softplus(x) is 0


class BottleneckHead(OwnNoise, nn.Linear):
    """Features [n, F] -> logits [n, C] through k noisy numbers; `weight` and `bias` are those of the last layer.

    In training mode the noise comes from torch's generator of the features' device, as dropout's does. Otherwise
    `readout` decides, and noise comes from the head's own generator. `eval()` starts that one anew, so that an
    evaluation between two epochs gives the same numbers in a training that was interrupted.
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
        """Choose how the network is read outside training, and seed its noise.

        readout: `noisy` (as published: a fresh draw for every image in every call), `mean` (h = mu, deterministic), or
        `expectation` (the mean logits of `draws` noisy passes; more draws come closer to `mean`). Noise is drawn in the
        order of the calls: seed anew, with `seed_noise`, wherever results must not depend on what was computed before.
        """
        self.readout, self.draws = readout, draws
        self.seed_noise(seed)

    def forward(self, input: Tensor) -> Tensor:
        """[n, F] -> logits [n, C]."""
        mu, raw = self.statistics(input).chunk(2, dim=1)
        if self.training:
            return super().forward(mu + sigma_of(raw) * torch.randn_like(mu))
        if self.readout == "mean":
            return super().forward(mu)
        # On the CPU, so that the numbers do not depend on the device.
        noise = torch.randn(mu.shape, generator=self.noise).to(device=mu.device, dtype=mu.dtype)
        if self.readout == "expectation":
            noise = noise / self.draws**0.5  # the last layer is linear: exactly the law of a mean of `draws` passes
        return super().forward(mu + sigma_of(raw) * noise)


def gaussian_kl(mu: Tensor, raw: Tensor) -> Tensor:
    """KL of N(mu, sigma^2) to N(0, 1) with sigma = softplus(raw - 5), summed over k: [n, k] twice -> [n].

    Finite however small sigma is: its logarithm is not taken of a number that can underflow to 0.
    """
    sigma = sigma_of(raw)
    return -0.5 * (1 + 2 * _log_sigma(raw) - mu.square() - sigma.square()).sum(dim=1)


def sigma_of(raw: Tensor) -> Tensor:
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


@contextmanager
def kept_buffers(model: nn.Module) -> abc.Generator[None]:
    """Passes through the network in training mode while this is open leave no trace in its running statistics."""
    before = [(buffer, buffer.clone()) for buffer in model.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, value in before:
                buffer.copy_(value)


_VIEWS = Augmentation(crop_scale=(0.8, 1.0), brightness=0, contrast=0, saturation=0, hue=0, flip=0.5)
_DEGREES = 30.0
_CHANCE = 0.5  # of the crop, and of the turn


class Traps(nn.Module):
    """The triggers of all classes, float32 [C, 3, S, S] in [-1, 1], and the discriminator with its optimizer.

    The discriminator: `model`'s structure and weights under a new head of one output, trained as the recipe says.
    """

    triggers: Tensor

    def __init__(
        self, model: Classifier, recipe: TrainingRecipe, *, blend: float, step: float, generator: Generator
    ) -> None:
        super().__init__()
        self.recipe, self.blend, self.step = recipe, blend, step
        device = next(model.parameters()).device
        shape = (model.num_classes, 3, recipe.image_size, recipe.image_size)
        self.register_buffer("triggers", (2 * torch.rand(shape, generator=generator) - 1).to(device))
        self.discriminator = copy.deepcopy(model)
        self.discriminator.head = new_linear(model.head.in_features, 1, generator).to(device)
        self.optimizer = make_optimizer([p for p in self.discriminator.parameters() if p.requires_grad], recipe)

    def get_extra_state(self) -> dict[str, Any]:
        """The optimizer's part of `state_dict`."""
        return self.optimizer.state_dict()

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Take such a part back."""
        self.optimizer.load_state_dict(copy.deepcopy(state))  # by itself it would go on using these tensors

    def blended(self, images: Tensor, towards: Tensor) -> Tensor:
        """Images [n, 3, S, S] in [-1, 1], each with a faint trigger of a class int64 [n]: no pixel moves by more than
        twice the blend.
        """
        return torch.lerp(images, self.triggers[towards], self.blend)

    def train_discriminator(self, images: Tensor, towards: Tensor, *, epoch: int) -> Tensor:
        """One step of the discriminator, clean images 1 and those with a trigger 0; the share it had right."""
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.recipe, epoch)
        batch = torch.cat([images, self.blended(images, towards)]).contiguous(memory_format=torch.channels_last)
        truth = torch.cat([torch.ones(len(images)), torch.zeros(len(images))]).to(images.device)
        self.discriminator.train()
        self.optimizer.zero_grad(set_to_none=True)
        losses, scores = over_outputs(
            self.discriminator(batch),
            lambda scores: F.binary_cross_entropy_with_logits(scores[:, 0], truth, reduction="none"),
        )
        losses.mean().backward()
        self.optimizer.step()
        return ((scores[:, 0].detach() > 0) == truth.bool()).float().mean()

    def sharpen(
        self, model: Classifier, images: Tensor, towards: Tensor, criterion: SmoothedLoss, generator: Generator
    ) -> None:
        """One signed step of the batch's triggers: to pass for clean, and to be taken by the network for their class.

        criterion: of the network's answers, smoothed as the labels of triggers are.
        Both networks as they answer, not as they train. Leaves the network as it was.
        """
        classes, class_rows = towards.unique(return_inverse=True)
        triggers = self.triggers[classes].requires_grad_()
        with evaluating(model), evaluating(self.discriminator):
            trapped = torch.lerp(images, triggers[class_rows], self.blend)
            scores = self.discriminator(trapped)[:, 0]
            deceived = F.binary_cross_entropy_with_logits(scores, torch.ones_like(scores))
            logits = model(augment(trapped, generator))
            (slope,) = torch.autograd.grad(deceived + criterion(logits, towards).mean(), triggers)
        with torch.no_grad():
            self.triggers[classes] = (triggers - self.step * slope.sign()).clamp(-1, 1)


def augment(images: Tensor, generator: Generator) -> Tensor:
    """Images [n, 3, S, S] in [-1, 1], each maybe cropped, mirrored, turned (then black at corners); differentiable."""
    n = len(images)
    draw = draw_augmentation(n, _VIEWS, generator)
    cropped, turned, angle = torch.rand(3, n, generator=generator)
    box = torch.where(cropped[:, None] < _CHANCE, present(draw.box, "box"), torch.tensor([1.0, 1.0, 0.0, 0.0]))
    degrees = _DEGREES * (2 * angle - 1) * (turned < _CHANCE)
    augmented = apply_augmentation(images, AugmentationDraw(n=n, box=box, flip=draw.flip))
    return rotated(augmented + 1, degrees) - 1


_LEAST = 1e-12  # of a mean answer's entries, so that no ratio divides by zero
_UNLIKELY = 1e-37  # of an answer's entries, so that its logarithm is finite in float32


def shield_of(model: Classifier) -> ShieldedAnswers:
    if not isinstance(model.answer, ShieldedAnswers):
        raise ValueError(f"answer: expected that of defense ssd, got {type(model.answer).__name__}")
    return model.answer


class ShieldedAnswers(OwnNoise, UnalteredLogits):
    """Logits [n, C] and the images they belong to -> log of the altered answers float32 [n, C], without gradients.

    profiles: float32 [C, C], the mean answers, one row for each true class. In training mode, and before these are
    fitted, logits stay as they are. Evaluation mode starts fresh draws anew.
    """

    profiles: Tensor
    fitted: Tensor

    def __init__(self, classes: int, settings: Ssd) -> None:
        super().__init__()
        self.settings, self.leaves = settings, settings.leaves
        self.register_buffer("profiles", torch.zeros(classes, classes))
        self.register_buffer("fitted", torch.zeros((), dtype=torch.uint8))
        self.seed_noise(0)

    def forward(self, logits: Tensor, images: Tensor) -> Tensor:
        """The answers that are shown in the network's place."""
        if self.training or not self.fitted:
            return logits
        with torch.no_grad(), torch.autocast(logits.device.type, enabled=False):
            answers = logits.double().softmax(1)
            likely = torch.softmax(answers / self.settings.temperature, 1).cumsum(1)
            drawn = torch.searchsorted(likely, self._uniform(images).to(likely.device)[:, None], right=True).squeeze(1)
            towards = self.profiles[drawn.clamp(max=logits.shape[1] - 1)].double()
            budget = self.settings.eps * entropy(answers)
            return move_towards(answers, towards, budget).clamp(min=_UNLIKELY).log().float()

    def _uniform(self, images: Tensor) -> Tensor:
        """A number in [0, 1) for every image, float64 [n] on the CPU."""
        if self.settings.draws == "fresh":
            return torch.rand(len(images), generator=self.noise, dtype=torch.float64)
        pictures = images.detach().float().add(1).mul(127.5).round().clamp(0, 255).to(torch.uint8).cpu().contiguous()
        digests = [hashlib.blake2b(picture.numpy().tobytes(), digest_size=8).digest() for picture in pictures]
        return torch.tensor([(int.from_bytes(digest) >> 11) * 2.0**-53 for digest in digests], dtype=torch.float64)


def entropy(answers: Tensor) -> Tensor:
    """Entropy in nats, [n, C] -> [n]; zeros count as nothing."""
    return -torch.xlogy(answers, answers).sum(1)


def move_towards(answers: Tensor, towards: Tensor, budget: Tensor) -> Tensor:
    """The p nearest to `towards` q in KL(p || q) whose L1 distance to the answer f is at most the budget [n].

    answers, towards: probabilities float64 [n, C]. p is q within reach, else f clipped to [low q, high q], where low
    and high move half of the budget each.
    """
    towards = towards.clamp(min=_LEAST)
    towards = towards / towards.sum(1, keepdim=True)
    half = (budget / 2)[:, None]
    ratios, order = (answers / towards).sort(dim=1)
    f, q = answers.gather(1, order), towards.gather(1, order)
    low = _level(f, q, ratios, half, up=True)
    high = _level(f.flip(1), q.flip(1), ratios.flip(1), half, up=False)
    clipped = torch.minimum(torch.maximum(answers, low * towards), high * towards)
    within = (answers - towards).abs().sum(1, keepdim=True) <= 2 * half
    return torch.where(within, towards, clipped)


def _level(f: Tensor, q: Tensor, ratios: Tensor, mass: Tensor, *, up: bool) -> Tensor:
    """The multiple of q [n, 1] to which entries must be filled up, or cut down, so that `mass` is moved.

    Args:
        f, q, ratios: [n, C], in the order in which entries are reached.
    """
    sign = 1.0 if up else -1.0
    sums_f, sums_q = f.cumsum(1), q.cumsum(1)
    moved = sign * (ratios * sums_q - sums_f)  # when the level stands at the entry's own ratio
    reached = (moved < mass).sum(1, keepdim=True).clamp(min=1) - 1
    return (sums_f.gather(1, reached) + sign * mass) / sums_q.gather(1, reached)
