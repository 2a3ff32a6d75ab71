"""How many classes and images the published data sets have, and where each number is recorded: their cards."""

from __future__ import annotations

# What, number (None: not recorded), where it is recorded.
CLASSES: dict[str, tuple[str, int, str]] = {
    "facescrub": ("identities", 530, "the paper, Sec. 4.1"),
    "celeba": ("identities", 1000, "the paper, Sec. 4.1"),
    "celeba64": ("identities", 1000, "the published lists"),
    "stanford_dogs": ("breeds", 120, "the official lists"),
    "stanford_dogs_cropped": ("breeds", 120, "the official lists"),
    "imagenette": ("classes", 10, "the paper, App. C.9"),
}
IMAGES: dict[str, tuple[int | None, str]] = {
    "facescrub": (None, "neither the paper nor its code records one"),
    "celeba": (None, "neither the paper nor its code records one"),
    "celeba64": (30_027, "the published lists"),
    "stanford_dogs": (20_580, "the official lists"),
    "stanford_dogs_cropped": (20_580, "the official lists"),
    "imagenette": (13_394, "the release of 2019, imagenette2"),
}
# Only where the set has a split of its own; the others split 90/10 whatever there is.
TRAINING: dict[str, tuple[int, str]] = {
    "celeba64": (27_018, "the published lists"),
    "imagenette": (9_469, "the release of 2019, imagenette2"),
}
