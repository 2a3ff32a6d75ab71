"""The networks that attacks train: what they are built from, and how they are trained. Loads no torch.

GANs on public images, which may be imported as well, and classifiers that learn a target's answers.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Le

from smoothsweep.core.attacks.ppa.config import CropRule, Loss
from smoothsweep.core.attacks.shared.base import DESCENT_FACTS, Attack, Part
from smoothsweep.core.bounds import (
    MOST,
    Beta,
    Channels,
    Count,
    FilePath,
    NotNegative,
    Outputs,
    Positive,
    Seed,
    Width,
)
from smoothsweep.core.cards import read_network_card
from smoothsweep.core.checks import require, require_choice
from smoothsweep.core.declared import check_fields
from smoothsweep.core.models.architectures import LEAST

GENERAL, SPECIFIC, CONDITIONAL = "general_gan", "specific_gan", "plg_gan"
"""Parts: GMI's GAN, one for all targets of an input size; KED-MI's, which a target's soft labels go into; PLG-MI's."""

SIDES, CONDITIONAL_SIDES = (32, 64), (16, 32, 64)
"""Sides in pixels that the networks can have; the official ones have 64."""


def _doublings(resolution: int) -> int:
    """From 4 pixels to `resolution`."""
    return (resolution // 4).bit_length() - 1


@dataclass(frozen=True, kw_only=True)
class PlainGanConfig:
    """A GAN pair: 4x4 pixels doubled to `resolution`, channels halved on the way down to `width`.

    The official networks (generator.py and discri.py of AI-secure/GMI-Attack, SCccc21/Knowledge-Enriched-DMI and
    sutd-visual-computing-group/Re-thinking_MI) are resolution 64, z_dim 100, width 64. classes: outputs of KED-MI's
    discriminator, those of the target; 0 where there is none.
    """

    resolution: int = 64
    z_dim: Width = 100
    width: Channels = 64
    classes: Annotated[int, Ge(0), Le(2**20)] = 0

    def __post_init__(self) -> None:
        require(self.resolution in SIDES, "plain gan: resolution", "32 or 64", self.resolution)
        check_fields(self, "plain gan: ")

    @property
    def channels(self) -> tuple[int, ...]:
        """Channels at half of `resolution`, a quarter, ... and 4 pixels."""
        return tuple(self.width * 2**power for power in range(_doublings(self.resolution)))


@dataclass(frozen=True, kw_only=True)
class ConditionalConfig:
    """A conditional GAN pair: 4x4 pixels doubled to `resolution`, channels halved on the way down to `width`.

    The official networks (LetheSec/PLG-MI-Attack, models/generators/resnet64.py and
    models/discriminators/snresnet64.py) are resolution 64, z_dim 128, width 64.

    Attributes:
        classes: C, the target's classes.
        z_dim: Numbers in a latent.
        output: What the generator's tanh is taken for: "signed", an image in [-1, 1]; "unit", an image in [0, 1], so
            that its negative half is no image.
    """

    classes: Outputs
    resolution: int = 64
    z_dim: Width = 128
    width: Channels = 64
    output: Literal["signed", "unit"] = "signed"

    def __post_init__(self) -> None:
        check_fields(self, "conditional gan: ")
        require(self.resolution in CONDITIONAL_SIDES, "conditional gan: resolution", "16, 32 or 64", self.resolution)

    @property
    def channels(self) -> tuple[int, ...]:
        """Channels of the generator at 4, 8, ... `resolution` pixels; the discriminator has them in reverse."""
        return tuple(self.width * 2**power for power in range(_doublings(self.resolution), -1, -1))


@dataclass(frozen=True, kw_only=True)
class Shared:
    """What every one of them has.

    workers: 1, as older sweep files may say; a part of an attack is trained by one process.
    """

    KEY: ClassVar[str] = "attack.gan"
    """Where it stands in a sweep file."""

    workers: Count = 1

    def __post_init__(self) -> None:
        check_fields(self, f"{self.KEY}.")
        require(self.workers == 1, f"{self.KEY}.workers", "1, which trains the parts of an attack", self.workers)

    @property
    def settings(self) -> dict[str, Any]:
        """What decides the training, but for `workers`, which stands beside it, and where another one lies."""
        return {name: value for name, value in asdict(self).items() if name not in ("workers", "imported")}


@dataclass(frozen=True, kw_only=True)
class Importable(Shared):
    """How a GAN is trained, unless it comes from elsewhere.

    imported: the folder that `smoothsweep import gan` wrote; then nothing is trained, and no other key may stand
    beside it.
    """

    imported: FilePath | None = None

    def check_alone(self, usual: Importable) -> None:
        """Raise InputError for a setting of a training beside a GAN that is not trained here. usual: the attack's."""
        if self.imported is None:
            return
        others = [
            field.name
            for field in fields(self)
            if field.name != "imported" and getattr(self, field.name) not in (field.default, getattr(usual, field.name))
        ]
        require(not others, "attack.gan", "no other key beside imported", ", ".join(others))


