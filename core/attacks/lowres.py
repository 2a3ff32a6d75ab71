"""GMI, KED-MI and LOMMA: a GAN of the attack's own, and a search for latents that a discriminator takes for real.

GMI (Zhang et al., CVPR 2020): a GAN of public images, and momentum on its latents. AI-secure/GMI-Attack,
Celeba/attack.py and train_gan.py, whose settings are the defaults. Its loss is the mean over a batch of classes and its
optimiser plain SGD, so that a class's steps depend on how many classes there are: here they are those of a batch of
`reference_batch`, whatever the work is cut into, which is 60 in all later code. The published evaluation counts the
restarts one by one: protocol `paper` leaves them in their order, `clean` best first.

KED-MI (Chen et al., ICCV 2021): a GAN that knows the target's soft labels, and a distribution of latents per class.
SCccc21/Knowledge-Enriched-DMI, k+1_gan.py, attack.py and recovery.py, whose settings are the defaults. Protocol `paper`
keeps what makes its numbers: the target in training mode while the GAN is trained, the entropy summed over a batch,
and a discriminator that compares the images of `reference_batch` classes with each other, so that a class's numbers
depend on its batch, which follows from the sweep's list of classes. Under `clean` every image is looked at alone.
The published clamp of the latents comes after each step and has no effect: there is none here.

LOMMA (Nguyen et al., CVPR 2023) on both: another identity loss, and more models than the target.
sutd-visual-computing-group/Re-thinking_MI, attack.py, engine.py and recovery.py, whose settings are the defaults. Their
GANs are used as they are. On KED-MI the latents are clamped, within the graph and when they are drawn. The published
report takes Acc@5 from the last image of each class alone: `attack_acc5_last`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Le

from smoothsweep.core.attacks.shared.base import AttackInputs, Part, Reconstructions
from smoothsweep.core.attacks.training_settings import (
    GENERAL,
    SIDES,
    SPECIFIC,
    Distillation,
    GanTraining,
    TrainedGanAttack,
    gan_part,
)
from smoothsweep.core.bounds import Beta, Count, NotNegative, Positive
from smoothsweep.core.checks import require
from smoothsweep.core.models.architectures import check_image_size

if TYPE_CHECKING:
    from torch import Tensor

    from smoothsweep.core.attacks.lowres_search import Identity, Objective
    from smoothsweep.core.attacks.optimisation.descent import Descent
    from smoothsweep.core.attacks.shared.view import GradientView

ROWS = 20  # of a pass with gradients; with more, a row costs no less (docs/benchmarks.md)
STUDENTS, FEATURES = "students", "public_features"
Form = Literal["ours", "L_logit", "L_aug", "baseline"]
RAW_LOGIT, WITH_STUDENTS = ("ours", "L_logit"), ("ours", "L_aug")


@dataclass(frozen=True, kw_only=True)
class LowResolution(TrainedGanAttack):
    """A GAN of the attack's own, and a search that minimises the sum of a prior and an identity loss.

    Attributes:
        selected: Reconstructions of each class.
        steps: Steps of the search in latents.
        lr: Learning rate of the search.
        identity_weight: Weight of the identity loss beside the discriminator's.
        reference_batch: Classes of the batch that the official code takes means over.
        gan: How the attack's own GAN is trained.
    """

    paper_columns: ClassVar[Mapping[str, str]] = {  # by LOMMA's code: sweeps/paper/README.md
        "attack_acc5": "attack_acc5_last",
        "fid": "fid_lomma",
        "attack_acc1_std": "attack_acc1_std_batches",
    }

    selected: Count = 5
    steps: Count = 1500
    lr: Positive = 0.02
    identity_weight: NotNegative = 100.0
    reference_batch: Count = 60
    gan: GanTraining = field(default_factory=GanTraining)

    def __post_init__(self) -> None:
        super().__post_init__()
        factories = [setting.default_factory for setting in fields(self) if setting.name == "gan"]
        [usual] = [make() for make in factories if make is not MISSING]
        self.gan.check_alone(usual)

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(part.name for part in self.parts)

    @property
    def enlarging(self) -> str:
        """Cut to 8 bits and resized as pictures are."""
        return "truncated_bytes"

    @property
    def report(self) -> tuple[str, int]:
        """The report of LOMMA's evaluation, by which published tables count all of these attacks."""
        return "lomma", self.reference_batch

    def check(self, *, image_size: int, prior_kind: str | None, has_public: bool) -> None:
        super().check(image_size=image_size, prior_kind=prior_kind, has_public=has_public)
        sides = " or ".join(map(str, SIDES))
        require(image_size in SIDES, "recipe.image_size", f"{sides} pixels with this attack", image_size)

    def check_public(self, count: int) -> None:
        if self.gan.imported is None:
            self.gan.steps(count)

    def identity(self, view: GradientView, inputs: AttackInputs) -> Identity:
        """What the search makes the target see."""
        from smoothsweep.core.attacks.lowres_search import Identity

        return Identity(view=view)

    def objective(
        self,
        view: GradientView,
        inputs: AttackInputs,
        judge: Any,
        labels: Sequence[int],
        latent: Callable[[Tensor, int], Tensor],
    ) -> Objective:
        """What the search minimises. judge: images -> how real they look; labels: of its rows."""
        import torch

        from smoothsweep.core.attacks.lowres_search import Objective

        execution = view.execution
        return Objective(
            decoder=execution.synthesizer(inputs.networks[self.own_gan]["generator"]),
            realness=execution.target(judge),
            identity=self.identity(view, inputs),
            labels=torch.tensor(labels, device=execution.device),
            weight=self.identity_weight,
            scale=1 / self.reference_batch,
            latent=latent,
        )


