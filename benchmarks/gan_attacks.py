"""GMI's, KED-MI's and LOMMA's search against the official loops: `python -m benchmarks.gan_attacks`.

`benchmarks.gan_attacks_yardstick` goes as the official loops do: one class and one restart after the other, networks as
they are, whose weights collect gradients. GANs and students of official size for 64 pixels and 1,000 classes, the same
draws and the same number of steps for both, random weights. Times are CPU time of one thread, the best of three rounds
in turns; that of ours has the target's verdict on what was found in it, that of the loops has not. Beside them stands
how far apart the latents end, relative to the way they went, as timed and once more in double precision: Adam takes a
whole step along a coordinate whose gradient is next to nothing, wherever rounding sends it.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor, nn

from benchmarks.gan_attacks_yardstick import Networks, Run, gmi_class, ked_class
from smoothsweep.core.attacks.distillation.config import Distillation, StudentConfig
from smoothsweep.core.attacks.distillation.students import Student
from smoothsweep.core.attacks.gan.config import PlainGanConfig
from smoothsweep.core.attacks.gan.networks import Critic, MinibatchDiscriminator, PlainGenerator
from smoothsweep.core.attacks.gan.parts import GENERAL, SPECIFIC
from smoothsweep.core.attacks.lowres.base import LowResolution
from smoothsweep.core.attacks.lowres.gmi import GMI
from smoothsweep.core.attacks.lowres.ked import KED
from smoothsweep.core.attacks.lowres.lomma import LommaGMI, LommaKED
from smoothsweep.core.attacks.lowres.lomma_parts import FEATURES, STUDENTS
from smoothsweep.core.attacks.shared.attack_inputs import AttackInputs
from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.attacks.shared.view import GradientView, view_of
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.models.classifiers import Classifier, build_classifier, usual_input
from smoothsweep.core.models.lowres import ImprovedResNet

T = TypeVar("T")

_CLASSES, _SIDE, _ROUNDS, _SEED = 1000, 64, 3, 0
_NARROW = 16  # channels of the narrow network's first stage, a quarter of the official ones
STEPS = {"gmi": 4, "ked": 20, "lomma_gmi": 3, "lomma_ked": 12}
"""Of the search, per attack: five restarts of GMI's are as long as some twenty steps of KED-MI's one latent."""


def narrow_ir50() -> Classifier:
    """IR-50 for 64 pixels at a quarter of every width."""
    backbone = ImprovedResNet((3, 4, 14, 3), side=_SIDE, output_in_trunk=False, width=_NARROW)
    backbone.fc_layer = nn.Identity()
    made = Classifier("ir50_64", backbone, nn.Linear(8 * _NARROW, _CLASSES))
    made.wants(usual_input("ir50_64"))
    return made


TARGETS: dict[str, Callable[[], nn.Module]] = {
    "vgg16_bn": lambda: build_classifier("vgg16_bn", _CLASSES, pretrained=False, protocol="paper", seed=0),
    "ir50_narrow": narrow_ir50,
}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The networks in eval mode, as they were made; mean: [D], of the target's features."""

    target: nn.Module
    generator: PlainGenerator
    critic: Critic
    discriminator: MinibatchDiscriminator
    students: tuple[nn.Module, ...]
    mean: Tensor


def prepare(
    target: nn.Module, *, classes: int = _CLASSES, side: int = _SIDE, students: tuple[str, ...] = (), **sizes: int
) -> Setting:
    """Networks whose weights follow from a seed. sizes: z_dim and width of the GANs, the official ones by default."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_SEED)
        plain = PlainGanConfig(resolution=side, **sizes)
        generator, critic = PlainGenerator(plain), Critic(plain)
        discriminator = MinibatchDiscriminator(PlainGanConfig(resolution=side, classes=classes, **sizes))
        made = [Student(StudentConfig(architecture=name, classes=classes), seed=k) for k, name in enumerate(students)]
    with torch.no_grad():
        mean = 0.1 * target.eval().embed(torch.zeros(1, 3, side, side))[0]
    networks = (generator, critic, discriminator, *made)
    for network in networks:
        network.eval()
    return Setting(
        target=target, generator=generator, critic=critic, discriminator=discriminator, students=tuple(made), mean=mean
    )


def attacks_of(setting: Setting, steps: Mapping[str, int], **changes: int) -> dict[str, LowResolution]:
    """The four, with the setting's students."""
    architectures = tuple(one.config.architecture for one in setting.students)
    distilled = {"students": Distillation(architectures=architectures)}
    return {
        "gmi": GMI(steps=steps["gmi"], **changes),
        "ked": KED(steps=steps["ked"], **changes),
        "lomma_gmi": LommaGMI(steps=steps["lomma_gmi"], **distilled, **changes),
        "lomma_ked": LommaKED(steps=steps["lomma_ked"], **distilled, **changes),
    }


