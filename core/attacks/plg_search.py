"""What PLG-MI computes: pseudo-labels of public images, a conditional GAN trained on them and against the target, and a
search in its latents.

The GAN (LetheSec/PLG-MI-Attack, train_cgan.py and dataset.py): in every step first the generator is updated, by a hinge
loss and the target's own loss of what is generated, then the discriminator several times. The generator is in train
mode in all of it, so its batch norm's averages move with every batch of fakes, six times a step; the spectral norm
moves with every pass through the discriminator, eleven times. The last weights count.

Every draw of a step comes from a stream of its own, made from (seed, step, which update of the step): a resumed
training is the same training. The official labels, from a numpy generator that is seeded anew by the clock, cannot be
drawn again.

The search (reconstruct.py): Adam on latents, the target's loss under two random views. No discriminator, no prior term,
no clipping; the last latents count, and all restarts are results. Protocol `paper` keeps what makes numbers there:

* five batches of 60 labels, all with the same starts: that of a class is row (class modulo 60) of its restart's draw;
* the loss is a batch mean. Adam makes nothing of the factor 1/60 but beside its epsilon;
* the order of the colour changes is drawn once for the 60 of a batch, anew in every restart, step and view;
* colours change in every view, for there ColorJitter has its default chance of 1; while the GAN was trained it had 0.5.

Under `clean` a class draws all of it by itself, and colours change as often as the generator was trained for.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from smoothsweep.core.attacks.gan_networks import ConditionalGenerator, ProjectionDiscriminator, with_class
from smoothsweep.core.attacks.gan_training import CHECKPOINTS, GanPair, descend, train_pair
from smoothsweep.core.attacks.optimisation.descent import (
    Descent,
    Protocol,
    StepGradient,
    attack_loss,
    target_logits,
    walk,
)
from smoothsweep.core.attacks.shared.base import AttackInputs, MadePart, PartContext
from smoothsweep.core.attacks.shared.view import GradientView, ScoreView
from smoothsweep.core.attacks.training_settings import ConditionalConfig, ConditionalTraining
from smoothsweep.core.checks import present, require
from smoothsweep.core.data.augmentation import rotated
from smoothsweep.core.data.images import resize_uint8, to_unit
from smoothsweep.core.declared import build
from smoothsweep.core.seeds import derive_seed, generator

if TYPE_CHECKING:
    from smoothsweep.core.attacks.plg_mi import PLGMI

REFERENCE_BATCH = 60  # labels that the official attack inverts together
VIEWS = 2  # per step
AREA = (0.8, 1.0)  # share of the image that a crop takes
SHIFT = 0.2  # brightness and contrast are multiplied by 1 +- this
DEGREES = 5.0
CHANCE = 0.5  # of the mirror, and of the rotation; of changed colours while the GAN is trained
_ATTEMPTS = 10  # boxes that kornia tries before it takes the whole image
_GREY = (0.299, 0.587, 0.114)
_BRIGHTNESS, _CONTRAST = 0, 1  # in `Distortion.order`; 2 and 3, saturation and hue, are left at 1 and 0
_ASKED_AT_ONCE = 512  # public images turned into floats together

OUTPUT: dict[str, Literal["signed", "unit"]] = {"paper": "unit", "clean": "signed"}
"""What tanh stands for. The official generator ends in tanh, but its reals lie in [0, 1] and nothing maps one to the
other: it learns to leave half of tanh's range unused, and what it emits below 0 reaches target and judges as it is.
Protocol `paper` keeps that; under `clean` the reals lie in [-1, 1]."""

Logits = Callable[[Tensor], Tensor]
"""images [N, 3, R, R] in [-1, 1] -> the target's logits [N, C], differentiable."""


