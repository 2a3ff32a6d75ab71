"""LOMMA (Nguyen et al., CVPR 2023) on GMI and on KED-MI: another identity loss, and more models than the target.

sutd-visual-computing-group/Re-thinking_MI, attack.py, engine.py and recovery.py, whose settings are the defaults. Their
GANs are used as they are. On KED-MI the latents are clamped, within the graph and when they are drawn. The published
report takes Acc@5 from the last image of each class alone: `attack_acc5_last`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

from smoothsweep.core.attacks.distillation.config import Distillation
from smoothsweep.core.attacks.gan.config import GanTraining
from smoothsweep.core.attacks.lowres.base import LowResolution
from smoothsweep.core.attacks.lowres.gmi import GMI
from smoothsweep.core.attacks.lowres.ked import KED
from smoothsweep.core.attacks.lowres.lomma_parts import FEATURES, STUDENTS, public_features, students
from smoothsweep.core.attacks.shared.base import AttackInputs, Part
from smoothsweep.core.bounds import Count, NotNegative
from smoothsweep.core.checks import require
from smoothsweep.core.models.architectures import check_image_size

if TYPE_CHECKING:
    from smoothsweep.core.attacks.lowres.search import IdentityLoss
    from smoothsweep.core.attacks.shared.view import GradientView

Form = Literal["ours", "L_logit", "L_aug", "baseline"]
RAW_LOGIT, WITH_STUDENTS = ("ours", "L_logit"), ("ours", "L_aug")


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
        require(
            self.form in RAW_LOGIT or self.feature_weight == 1.0,
            "attack.feature_weight",
            f"no value with form {self.form}, which pulls no features",
            self.feature_weight,
        )
        require(
            self.form in WITH_STUDENTS or self.students == Distillation(),
            "attack.students",
            f"no value with form {self.form}, which has none",
            self.students,
        )

    @property
    def variant(self) -> str:
        """The form."""
        return self.form

    @property
    def words(self) -> str:
        """The title alone where the form is the whole attack, which only its paper calls "ours"."""
        return self.title if self.form == "ours" else super().words

    @property
    def parts(self) -> tuple[Part, ...]:
        """The GAN first."""
        made = super().parts
        made += (students(self.students),) if self.form in WITH_STUDENTS else ()
        return made + ((public_features(),) if self.form in RAW_LOGIT else ())

    @property
    def report(self) -> tuple[str, int]:
        """The report of its own evaluation alone, on GMI too."""
        return "lomma", self.reference_batch

    @property
    def pretrained(self) -> tuple[str, ...]:
        """The students', where they begin so."""
        return self.students.architectures if self.form in WITH_STUDENTS and self.students.pretrained else ()

    def check(self, *, image_size: int, prior_kind: str | None, has_public: bool) -> None:
        """Raise InputError for students that do not take the target's images, too."""
        super().check(image_size=image_size, prior_kind=prior_kind, has_public=has_public)
        if self.form in WITH_STUDENTS:
            for name in self.students.architectures:
                check_image_size(name, image_size)

    def check_public(self, count: int) -> None:
        """Raise InputError for less than a batch of the students' training, too."""
        super().check_public(count)
        if self.form in WITH_STUDENTS:
            self.students.steps(count, "clean")

    def identity(self, view: GradientView, inputs: AttackInputs) -> IdentityLoss:
        """The form's loss over the target and, where it has them, the students."""
        from smoothsweep.core.attacks.lowres.identity import Augmented
        from smoothsweep.core.attacks.shared.view import require_access

        require_access(view, "gradients", "this attack")
        device, answers = view.execution.device, []
        if self.form in WITH_STUDENTS:
            networks = inputs.networks[STUDENTS]
            names = [f"student{number}" for number in range(len(self.students.architectures))]
            answers = [view.execution.target(networks[name]) for name in names]
        mean = inputs.parts[FEATURES]["mean"].to(device) if self.form in RAW_LOGIT else None
        return Augmented(
            view=view,
            students=answers,
            raw_logit=self.form in RAW_LOGIT,
            mean=mean,
            feature_weight=self.feature_weight,
        )


@dataclass(frozen=True, kw_only=True)
class LommaGMI(Lomma, GMI):
    """LOMMA on GMI, with the longer search and the shorter GAN training of its repository."""

    title: ClassVar[str] = "LOMMA on GMI"
    cites: ClassVar[tuple[str, ...]] = ("nguyen2023rethinking", "zhang2020secret")

    steps: Count = 2400
    gan: GanTraining = field(default_factory=GanTraining)


@dataclass(frozen=True, kw_only=True)
class LommaKED(Lomma, KED):
    """LOMMA on KED-MI, whose settings it has."""

    title: ClassVar[str] = "LOMMA on KED-MI"
    cites: ClassVar[tuple[str, ...]] = ("nguyen2023rethinking", "chen2021knowledge")
    clamp: ClassVar[float | None] = 1.0

    # Declared again: the default that both bases share would hide KED-MI's.
    steps: Count = 2400