def plainly(setting: Setting, attack: LowResolution, target_class: int, seed: int) -> Run:
    """The official loop."""
    way = ked_class if isinstance(attack, KED) else gmi_class
    return way(networks_of(setting, attack), attack, target_class, seed)


def networks_of(setting: Setting, attack: LowResolution) -> Networks:
    """Those that an official loop of this attack uses."""
    is_lomma = isinstance(attack, LommaGMI | LommaKED)
    return Networks(
        generator=setting.generator,
        discriminator=setting.discriminator if isinstance(attack, KED) else setting.critic,
        target=setting.target,
        students=setting.students if is_lomma else (),
        mean=setting.mean if is_lomma else None,
    )


def ours(setting: Setting, view: GradientView, attack: LowResolution, target_class: int, seed: int) -> Tensor:
    """Latents [selected, z_dim] by the attack, the class alone (protocol clean); in the order of their draws."""
    found = attack.invert(view, attack_inputs_of(setting, "clean"), target_class, seed=seed)
    return found.w[:, 0][found.rows["draw"].argsort()]


def attack_inputs_of(setting: Setting, protocol: str) -> AttackInputs:
    """What a task gives the attack."""
    return AttackInputs(
        protocol=protocol,
        networks={
            GENERAL: {"generator": setting.generator, "discriminator": setting.critic},
            SPECIFIC: {"generator": setting.generator, "discriminator": setting.discriminator},
            STUDENTS: {f"student{number}": one for number, one in enumerate(setting.students)},
        },
        parts={FEATURES: {"mean": setting.mean}},
    )


def frozen(setting: Setting) -> Setting:
    """A copy whose weights collect nothing: as attacks are given them."""
    made = copy.deepcopy(setting)
    for network in (made.target, made.generator, made.critic, made.discriminator, *made.students):
        network.requires_grad_(False)
    return made


def view_on(setting: Setting) -> GradientView:
    """A view of the setting's target on one CPU."""
    side, classes = setting.generator.resolution, setting.target.num_classes
    execution = Execution(ExecutionConfig(), "cpu")
    return view_of(setting.target, "gradients", num_classes=classes, image_size=side, execution=execution)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """plain, ours: CPU seconds for one class, best of the rounds; apart, apart_double: of the latents' way."""

    plain: float
    ours: float
    apart: float
    apart_double: float


def measure(setting: Setting, attacks: Mapping[str, LowResolution]) -> Iterator[tuple[str, Measured]]:
    """Of each attack the official loop and ours."""
    still = frozen(setting)
    view = view_on(still)
    for name, attack in attacks.items():
        rounds = []
        for _ in range(_ROUNDS):
            plain, expected = _timed(lambda attack=attack: plainly(setting, attack, 2, _SEED))
            own, z = _timed(lambda attack=attack: ours(still, view, attack, 2, _SEED))
            rounds.append((plain, own, gap(expected, z)))
        yield (
            name,
            Measured(
                plain=min(one[0] for one in rounds),
                ours=min(one[1] for one in rounds),
                apart=max(one[2] for one in rounds),
                apart_double=_apart_in_double(setting, attack),
            ),
        )


def _apart_in_double(setting: Setting, attack: LowResolution) -> float:
    with double(copy.deepcopy(setting)) as made:
        still = frozen(made)
        return gap(plainly(made, attack, 2, _SEED), ours(still, view_on(still), attack, 2, _SEED))


@contextmanager
def double(setting: Setting) -> Generator[Setting]:
    """The setting, its own networks changed, with numbers and draws of double precision."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        for network in (setting.target, setting.generator, setting.critic, setting.discriminator, *setting.students):
            network.double()
        yield replace(setting, mean=setting.mean.double())
    finally:
        torch.set_default_dtype(before)


def gap(expected: Run, found: Tensor) -> float:
    """The distance between two ends, relative to the way to the first."""
    return ((found - expected.z).norm() / (expected.z - expected.start).norm()).item()


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


def main() -> None:
    """Print a line per attack."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", choices=TARGETS, default="vgg16_bn")
    parser.add_argument("--attacks", choices=STEPS, nargs="+", default=list(STEPS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    setting = prepare(TARGETS[options.target](), students=Distillation().architectures)
    attacks = {name: attack for name, attack in attacks_of(setting, STEPS).items() if name in options.attacks}
    for name, one in measure(setting, attacks):
        print(
            f"{name} on {options.target}, a class, {attacks[name].steps} steps: official loop {one.plain:.2f} CPU s, "
            f"ours {one.ours:.2f} CPU s, {one.plain / one.ours:.2f} times as fast; latents {one.apart:.1g} of their "
            f"way apart, in double precision {one.apart_double:.1g}",
            flush=True,
        )


if __name__ == "__main__":
    main()
