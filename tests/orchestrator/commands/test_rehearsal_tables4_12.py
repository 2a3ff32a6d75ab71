"""The paper's Tables 4 and 12 at reduced counts, whose data are no other table's: the shipped sweeps by the commands.

Table 4 needs at least 50 training images of each person; Table 12 is about ImageNette. `make rehearsal` runs this file.
"""

import json

import pytest

from tests.rehearsals import (
    ATTACKED,
    FACESCRUB,
    LATENTS,
    STEPS,
    TARGETS,
    celeba_tree,
    facescrub_tree,
    imagenette_tree,
    imported_prior,
    options,
    run_table,
    shipped_cells,
    smoothsweep,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

PEOPLE = 2
THINGS, TRAIN, VAL = 4, 8, 3


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    facescrub_tree(folder / "facescrub", 62, FACESCRUB[::3])
    celeba_tree(folder / "celeba", 38, PEOPLE)
    imagenette_tree(folder / "imagenette", THINGS, TRAIN, VAL)
    imported_prior(folder)
    return folder


def test_table_4_trains_on_few_images_of_each_person(stage):
    cells = shipped_cells(
        "table4",
        {
            "data.path": lambda name: str(stage / name),
            "attack.pool.size": lambda _: LATENTS,
            "attack.steps": lambda _: STEPS,
        },
        without="judges.evaluator.lr_milestones",
    )
    given = options(
        TARGETS,
        ATTACKED,
        {
            "prior.path": stage / "priors" / "ffhq",
            "data.classes": PEOPLE,
            "cells": json.dumps(cells),
            "recipe.epochs": 1,
        },
    )
    results, _, text = run_table("table4", list(range(1, 25)), given, stage / "store")
    assert results["attack_acc1"].notna().all() and "Compared with the paper's Table 4 (FaceScrub and CelebA)" in text


def test_table_12_plants_backdoors(stage):
    text = smoothsweep("data", "check", stage / "imagenette", "--as", "imagenette", "--classes", THINGS, code=1)
    assert f"readable images: {THINGS * (TRAIN + VAL)}" in text and "faults" not in text
    given = options(TARGETS, {"data.path": stage / "imagenette", "data.classes": THINGS})
    results, _, _ = run_table("table12", list(range(1, 10)), given, stage / "store")
    poisoned = results[results["recipe_poison"].notna()]
    assert len(results) == 9 and len(poisoned) == 6
    assert poisoned["backdoor_success"].between(0, 1).all()