@dataclass(frozen=True, kw_only=True)
class GMI(LowResolution):
    """Restarts from Gaussian latents, each one an image.

    Attributes:
        momentum: Momentum of the search in latents.
        bound: Every number of a latent stays in [-bound, bound].
    """

    title = "GMI"
    cites = ("zhang2020secret",)
    own_gan = GENERAL

    momentum: Beta = 0.9
    bound: Positive = 1.0
    gan: GanTraining = field(default_factory=lambda: GanTraining(epochs=280))

    @property
    def parts(self) -> tuple[Part, ...]:
        return (gan_part(GENERAL, self.gan, "public"),)

    @property
    def report(self) -> tuple[str, int]:
        """LOMMA's, and its own two numbers."""
        return "gmi", self.reference_batch

    def side_by_side(self, device: str) -> int:
        """So many classes that their restarts fill a pass, on a CPU."""
        return max(1, ROWS // self.selected) if device == "cpu" else 1

    def invert_batch(
        self, view: GradientView, inputs: AttackInputs, classes: Sequence[int], *, seed: int
    ) -> Sequence[Reconstructions]:
        """All restarts side by side, each from a draw of its own; the classes too, where that changes no number."""
        import torch

        from smoothsweep.core.attacks.lowres_search import left_of_class, momentum
        from smoothsweep.core.attacks.shared.execution import descend_classes
        from smoothsweep.core.seeds import generator

        execution, networks = view.execution, inputs.networks[GENERAL]
        made, critic = networks["generator"], networks["discriminator"]

        def search(classes: Sequence[int], steps: int) -> Descent:
            draws = [generator(seed, c, "restart", restart) for c in classes for restart in range(self.selected)]
            starts = torch.stack([torch.randn(made.config.z_dim, generator=draw) for draw in draws])
            labels = [c for c in classes for _ in range(self.selected)]
            objective = self.objective(view, inputs, critic, labels, lambda z, step: z)
            with execution.arithmetic():
                return momentum(
                    starts.to(execution.device),
                    objective,
                    steps=steps,
                    lr=self.lr,
                    momentum=self.momentum,
                    clip=self.bound,
                )

        descents = descend_classes(
            search, classes, rows=self.selected, steps=self.steps, run=execution, networks=(made, critic, view.logits)
        )
        in_order = inputs.protocol == "paper"
        return [
            left_of_class(view, made, descent.w[:, None], c, descent, places="draw", in_order=in_order)
            for c, descent in zip(classes, descents, strict=True)
        ]


@dataclass(frozen=True, kw_only=True)
class KED(LowResolution):
    """One search per class for mean and log variance; `selected` latents are drawn from what it finds.

    start_log_variance: logarithm of the latents' variance at the start (1 in the official code).
    """

    title = "KED-MI"
    cites = ("chen2021knowledge",)
    own_gan = SPECIFIC
    clamp: ClassVar[float | None] = None

    steps: Count = 2400
    start_log_variance: Annotated[float, Ge(-20), Le(20)] = 1.0
    gan: GanTraining = field(default_factory=GanTraining)

    @property
    def parts(self) -> tuple[Part, ...]:
        return (gan_part(SPECIFIC, self.gan, "public", "target"),)

    def class_batch(self, protocol: str) -> int:
        """Under `paper` the classes that the discriminator sees together."""
        return self.reference_batch if protocol == "paper" else 1

    def invert_batch(
        self, view: GradientView, inputs: AttackInputs, classes: Sequence[int], *, seed: int
    ) -> Sequence[Reconstructions]:
        """The classes side by side, one latent of each in every step; under `paper` a class alone is a batch of one."""
        import torch

        from smoothsweep.core.attacks.lowres_search import distribution, left_of_class, sampled, shared_realness
        from smoothsweep.core.seeds import generator

        networks, in_order = inputs.networks[SPECIFIC], inputs.protocol == "paper"
        made, device = networks["generator"], view.execution.device
        z_dim = made.config.z_dim
        judge = shared_realness(networks["discriminator"], None if in_order else 1)

        def noise(target_class: int, what: str, number: int) -> Tensor:
            """[z_dim], which depends on the class, not on its place in a batch."""
            return torch.randn(z_dim, generator=generator(seed, target_class, what, number))

        def latent(leaf: Tensor, step: int) -> Tensor:
            return sampled(leaf, torch.stack([noise(c, "step", step) for c in classes]).to(device), self.clamp)

        start = torch.zeros(len(classes), 2, z_dim, device=device)
        start[:, 1] = self.start_log_variance
        objective = self.objective(view, inputs, judge, classes, latent)
        with view.execution.arithmetic():
            descent = distribution(start, objective, steps=self.steps, lr=self.lr)
        left = []
        for row, c in enumerate(classes):
            draws = torch.stack([noise(c, "draw", number) for number in range(self.selected)]).to(device)
            w = sampled(descent.w[row].expand(self.selected, -1, -1), draws, self.clamp)[:, None]
            own = descent.of(slice(row, row + 1))
            left.append(left_of_class(view, made, w, c, own, places="draw", in_order=in_order))
        return left


@dataclass(frozen=True, kw_only=True)
class Lomma(LowResolution):
    """LOMMA's two changes to a GAN attack.

    Attributes:
        form: `L_logit`, minus the logit instead of cross-entropy and features pulled to their public mean; `L_aug`, the
            students beside the target; `ours`, both (the paper's name of it); `baseline`, neither.
        feature_weight: Weight of the feature term, of forms L_logit and ours.
        students: How students are trained, of forms L_aug and ours.
    """

    form: Form = "ours"
    feature_weight: NotNegative = 1.0
    students: Distillation = field(default_factory=Distillation)

    def __post_init__(self) -> None:
        super().__post_init__()
        none = f"no value with form {self.form}, which"
        read = self.form in RAW_LOGIT or self.feature_weight == 1.0
        require(read, "attack.feature_weight", f"{none} pulls no features", self.feature_weight)
        read = self.form in WITH_STUDENTS or self.students == Distillation()
        require(read, "attack.students", f"{none} has none", self.students)

    @property
    def variant(self) -> str:
        return self.form

    @property
    def words(self) -> str:
        """The title alone where the form is the whole attack, which only its paper calls "ours"."""
        return self.title if self.form == "ours" else super().words

    @property
    def parts(self) -> tuple[Part, ...]:
        made, needs = super().parts, ("public", "target")
        if self.form in WITH_STUDENTS:
            made += (Part(name=STUDENTS, needs=needs, settings=self.students.settings),)
        return made + ((Part(name=FEATURES, needs=needs),) if self.form in RAW_LOGIT else ())

    @property
    def report(self) -> tuple[str, int]:
        """The report of its own evaluation alone, on GMI too."""
        return "lomma", self.reference_batch

    @property
    def pretrained(self) -> tuple[str, ...]:
        return self.students.architectures if self.form in WITH_STUDENTS and self.students.pretrained else ()

    def check(self, *, image_size: int, prior_kind: str | None, has_public: bool) -> None:
        super().check(image_size=image_size, prior_kind=prior_kind, has_public=has_public)
        if self.form in WITH_STUDENTS:
            for name in self.students.architectures:
                check_image_size(name, image_size)

    def check_public(self, count: int) -> None:
        super().check_public(count)
        if self.form in WITH_STUDENTS:
            self.students.steps(count, "clean")

    def identity(self, view: GradientView, inputs: AttackInputs) -> Identity:
        """The form's loss over the target and, where it has them, the students."""
        from smoothsweep.core.attacks.lowres_search import Identity

        execution, raw = view.execution, self.form in RAW_LOGIT
        names = [f"student{n}" for n in range(len(self.students.architectures)) if self.form in WITH_STUDENTS]
        return Identity(
            view=view,
            students=[execution.target(inputs.networks[STUDENTS][name]) for name in names],
            raw_logit=raw,
            mean=inputs.parts[FEATURES]["mean"].to(execution.device) if raw else None,
            feature_weight=self.feature_weight,
        )


@dataclass(frozen=True, kw_only=True)
class LommaGMI(Lomma, GMI):
    """LOMMA on GMI, with the longer search and the shorter GAN training of its repository."""

    title = "LOMMA on GMI"
    cites = ("nguyen2023rethinking", "zhang2020secret")

    steps: Count = 2400
    gan: GanTraining = field(default_factory=GanTraining)


@dataclass(frozen=True, kw_only=True)
class LommaKED(Lomma, KED):
    """LOMMA on KED-MI, whose settings it has."""

    title = "LOMMA on KED-MI"
    cites = ("nguyen2023rethinking", "chen2021knowledge")
    clamp: ClassVar[float | None] = 1.0

    # Declared again: the default that both bases share would hide KED-MI's.
    steps: Count = 2400
