"""Components that are put into simulated cells are found again."""

import numpy as np
import pytest

from smoothsweep.core.metrics.components import components_of


def normal_cells(generator, shape, seed, person, cell):
    cells = 0.5 + generator.normal(0, cell, shape) + generator.normal(0, 0.3, (1, 1, 1, shape[3]))
    cells += generator.normal(0, seed, (*shape[:3], 1))
    return cells + generator.normal(0, person, (*shape[:2], 1, shape[3]))


def mean_of(found, name):
    return np.sqrt(np.mean([getattr(one, name) ** 2 for one in found]))


@pytest.mark.parametrize("baseline", [0, 2])
def test_seeds_persons_and_cells_are_told_apart(baseline):
    """A difference varies by twice what a single column does."""
    generator = np.random.default_rng(2)
    found = [
        components_of(normal_cells(generator, (4, 2, 5, 30), 0.05, 0.1, 0.2), baseline=baseline) for _ in range(60)
    ]
    for name, single in (("seed", 0.05), ("person", 0.1), ("cell", 0.2)):
        assert mean_of(found, name) == pytest.approx(np.sqrt(2) * single, rel=0.08)
    assert all(one.image is None for one in found)


def test_the_chance_of_images_is_taken_apart_from_the_cell():
    generator, images = np.random.default_rng(5), 4
    chances = np.clip(normal_cells(generator, (3, 2, 4, 4000), 0.0, 0.1, 0.1), 0.0, 1.0)
    found = components_of(generator.binomial(images, chances) / images, images=images)
    assert found.image == pytest.approx(np.sqrt(2 * (chances * (1 - chances)).mean()), rel=0.02)
    clipped = np.sqrt(2) * 0.1
    assert found.cell == pytest.approx(clipped, rel=0.1) and found.person == pytest.approx(clipped, rel=0.1)
    assert found.of_cell(images) == pytest.approx(found.cell**2 + found.image**2 / 4)


def test_a_leak_without_classes_has_a_single_component():
    cells = np.random.default_rng(1).normal(0, 0.1, (9, 1, 40, 1))
    found = components_of(cells)
    assert (found.seed, found.person, found.image) == (0.0, 0.0, None)
    assert found.cell == pytest.approx(np.sqrt(2) * 0.1, rel=0.1)