@dataclass(frozen=True, kw_only=True)
class Distortion:
    """One draw of how PLG-MI shows N images of S pixels to the target: crop, colours, mirror, rotation. On the CPU.

    What the official code gets from kornia 0.6.6: RandomResizedCrop of 0.8 to 1 of the area, ColorJitter of brightness
    and contrast by 0.2, RandomHorizontalFlip, RandomRotation by 5 degrees. Written here since torchvision's transforms
    give one draw to a whole batch, and so that the backward pass is the same every time on every device, which that of
    torch's sampling kernels is not on CUDA.

    Attributes:
        top, left, side: Box of whole pixels, int64 [N].
        jitter, mirror, rotate: bool [N], whether it happens.
        brightness, contrast: Factors, [N].
        order: int64 [N, 4], in which order brightness 0, contrast 1, saturation 2 and hue 3 are changed, one row where
            all images share it.
        degrees: [N], anticlockwise.
    """

    top: Tensor
    left: Tensor
    side: Tensor
    jitter: Tensor
    brightness: Tensor
    contrast: Tensor
    order: Tensor
    mirror: Tensor
    rotate: Tensor
    degrees: Tensor

    def of(self, rows: slice) -> Distortion:
        part = {name: value[rows] for name, value in vars(self).items() if name != "order"}
        return Distortion(**part, order=self.order if len(self.order) == 1 else self.order[rows])


def draw_distortion(
    count: int, side: int, source: torch.Generator, *, jitter: float, shared_order: torch.Generator | None = None
) -> Distortion:
    """A distortion for `count` images of `side` pixels. jitter: chance that the colours of an image are changed.

    shared_order: draws one order of the colour changes for all images, as kornia does; None: each has its own.
    """

    def uniform(low: float = 0.0, high: float = 1.0) -> Tensor:
        return low + (high - low) * torch.rand(count, generator=source, dtype=torch.float64)

    box = _draw_side(count, side, source)
    room = (side - box + 1).double()
    top, left = ((uniform() * room).floor().long().minimum(side - box) for _ in range(2))
    brightness, contrast = (uniform(1 - SHIFT, 1 + SHIFT).float() for _ in range(2))
    if shared_order is None:
        order = torch.rand(count, 4, generator=source).argsort(dim=1)
    else:
        order = torch.randperm(4, generator=shared_order)[None]
    return Distortion(
        top=top,
        left=left,
        side=box,
        brightness=brightness,
        contrast=contrast,
        order=order,
        jitter=uniform() < jitter,
        mirror=uniform() < CHANCE,
        rotate=uniform() < CHANCE,
        degrees=uniform(-DEGREES, DEGREES).float(),
    )


def _draw_side(count: int, side: int, source: torch.Generator) -> Tensor:
    """Sides of boxes: of ten tries the first that is smaller than the image (a box as large as it counts as a miss);
    else all of it."""
    area = AREA[0] + (AREA[1] - AREA[0]) * torch.rand(count, _ATTEMPTS, generator=source, dtype=torch.float64)
    tries = (area.sqrt() * side).round().long()
    fits = (tries < side) & (tries > 0)
    first = fits.to(torch.uint8).argmax(1, keepdim=True)
    return torch.where(fits.any(1), tries.gather(1, first)[:, 0], side)


def distort(images: Tensor, draw: Distortion) -> Tensor:
    """The images [N, 3, S, S], meant for [0, 1], under a draw, of the same size, differentiable."""
    images = cropped(images, draw)
    images = torch.where(_each(draw.jitter, images), jittered(images, draw), images)
    images = torch.where(_each(draw.mirror, images), images.flip(3), images)
    return torch.where(_each(draw.rotate, images), rotated(images, draw.degrees), images)


def cropped(images: Tensor, draw: Distortion) -> Tensor:
    """The boxes, brought back to S pixels: bilinear with aligned corners, no antialiasing, as two matrix products."""
    size = images.shape[-1]
    rows, columns = (_stretch(first, draw.side, size).to(images) for first in (draw.top, draw.left))
    return rows[:, None] @ images @ columns.mT[:, None]


