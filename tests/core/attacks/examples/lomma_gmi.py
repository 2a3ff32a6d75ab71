"""What the tests expect of LOMMA on GMI."""

from smoothsweep.core.attacks.lowres import LommaGMI
from tests.core.attacks.examples import (
    GENERAL,
    KEPT_SEARCHED,
    KEPT_STUDENTS,
    LOW_RESOLUTION,
    STUDENTS,
    STUDENTS_SWEPT,
    SWEPT_GAN,
    swept,
)

EXAMPLE = {**LOW_RESOLUTION, "students": STUDENTS}

DECLARED = {
    "ours": ({"form": "ours"}, (*GENERAL, "students", "public_features"), "general_gan", 1),
    "L_logit": ({"form": "L_logit"}, (*GENERAL, "public_features"), "general_gan", 1),
    "L_aug": ({"form": "L_aug"}, (*GENERAL, "students"), "general_gan", 1),
    "baseline": ({"form": "baseline"}, GENERAL, "general_gan", 1),
}

WRONG = [
    ({"form": "L_aug", "feature_weight": 2.0}, "attack.feature_weight: expected no value with form L_aug"),
    ({"form": "L_logit", "students": STUDENTS}, "attack.students: expected no value with form L_logit"),
    ({"students": {"architectures": []}}, "attack.students.architectures: expected at least one"),
]

KEPT = {**KEPT_SEARCHED, "students": KEPT_STUDENTS}

SWEPT = {
    "LommaGMI": (
        {"attack": {"kind": "lomma_gmi", "gan": SWEPT_GAN, "students": SWEPT_GAN}, "prior": None},
        "attack",
        swept(LommaGMI, **STUDENTS_SWEPT),
    )
}

QUERIES = (16 + 1) * 3
