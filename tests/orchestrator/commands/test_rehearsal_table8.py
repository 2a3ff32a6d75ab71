"""The paper's Table 8 at reduced counts: the shipped sweep through the commands, all its attacks on all its targets.

CelebA's aligned release and the three published lists, with rendered people; the shipped networks but for narrow GANs,
a narrow evaluator and one small student; no weights of anybody. `make rehearsal` runs this file too.
"""

import html
import json
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

from smoothsweep.core.data.synthetic import synthetic_faces
from smoothsweep.sweeps.load import read_yaml
from tests.published_trees import celeba64_lists, put
from tests.rehearsals import REPOSITORY, smoothsweep

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

SWEEP = "sweeps/table8.yaml"
PEOPLE, TRAIN, TEST, PUBLIC = 4, 6, 2, 24
SIZE, CROP, CORNER = (178, 218), 108, (35, 55)  # of an aligned picture, and where the networks look
GAN = {"width": 4, "z_dim": 16, "batch_size": 12, "critic_steps": 2}
LOW = {"selected": 4, "steps": 3}
STUDENTS = {"architectures": ["resnet_small"], "pretrained": False, "epochs": 1, "batch_size": 12}
FEWER = {  # attack -> what is smaller
    "gmi": {**LOW, "gan": {**GAN, "epochs": 2}},
    "ked": {**LOW, "gan": {**GAN, "epochs": 1}, "reference_batch": 3},
    "lomma_gmi": {**LOW, "gan": {**GAN, "epochs": 1}, "students": STUDENTS},
    "lomma_ked": {**LOW, "gan": {**GAN, "epochs": 1}, "students": STUDENTS, "reference_batch": 3},
    "plg_mi": {**LOW, "top_n": 3, "gan": {"steps": 2, "critic_steps": 1, "batch_size": 8, "width": 4, "z_dim": 16}},
    "rlb_mi": {"episodes": 12, "minibatch": 6, "hidden": 8, "gan": {**GAN, "epochs": 1}},
    "brep_mi": {
        "patience": 2,
        "max_passes": 4,
        "probes": 4,
        "starts": {"batch": 16, "max_batches": 2},
        "gan": {**GAN, "epochs": 1},
    },
}
# The others attack all.
CLASSES = {"ked": [0, 2], "lomma_gmi": [1, 2], "lomma_ked": [0, 3], "plg_mi": [0, 1, 2], "rlb_mi": [3, 1]}
JUDGED = ("test_acc", "attack_acc1", "attack_acc5", "attack_acc5_last", "dist_eval")


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    """The aligned release as it is published, small: pictures, and the three lists."""
    folder, rows = tmp_path_factory.mktemp("table8"), {"train": [], "test": [], "public": []}
    common = {"size": CROP, "seed": 3, "spread": 0.6}
    private = synthetic_faces(population="private", identities=PEOPLE, per_identity=TRAIN + TEST, **common)
    public = synthetic_faces(population="public", identities=PUBLIC, per_identity=1, **common)
    for i, image in enumerate([*private.images, *public.images], start=1):
        picture, name = Image.new("RGB", SIZE), f"{i:06d}.jpg"
        picture.paste(Image.fromarray(image.permute(1, 2, 0).numpy()), CORNER)
        path = folder / "celeba" / "img_align_celeba" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        picture.save(path, quality=92)
        if i > len(private.images):
            rows["public"].append(name)
        else:
            rows["train" if (i - 1) % (TRAIN + TEST) < TRAIN else "test"].append((name, int(private.labels[i - 1])))
    celeba64_lists(folder / "celeba", rows["train"], rows["test"])
    put(folder / "celeba" / "celeba_ganset.txt", "".join(f"{name}\n" for name in rows["public"]))
    return folder


@pytest.fixture(scope="module")
def settings(stage):
    """--set options that point the shipped sweep at the stage and shrink it; its cells keep their attacks."""
    shipped = read_yaml((Path(REPOSITORY) / SWEEP).read_text(encoding="utf-8"), SWEEP)
    cells = [
        {**cell, "attack": {**cell["attack"], **FEWER[kind]}, "classes": CLASSES.get(kind, cell["classes"])}
        for cell in shipped["cells"]
        for kind in [cell["attack"]["kind"]]
    ]
    values = {
        "seeds": [42],
        "data.path": stage / "celeba",
        "data.classes": PEOPLE,
        "public.path": stage / "celeba",
        "recipe.pretrained": "false",
        "recipe.epochs": 2,
        "recipe.batch_size": 8,
        "judges.evaluator.epochs": 1,
        "judges.evaluator.batch_size": 8,
        "judges.evaluator.architecture": "ir50_112_narrow",
        "tracking.models": "none",
        "cells": json.dumps(cells),
    }
    return [part for key, value in values.items() for part in ("--set", f"{key}={value}")]


def test_the_tree_is_what_the_loader_expects(stage):
    text = smoothsweep("data", "check", stage / "celeba", "--as", "celeba64", "--classes", PEOPLE, code=1)
    assert f"identities: {PEOPLE}, recorded are 1000" in text and "not the published training list" in text
    assert f"readable images: {PEOPLE * (TRAIN + TEST)}" in text and "faults" not in text


def test_table_8_runs_from_its_shipped_file_to_the_papers_numbers(stage, settings):
    store = ["--store", stage / "store"]
    plan = json.loads(smoothsweep("plan", SWEEP, *settings, *store, "--json"))
    stages = {name: row["to_run"] for name, row in plan["by_stage"].items()}
    assert plan["trials"] == 49 and stages["attack"] == 49 and stages["target"] == 8 and not plan["absent"]
    assert stages["general_gan"] == 2 and stages["public"] == 1  # GMI's own; that of LOMMA and the black boxes
    assert {stages[name] for name in ("specific_gan", "students", "plg_gan", "starts")} == {7}
    text = smoothsweep("run", SWEEP, *settings, *store, "--yes")
    assert "Compared with the paper's Table 8 (CelebA)" in text and "Departs from the paper's settings (recipe)" in text
    folder = stage / "store" / "sweeps" / "table8"
    rows = pd.read_parquet(folder / "results.parquet")
    assert list(rows["status"]) == ["done"] * 49 and rows["prior"].isna().all()
    assert sorted(rows["attack_access"].value_counts().items()) == [("gradients", 35), ("labels", 7), ("scores", 7)]
    assert rows[list(JUDGED)].notna().all(axis=None) and (rows["queries"] > 0).all()
    compared = pd.read_parquet(folder / "published_comparison.parquet")
    assert set(compared["paper_row"]) == set(range(1, 50))
    assert compared[compared["metric"] == "test_acc"]["ours"].notna().all()
    top5 = compared[compared["metric"].isin(("attack_acc5", "attack_acc5_last")) & compared["paper"].notna()]
    assert list(top5["metric"]) == ["attack_acc5_last"] * 28 + ["attack_acc5"] * 21 and top5["ours"].notna().all()
    assert "Compared with the paper's Table 8" in html.unescape((folder / "report.html").read_text())
    assert "0 to run" in smoothsweep("plan", SWEEP, *settings, *store)
