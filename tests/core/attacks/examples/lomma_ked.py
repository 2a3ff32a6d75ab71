"""What the tests expect of LOMMA on KED-MI."""

from tests.core.attacks.examples import (
    DISTRIBUTION,
    KEPT_SEARCHED,
    KEPT_STUDENTS,
    LOW_RESOLUTION,
    REFUSED,
    SPECIFIC,
    STUDENTS,
    SWEPT_GAN,
    SWEPT_SEARCHED,
    SWEPT_STUDENTS,
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
    ),
    ({"students": {"temperature": 0.0}}, "attack.students.temperature"),
]

KEPT = {**KEPT_SEARCHED, "students": KEPT_STUDENTS}

SWEPT = {
    "LommaKED": (
        {"attack": {"kind": "lomma_ked", "gan": SWEPT_GAN, "students": SWEPT_GAN}, "prior": None},
        "attack",
        {**SWEPT_SEARCHED, **SWEPT_STUDENTS, "start_log_variance": 0.0},
    ),
    "Distillation": (
        {"attack": {"kind": "lomma_ked", "gan": SWEPT_GAN, "students": SWEPT_GAN}, "prior": None},
        "attack.students",
        {
            "architectures": ["resnet_small"],
            "pretrained": False,
            "epochs": 3,
            "batch_size": 8,
            "lr": 0.1,
            "momentum": 0.5,
            "weight_decay": 0.1,
            "temperature": 2.0,
            "seed": 3,
            "workers": REFUSED,
        },
    ),
}


def queries(found):
    """What it asks the target of one class with EXAMPLE."""
    return 24 + 3