def _stretch(first: Tensor, length: Tensor, size: int) -> Tensor:
    """[N, S, S]: each row holds the weights of a new pixel's two neighbours within the box."""
    step = (length - 1).double()[:, None] / (size - 1)
    place = first[:, None] + torch.arange(size) * step
    return (1 - (place[..., None] - torch.arange(size)).abs()).clamp_min(0)


def jittered(images: Tensor, draw: Distortion) -> Tensor:
    """Colours changed in the drawn order. Every change clamps to [0, 1], saturation too, though its factor is 1.

    Hue is left alone: kornia's way to HSV and back with nothing in between changes neither values nor gradients.
    """
    brightness, contrast = (_each(factor, images) for factor in (draw.brightness, draw.contrast))
    for place in range(draw.order.shape[1]):
        kinds = draw.order[:, place]
        changed = {kind: _changed(images, kind, brightness, contrast) for kind in kinds.unique().tolist()}
        if len(changed) == 1:
            (images,) = changed.values()
            continue
        for kind, other in changed.items():
            images = torch.where(_each(kinds == kind, images), other, images)
    return images


def _changed(images: Tensor, kind: int, brightness: Tensor, contrast: Tensor) -> Tensor:
    if kind == _BRIGHTNESS:
        return (images * brightness).clamp(0, 1)
    if kind == _CONTRAST:
        grey = (images * images.new_tensor(_GREY)[:, None, None]).sum(1, keepdim=True)
        return (images * contrast + grey.mean(dim=(2, 3), keepdim=True) * (1 - contrast)).clamp(0, 1)
    return images.clamp(0, 1) if kind == 2 else images


def _each(values: Tensor, images: Tensor) -> Tensor:
    """[N] -> [N, 1, 1, 1] on the images' device."""
    return values.to(images.device, None if values.dtype == torch.bool else images.dtype)[:, None, None, None]


def make_labels(
    settings: Mapping[str, Any], inputs: AttackInputs, view: ScoreView, part_context: PartContext
) -> MadePart:
    """index int64 [C, n] of the public images labelled with each class, the least sure first, and confidence [C, n].

    An image that is among the best n of several classes is labelled with each of them. Raises InputError for fewer
    public images than n.
    """
    public, count = present(inputs.public, "public"), settings["top_n"]
    require(count <= len(public), "attack.top_n", f"at most the {len(public)} public images", count)
    scores = ask(view, public)
    index = top_n(scores, count, present(inputs.protocol, "protocol"))
    confidence = scores.T.gather(1, index)
    facts = {"images_labelled": len(index.unique()), "least_confidence": confidence.min().item()}
    return MadePart(tensors={"index": index, "confidence": confidence}, facts=facts)


def ask(view: ScoreView, public: Tensor) -> Tensor:
    """The target's softmax [N, C] on public images, uint8 [N, 3, S, S], reduced to the size of its input."""
    parts = [view.scores(to_unit(resize_uint8(part, view.image_size))) for part in public.split(_ASKED_AT_ONCE)]
    return torch.cat(parts)


def top_n(scores: Tensor, n: int, protocol: Protocol, *, paths: Sequence[str] | None = None) -> Tensor:
    """int64 [C, n]: for every class the n images of largest scores [N, C], in ascending order of score.

    Ties, of which a target trained under negative smoothing has many (most of its float32 softmax is exactly 0): under
    "clean" the earlier image wins. Under "paper" as in `LetheSec/PLG-MI-Attack`, top_n_selection.py, which keeps
    a heap of (score, path): a full heap loses its smallest entry to every image that is not strictly worse, so later
    images win over earlier ones and large paths over small ones. paths: one per image, None where their order is that
    of the images.
    """
    if protocol == "clean":
        return scores.sort(dim=0, descending=True, stable=True).indices[:n].flip(0).T.contiguous()
    keys = paths if paths is not None else range(len(scores))
    return torch.tensor([_heaped(column, keys, n) for column in scores.T.tolist()])


