"""The model of drawn people whose audit stands in docs/gallery, with the images that it was trained on.

    python -m tools.gallery_model OUT

Writes OUT/model.pt2 (torch.export, images in [-1, 1]) and OUT/people, with the folders `train` and `test` and one
folder per person in each. The people and the recipe are those of `sweeps/quickstart.yaml` under plain training, so
that the audit can be compared with its report; no real person is involved.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from PIL import Image

from smoothsweep.core.data.augmentation import Augmentation
from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.data.synthetic.faces import synthetic_faces
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.models.inference import evaluate_accuracy
from smoothsweep.core.models.recipe import TrainingRecipe
from smoothsweep.core.training.classifier import train_classifier

PEOPLE = 24  # of the quickstart's 48
DRAWN = {"population": "private", "identities": PEOPLE, "size": 64, "spread": 0.4, "seed": 7}
TRAIN, TEST, SEED = 20, 10, 61
LOOKS = Augmentation(crop_scale=(0.85, 1.0), brightness=0.2, contrast=0.2, saturation=0.1, hue=0.0, flip=0.5)
RECIPE = TrainingRecipe(image_size=32, epochs=48, batch_size=50, augmentation=LOOKS)


def write_people(images: ImageSet, folder: Path) -> None:
    """One PNG per image, in one folder per person."""
    for k, (image, label) in enumerate(zip(images.images, images.labels, strict=True)):
        person = folder / images.names[int(label)]
        person.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(person / f"{k:04d}.png")


def main(out: Path) -> None:
    """Draw the people, train the model on them, write both."""
    train = synthetic_faces(per_identity=TRAIN, **DRAWN)
    test = synthetic_faces(per_identity=TEST, first_image=TRAIN, **DRAWN)
    model = build_classifier(RECIPE.architecture, PEOPLE, seed=SEED, protocol="clean")
    train_classifier(model, train, RECIPE, seed=SEED)
    write_people(train, out / "people" / "train")
    write_people(test, out / "people" / "test")
    side = RECIPE.image_size
    rows = {0: torch.export.Dim("rows", min=1, max=4096)}
    program = torch.export.export(model.eval(), (torch.zeros(2, 3, side, side),), dynamic_shapes=(rows,))
    torch.export.save(program, out / "model.pt2")
    print(f"{out}: test accuracy {evaluate_accuracy(model, test, image_size=side):.1%}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
