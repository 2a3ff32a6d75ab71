"""What the tests expect of LOMMA on KED-MI."""

from smoothsweep.core.attacks.lowres import LommaKED
from smoothsweep.core.attacks.training_settings import Distillation
from tests.core.attacks.examples import (
    DISTRIBUTION,
    KEPT_SEARCHED,
    KEPT_STUDENTS,
    LOW_RESOLUTION,
    SPECIFIC,
    STUDENTS,
    STUDENTS_SWEPT,
    SWEPT_GAN,
    swept,
)

DEAR = True
EXAMPLE = {**LOW_RESOLUTION, **DISTRIBUTION, "students": STUDENTS}

DECLARED = {
    "ours": ({"form": "ours"}, (*SPECIFIC, "students", "public_features"), "specific_gan", 60),
    "L_logit": ({"form": "L_logit"}, (*SPECIFIC, "public_features"), "specific_gan", 60),
    "L_aug": ({"form": "L_aug"}, (*SPECIFIC, "students"), "specific_gan", 60),
    "baseline": ({"form": "baseline"}, SPECIFIC, "specific_gan", 60),
}

WRONG = [
    (
        {"students": {"architectures": ["efficientnet_b9"]}},
        "attack.students.architectures: expected one of .*efficientnet_b2.*, got 'efficientnet_b9'",
    )
]

KEPT = {**KEPT_SEARCHED, "students": KEPT_STUDENTS}

SWEPT = {
    "LommaKED": (
        {"attack": {"kind": "lomma_ked", "gan": SWEPT_GAN, "students": SWEPT_GAN}, "prior": None},
        "attack",
        swept(LommaKED, **STUDENTS_SWEPT),
    ),
    "Distillation": (
        {"attack": {"kind": "lomma_ked", "gan": SWEPT_GAN, "students": SWEPT_GAN}, "prior": None},
        "attack.students",
        swept(Distillation, architectures=["resnet_small"], batch_size=8),
    ),
}

QUERIES = 24 + 3