def _heaped(scores: Sequence[float], keys: Sequence[Any], n: int) -> list[int]:
    heap: list[tuple[float, Any, int]] = []
    for place, (score, key) in enumerate(zip(scores, keys, strict=True)):
        if len(heap) < n:
            heapq.heappush(heap, (score, key, place))
        elif score >= heap[0][0]:
            heapq.heapreplace(heap, (score, key, place))
    return [place for _, _, place in sorted(heap)]


Labelled = tuple[Tensor, Tensor]
"""Latents z [B, z_dim] of images to be generated, or real images float [B, 3, R, R] in the generator's range; and their
labels int64 [B]."""


class LabelledDraws:
    """The draws of every step, from pseudo-labelled public images."""

    def __init__(
        self, images: Tensor, index: Tensor, config: ConditionalConfig, recipe: ConditionalTraining, protocol: Protocol
    ) -> None:
        """images: uint8 [N, 3, R, R]; index: int64 [C, n], the images labelled with each class."""
        self._images, self._config, self._recipe, self._protocol = images, config, recipe, protocol
        self._image_of = index.flatten()
        self._label_of = torch.arange(len(index)).repeat_interleave(index.shape[1])

    def for_generator(self, step: int) -> tuple[Labelled, Distortion | None]:
        """What the generator's update sees, and how the target is shown it (None: as it is)."""
        stream = generator(self._recipe.seed, "plg gan", step, 0)
        fakes, side = self._fakes(stream), self._config.resolution
        # kornia draws the order of the colour changes once per batch: a trap that is kept, since it costs nothing
        shared = stream if self._protocol == "paper" else None
        return fakes, draw_distortion(len(fakes[0]), side, stream, jitter=CHANCE, shared_order=shared)

    def for_critic(self, step: int, update: int) -> tuple[Labelled, Labelled]:
        """What one update of the discriminator sees, fakes and reals; update: 0, 1, ... within the step."""
        stream = generator(self._recipe.seed, "plg gan", step, 1 + update)
        fakes, pairs = self._fakes(stream), self._pairs(self._recipe.critic_steps * step + update)
        images = self._images[self._image_of[pairs]].float()
        images = dequantised(images, torch.rand(images.shape, generator=stream), self._config.output)
        return fakes, (images, self._label_of[pairs])

    def _fakes(self, stream: torch.Generator) -> Labelled:
        count, config = self._recipe.batch_size, self._config
        z = torch.randn(count, config.z_dim, generator=stream)
        return z, torch.randint(config.classes, (count,), generator=stream)

    def _pairs(self, batch: int) -> Tensor:
        """Pairs of a batch of reals: all pairs of image and label are shown in a fresh order again and again."""
        size, count = self._recipe.batch_size, len(self._label_of)
        places = range(batch * size, (batch + 1) * size)
        return torch.stack([_order(count, self._recipe.seed, place // count)[place % count] for place in places])


def dequantised(images: Tensor, noise: Tensor, output: str) -> Tensor:
    """Bytes as float [.., R, R], with noise in [0, 1) of a byte, in the range that the generator's tanh stands for.

    "unit" as published: value / 255 + noise / 256, in [0, 1.004) where tanh is asked for [0, 1].
    """
    return images / 255 + noise / 256 if output == "unit" else (images + noise) / 128 - 1


@lru_cache(maxsize=2)
def _order(count: int, seed: int, round_: int) -> Tensor:
    return torch.randperm(count, generator=generator(seed, "plg order", round_))


@dataclass(kw_only=True)
class ConditionalPair(GanPair):
    """Everything that changes. losses: of every step [hinge of G, inversion, mean hinge of D]."""

    KIND: ClassVar[str] = "conditional gan checkpoint"

    protocol: Protocol

    def identity(self) -> dict[str, Any]:
        """The protocol, too: the target's loss depends on it."""
        return {**super().identity(), "protocol": self.protocol}


def new_conditional_pair(
    config: ConditionalConfig, recipe: ConditionalTraining, protocol: Protocol, device: torch.device
) -> ConditionalPair:
    seed = derive_seed(recipe.seed, "plg weights")
    networks = ConditionalGenerator, ProjectionDiscriminator
    return ConditionalPair.fresh(config, recipe, *networks, seed=seed, device=device, protocol=protocol)


def update_conditional_pair(pair: ConditionalPair, draws: LabelledDraws, logits: Logits) -> dict[str, float | None]:
    """One step: the generator, then the discriminator several times. Returns the losses."""
    hinge, inversion = _update_generator(pair, *draws.for_generator(pair.step), logits)
    updates = range(pair.recipe.critic_steps)
    critic = [_update_discriminator(pair, *draws.for_critic(pair.step, update)) for update in updates]
    row = torch.stack([hinge, inversion, torch.stack(critic).mean()]).tolist()
    return dict(zip(("generator", "inversion", "discriminator"), row, strict=True))


def _update_generator(
    pair: ConditionalPair, fakes: Labelled, distortion: Distortion | None, logits: Logits
) -> tuple[Tensor, Tensor]:
    """[hinge loss, inversion loss] of the step. The discriminator takes no gradients, but moves its spectral norm."""
    z, labels = (tensor.to(pair.device) for tensor in fakes)
    pair.discriminator.requires_grad_(False)
    made = pair.generator(z, labels)
    hinge = -pair.discriminator(made, labels).mean()
    answers = logits(target_images(made, distortion, pair.config.output))
    inversion = attack_loss(pair.recipe.loss, pair.protocol)(answers, labels).mean()
    descend(pair.generator_adam, hinge + pair.recipe.inversion_weight * inversion)
    pair.discriminator.requires_grad_(True)
    return hinge.detach(), inversion.detach()


def _update_discriminator(pair: ConditionalPair, fakes: Labelled, reals: Labelled) -> Tensor:
    """The hinge loss. Fakes come without gradients; the published ones leave some, which are not used."""
    z, labels = (tensor.to(pair.device) for tensor in fakes)
    with torch.no_grad():
        made = pair.generator(z, labels)
    of_fakes = pair.discriminator(made, labels)
    of_reals = pair.discriminator(*(tensor.to(pair.device) for tensor in reals))
    loss = F.relu(1 - of_reals).mean() + F.relu(1 + of_fakes).mean()
    descend(pair.discriminator_adam, loss)
    return loss.detach()


def target_images(made: Tensor, distortion: Distortion | None, output: str) -> Tensor:
    """What the target is shown of generated images: distorted in [0, 1], then in [-1, 1], as every target here has it.

    Where tanh stands for [0, 1] ("unit"), what is below 0 stays below until a change of colours clamps it.
    """
    unit = made if output == "unit" else (made + 1) / 2
    return 2 * (unit if distortion is None else distort(unit, distortion)) - 1


def make_conditional_gan(
    settings: Mapping[str, Any], inputs: AttackInputs, view: GradientView, part_context: PartContext
) -> MadePart:
    """The network "generator"; losses float32 [steps, 3]: hinge of the generator, inversion, hinge of the critic."""
    index = inputs.parts["plg_labels"]["index"]
    recipe = build(ConditionalTraining, settings, what="gan", prefix="attack.gan.")
    protocol = present(inputs.protocol, "protocol")
    config = ConditionalConfig(
        classes=view.num_classes,
        resolution=view.image_size,
        z_dim=recipe.z_dim,
        width=recipe.width,
        output=OUTPUT[protocol],
    )
    pair = new_conditional_pair(config, recipe, protocol, view.execution.device)
    images = resize_uint8(present(inputs.public, "public"), view.image_size)
    draws = LabelledDraws(images, index, config, recipe, protocol)
    with view.execution.arithmetic():
        train_pair(
            pair,
            lambda: update_conditional_pair(pair, draws, view.logits),
            steps=recipe.steps,
            part_context=part_context,
        )
    losses, made = torch.tensor(pair.losses), pair.generator.eval().requires_grad_(False)
    last = losses[-max(1, len(losses) // CHECKPOINTS) :].mean(0)
    facts = {"generator_loss": last[0].item(), "inversion_loss": last[1].item(), "critic_loss": last[2].item()}
    return MadePart(tensors={"losses": losses}, networks={"generator": made}, facts=facts)


def search(
    made: ConditionalGenerator,
    view: GradientView,
    attack: PLGMI,
    target_class: int,
    start: Tensor,
    views_at: Callable[[int], Sequence[Distortion]],
    protocol: Protocol,
) -> Descent:
    """The descent from z `start` [N, z_dim], all rows at once; its w are the last latents z, on the device.

    views_at: step -> how the target is shown the images of all rows, view by view.
    """
    execution, synthesize, loss_of = (
        view.execution,
        view.execution.synthesizer(made),
        attack_loss(attack.loss, protocol),
    )

    def gradient_of(z: Tensor, views: Sequence[Distortion], rows: slice) -> StepGradient:
        """Of some of the rows; their views go through the target in one pass."""
        z = z.detach().requires_grad_(True)
        images = synthesize(with_class(z, target_class))
        distorted = torch.cat([2 * distort((images + 1) / 2, one.of(rows)) - 1 for one in views])
        logits = target_logits(view.logits, distorted, None)
        labels = torch.full((len(distorted),), target_class, device=logits.device)
        losses = loss_of(logits, labels).unflatten(0, (len(views), -1)).sum(0)
        (at_image,) = torch.autograd.grad(losses.sum() / (REFERENCE_BATCH if protocol == "paper" else 1), images)
        (at_latent,) = torch.autograd.grad(images, z, grad_outputs=at_image)
        # Copies: a recorded graph (core.attacks.shared.execution) writes its results to the same place at every call.
        return StepGradient(loss=losses.detach(), latent=at_latent.clone(), image=at_image.clone())

    def probe(rows: int) -> None:
        with torch.enable_grad():
            gradient_of(start[:rows].to(execution.device), views_at(0), slice(0, rows))

    with execution.arithmetic():
        batch = execution.gradient_batch("inversion", (made, view.logits), probe, most=len(start))

        def gradient_at(z: Tensor, step: int) -> StepGradient:
            views = views_at(step)
            return StepGradient.joined(batch.run(lambda rows: gradient_of(z[rows], views, rows), len(z)))

        def adam(z: Tensor) -> torch.optim.Optimizer:
            return torch.optim.Adam([z], lr=attack.lr)

        return walk(start.to(execution.device), gradient_at, adam, steps=attack.steps, lr_at=lambda _: attack.lr)


def starts(z_dim: int, restarts: int, target_class: int, *, seed: int, protocol: Protocol) -> Tensor:
    """Standard normal z [restarts, z_dim]."""
    if protocol == "clean":
        return torch.randn(restarts, z_dim, generator=generator(seed, target_class, "plg start"))
    draws = [generator(seed, "plg start", restart) for restart in range(restarts)]
    row = target_class % REFERENCE_BATCH
    return torch.stack([torch.randn(REFERENCE_BATCH, z_dim, generator=draw)[row] for draw in draws])


def draw_views(
    step: int, side: int, restarts: int, target_class: int, *, seed: int, protocol: Protocol
) -> list[Distortion]:
    """How the target is shown every restart's image of `side` pixels in the two views of a step."""
    views = []
    for place in range(VIEWS):
        stream = generator(seed, target_class, "plg views", step, place)
        drawn = draw_distortion(restarts, side, stream, jitter=1.0 if protocol == "paper" else CHANCE)
        if protocol == "paper":
            batch = target_class // REFERENCE_BATCH
            orders = [generator(seed, "plg order", batch, restart, step, place) for restart in range(restarts)]
            drawn = replace(drawn, order=torch.stack([torch.randperm(4, generator=order) for order in orders]))
        views.append(drawn)
    return views