@dataclass(frozen=True, kw_only=True)
class GanTraining(Importable):
    """How such a pair is trained on public images, or the folder of one that is trained already.

    Attributes:
        width: Channels of the largest feature map; the official networks have 64.
        epochs: Passes over the public images, without what is left of a last batch.
        batch_size: Images of a step.
        critic_steps: Steps of the discriminator for each of the generator.
        lr: Adam's learning rate, of both networks.
        betas: Adam's two decay rates.
        z_dim: Numbers in a latent; the official networks have 100.
        seed: Seed of first weights and draws.
    """

    width: Channels = 64
    epochs: Count = 120
    batch_size: Annotated[Count, Ge(2)] = 64
    critic_steps: Count = 5
    lr: Positive = 2e-4
    betas: tuple[Beta, Beta] = (0.5, 0.999)
    z_dim: Width = 100
    seed: Seed = 0

    def steps(self, public: int) -> int:
        """Steps of the discriminator with so many public images. Raises InputError for less than a batch of them."""
        enough = f"at least attack.gan.batch_size ({self.batch_size}) images"
        require(public >= self.batch_size, "public", enough, public)
        return self.epochs * (public // self.batch_size)


@dataclass(frozen=True, kw_only=True)
class ConditionalTraining(Importable):
    """How the pair is trained, or the folder of one that is trained already.

    Attributes:
        steps: Iterations, each one step of the generator and then critic_steps of the discriminator.
        critic_steps: Steps of the discriminator in each iteration.
        batch_size: Images of a step.
        lr: Adam's learning rate, of both networks.
        betas: Adam's two decay rates.
        inversion_weight: Weight of the target's loss beside the hinge loss.
        loss: Loss of the target, by name.
        z_dim: Numbers in a latent.
        width: Channels of the largest feature map.
        seed: Seed of first weights and draws.
    """

    steps: Count = 30_000
    critic_steps: Count = 5
    batch_size: Annotated[int, Ge(2), Le(MOST)] = 64
    lr: Positive = 2e-4
    betas: tuple[Beta, Beta] = (0.0, 0.9)
    inversion_weight: NotNegative = 0.2
    loss: Loss = "max_margin"
    z_dim: Width = 128
    width: Channels = 64
    seed: Seed = 46


@dataclass(frozen=True, kw_only=True)
class DistilledBySGD:
    """Networks that learn a target's answers, by SGD.

    Attributes:
        architectures: Architectures of the networks that learn, one each.
        pretrained: Start from ImageNet weights.
        epochs: Passes over the images, without what is left of a last batch.
        batch_size: Images of a step.
        lr: SGD's learning rate at the start.
        momentum: SGD's momentum.
        weight_decay: Factor of the parameters that is added to their gradient.
        seed: Seed of first weights and order.
    """

    KEY: ClassVar[str]
    """Where it stands in a sweep file."""

    architectures: tuple[str, ...]
    pretrained: bool = True
    epochs: Count = 20
    batch_size: Annotated[Count, Ge(2)] = 64
    lr: Positive = 0.01
    momentum: Beta = 0.9
    weight_decay: NotNegative = 1e-4
    seed: Seed = 1

    def __post_init__(self) -> None:
        require(bool(self.architectures), f"{self.KEY}.architectures", "at least one", self.architectures)
        for name in self.architectures:
            require_choice(f"{self.KEY}.architectures", name, tuple(LEAST))


@dataclass(frozen=True, kw_only=True)
class StudentConfig:
    """A classifier that a target was distilled into. architecture: a row of the classifier table."""

    architecture: str
    classes: Annotated[Outputs, Ge(2)]

    def __post_init__(self) -> None:
        require_choice("student: architecture", self.architecture, tuple(LEAST))
        check_fields(self, "student: ")


@dataclass(frozen=True, kw_only=True)
class Distillation(DistilledBySGD, Shared):
    """How LOMMA's students are made of the public images and the target's scores; the rate halves every 20 epochs.

    The rest is described with `DistilledBySGD`. Protocol `paper` trains an epoch less: the published students are those
    of a file that is named after the epoch which begins when it is written.

    temperature: what logits are divided by, in both softmaxes.
    """

    KEY = "attack.students"

    architectures: tuple[str, ...] = ("efficientnet_b0", "efficientnet_b1", "efficientnet_b2")
    temperature: Positive = 1.0

    def __post_init__(self) -> None:
        DistilledBySGD.__post_init__(self)
        Shared.__post_init__(self)

    def steps(self, public: int, protocol: str) -> int:
        """Steps of a student's training. Raises InputError for less than a batch of public images."""
        enough = f"at least attack.students.batch_size ({self.batch_size}) images"
        require(public >= self.batch_size, "public", enough, public)
        epochs = self.epochs if protocol == "clean" else max(1, self.epochs - 1)
        return epochs * (public // self.batch_size)

    def lr_at(self, epoch: int) -> float:
        return self.lr * 0.5 ** (epoch // 20)


SURROGATE_VIEWS = CropRule(scale=(0.8, 1.0), ratio=(0.9, 1.1), hflip=0.5)
"""Under which every image is learnt, beside or in the place of itself."""


@dataclass(frozen=True, kw_only=True)
class SurrogateTraining(DistilledBySGD):
    """How networks learn what the target answered to the prior's pictures; the rate falls to 0 along a cosine.

    The rest is described with `DistilledBySGD`.

    Rate and schedule are those of LOKT (ngoc-nguyen-0/LOKT_neurips2023, train_surrogate_model.py), the half of the loss
    on a changed view too, which "both" is; the weights those that SMILE means (L1ziang/SMILE, arXiv 2503.16266).

    Attributes:
        shown: "both", every picture of a step as it is and once changed; or "changed", changed alone, at half the cost.
        balance: How far rare answers count for more, 0 for not at all (a picture whose class was answered n times
            weighs (1 - balance) / (1 - balance^(n + 1))).
    """

    KEY = "attack.surrogates"

    architectures: tuple[str, ...] = ("densenet121", "resnet18")
    epochs: Count = 40
    lr: Positive = 0.1
    weight_decay: NotNegative = 5e-4
    balance: Beta = 0.9
    shown: Literal["both", "changed"] = "both"

    def steps(self, pictures: int) -> int:
        """Steps of a network's training. Raises InputError for less than a batch of pictures."""
        enough = f"at least attack.surrogates.batch_size ({self.batch_size})"
        require(pictures >= self.batch_size, "attack.pool.size", enough, pictures)
        return self.epochs * (pictures // self.batch_size)

    def lr_at(self, step: int, steps: int) -> float:
        return self.lr * (1 + math.cos(math.pi * step / steps)) / 2


def gan_part(name: str, training: Importable, *needs: str) -> Part:
    """The part that has a GAN: trained here on what it needs, or imported, and then for its target."""
    if training.imported is not None:
        return Part(name=name, needs=tuple(need for need in needs if need == "target"), imported=training.imported)
    return Part(name=name, needs=needs, settings=training.settings)


@dataclass(frozen=True, kw_only=True)
class TrainedGanAttack(Attack):
    """A search in the latents of the attack's own generator, trained as a part or elsewhere, by the target's gradients.

    own_gan: the part that has the generator.
    """

    access = "gradients"
    own_gan: ClassVar[str]
    facts = DESCENT_FACTS

    if TYPE_CHECKING:
        gan: Importable

    @property
    def decoder(self) -> str:
        return self.own_gan

    def check(self, *, image_size: int, prior_kind: str | None, has_public: bool) -> None:
        super().check(image_size=image_size, prior_kind=prior_kind, has_public=has_public)
        if self.gan.imported is not None:
            check_imported(self.gan.imported, self.own_gan, image_size=image_size)

    def check_classes(self, count: int) -> None:
        """Raise InputError for an imported GAN that knows the classes of another target."""
        if self.gan.imported is not None:
            check_imported(self.gan.imported, self.own_gan, classes=count)


NETWORKS: dict[str, dict[str, tuple[str, type]]] = {
    GENERAL: {"generator": ("plain_generator", PlainGanConfig), "discriminator": ("critic", PlainGanConfig)},
    SPECIFIC: {
        "generator": ("plain_generator", PlainGanConfig),
        "discriminator": ("minibatch_discriminator", PlainGanConfig),
    },
    CONDITIONAL: {"generator": ("conditional_generator", ConditionalConfig)},
}
"""Part -> name of each of its networks -> kind of that network, and what it is built from."""


def check_imported(folder: str, part: str, *, image_size: int | None = None, classes: int | None = None) -> None:
    """Raise InputError, one line, unless the folder holds the networks of this part, as `smoothsweep import gan` does.

    image_size: of the images that they must be for; classes: of the target, which a network without classes (a plain
    generator, a critic) suits whatever they are. None: any.
    """
    require_choice("import gan", part, tuple(NETWORKS))
    what = f"what `smoothsweep import gan` writes of a {part}"
    for name, (kind, declared) in NETWORKS[part].items():
        card = Path(folder).expanduser() / f"{name}.network.json"  # as `core.attacks.registry` leaves it
        config, where = read_network_card(card, {kind: declared}, what).config, f"attack.gan.imported: {folder}: {name}"
        fits = image_size in (None, config.resolution)
        require(fits, where, f"images of {image_size} pixels", config.resolution)
        fits = classes is None or config.classes in (0, classes)
        require(fits, where, f"the target's {classes} classes", config.classes)
