"""What the difference of two recipes varies by, taken apart: seeds, classes, both together, and single images.

Each component follows from mean squares of `crossed_effects` (Cornfield and Tukey, 1956). With S seeds, C classes and m
images in each cell, and averaged over the recipes beside the baseline under every attack:

    MS_E = cell^2 + image^2 / m,    MS_S = C seed^2 + MS_E,    MS_C = S person^2 + MS_E

image^2 is twice the binomial variance p (1 - p) of one image, estimated within the cells.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smoothsweep.core.metrics.crossed_effects import mean_squares


@dataclass(frozen=True, kw_only=True)
class Components:
    """What the difference of two recipes varies by: standard deviations in the unit of the leak.

    Attributes:
        seed: Deviation of a training, the same for all classes.
        person: Deviation of a class, the same for all seeds.
        cell: Deviation of a class under a seed, beside the chance of its images.
        image: Deviation of a single reconstruction within its cell, a yes or no; None where it is not known apart from
            `cell`.
    """

    seed: float
    person: float
    cell: float
    image: float | None = None

    def of_cell(self, images: int | None) -> float:
        """The variance of a cell with so many images."""
        if self.image is None or images is None:
            return self.cell**2
        return self.cell**2 + self.image**2 / images


QUICKSTART = Components(seed=0.032, person=0.142, cell=0.1485, image=0.4865)
"""Measured on the quickstart: with 4 images of each class, 3.2, 14.2 and 28.5 points."""


def components_of(cells: np.ndarray, *, baseline: int = 0, images: int | None = None) -> Components:
    """Estimate the components of differences from a baseline, on average over recipes and attacks.

    Args:
        cells: [recipes, attacks, seeds, classes], at least two recipes and seeds.
        baseline: The baseline's number among the recipes.
        images: How many yes-or-no images each cell is the mean of, None where cells are no such means.
    """
    recipes, attacks, seeds, classes = cells.shape
    squares = mean_squares(cells, weights_against_baseline(recipes, attacks, baseline))
    of_seeds = float(squares.seeds.mean())
    if squares.residual is None or squares.classes is None:
        return Components(seed=0.0, person=0.0, cell=float(np.sqrt(of_seeds)))
    residual = float(squares.residual.mean())
    person = max(0.0, float(squares.classes.mean()) - residual) / seeds
    seed = max(0.0, of_seeds - residual) / classes
    if images is None or images < 2:
        return Components(seed=float(np.sqrt(seed)), person=float(np.sqrt(person)), cell=float(np.sqrt(residual)))
    image = 2 * float((cells * (1 - cells)).mean()) * images / (images - 1)
    cell = max(0.0, residual - image / images)
    return Components(
        seed=float(np.sqrt(seed)), person=float(np.sqrt(person)), cell=float(np.sqrt(cell)), image=float(np.sqrt(image))
    )


def weights_against_baseline(recipes: int, attacks: int, baseline: int) -> np.ndarray:
    """Every recipe's contrast with the baseline under the same attack, [contrasts, recipes, attacks]."""
    others = [recipe for recipe in range(recipes) if recipe != baseline]
    weights = np.zeros((len(others) * attacks, recipes, attacks))
    for row, (recipe, attack) in enumerate((recipe, attack) for recipe in others for attack in range(attacks)):
        weights[row, recipe, attack], weights[row, baseline, attack] = -1.0, 1.0
    return weights
