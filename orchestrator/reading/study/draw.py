"""Draw the questions of a study from one seed: people, pictures and order."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from smoothsweep.orchestrator.reading.study.key import Question

SURE = 0.05
"""The highest allowed probability that an annotator who guesses passes the attention checks."""


def least_checks(options: int) -> int:
    """The fewest attention checks that tell an annotator who passes them all from one who guesses.

    A guess passes one with probability 1 - 1 / options (at least 2): it does not fall on the real picture.
    """
    return math.ceil(math.log(SURE) / math.log(1 - 1 / options))


def draw_questions(
    rows: Mapping[int, Sequence[int]],
    names: Sequence[str],
    seeds: Sequence[int],
    *,
    options: int,
    people: int,
    checks: int,
    examples: int,
    generator: np.random.Generator,
) -> tuple[Question, ...]:
    """`people` questions and `checks` attention checks in a random order.

    Args:
        rows: Label of each person who may be asked about -> the rows of their training images.
        names: Names of all people, in the order of their labels.
        seeds: Training seeds, spread evenly over the questions.
        options: Pictures to choose between, one for each recipe.
        examples: Training images shown beside them, fewer for a person who has no more than so many.

    The checks are about people with at least two training images, as far as possible not asked about otherwise.

    Raises ValueError where no person has two.
    """
    order = [int(label) for label in generator.permutation(sorted(rows))]
    chosen = order[:people]
    able = [label for label in (*order[people:], *chosen) if len(rows[label]) >= 2]
    if not able:
        raise ValueError("rows: expected somebody with at least 2 training images for the attention checks, got nobody")
    checked = [able[number % len(able)] for number in range(checks)]
    drawn = [
        _question(rows[label], label, names[label], seeds[number % len(seeds)], options, examples, generator, check)
        for check, labels in ((False, chosen), (True, checked))
        for number, label in enumerate(labels)
    ]
    return tuple(drawn[place] for place in generator.permutation(len(drawn)))


def _question(
    rows: Sequence[int],
    label: int,
    name: str,
    trained: int,
    options: int,
    examples: int,
    generator: np.random.Generator,
    check: bool,
) -> Question:
    order = [int(row) for row in generator.permutation(list(rows))]
    placed: list[int | None] = [int(recipe) for recipe in generator.permutation(options)]
    if check:
        placed[int(generator.integers(options))] = None
    # One image is always kept back: fewer examples in a check than elsewhere would give it away.
    real, others = order[0], order[1:] or order
    return Question(
        person=label,
        name=name,
        trained=trained,
        examples=tuple(others[:examples]),
        options=tuple(placed),
        real=real if check else None,
    )
