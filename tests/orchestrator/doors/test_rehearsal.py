"""The paper's own experiment at reduced counts: the shipped sweep, through the doors, nothing mocked but size.

A FaceScrub-shaped tree of rendered people, a generator pickled in the official layout, checkpoints as the official
trainer writes them, real architectures with random weights. `make rehearsal` runs this file and shows what it prints.
"""

import html
import json
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pandas as pd
import pytest
import torch
from foreign_classifier import learn
from official_pickle import write_official_pickle
from PIL import Image

from core.data.synthetic import synthetic_faces
from core.data.transforms import resize, to_unit
from core.models.facenet import FaceNet
from core.models.fid_inception import FidInception
from core.priors.registry import SHIPPED, read_prior
from tasks.context import TaskContext
from tasks.data import prepare_private
from tasks.files import load_images

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

REPOSITORY = Path(__file__).resolve().parents[3]
PEOPLE = tuple((group, f"{name}_Doe") for group in ("actors", "actresses") for name in ("Ada", "Bo", "J.K."))
PICTURES = 14  # of each person
FEWER = {
    "data.classes": len(PEOPLE), "recipe.image_size": 64, "recipe.pretrained": False, "recipe.epochs": 2,
    "recipe.batch_size": 16,
    "attack.pool": "{size: 24, crop: 50}", "attack.candidates": 8, "attack.steps": 3, "attack.batch_size": 8,
    "attack.selected": 4, "attack.selection_repeats": 3, "judges.evaluator.pretrained": False,
    "judges.evaluator.epochs": 1, "judges.evaluator.batch_size": 16, "judges.evaluator.lr_milestones": "null",
    "judges.knowledge.pretrained": False, "judges.knowledge.epochs": 1, "judges.knowledge.batch_size": 8,
}  # fmt: skip
JUDGED = ("test_acc", "ece", "attack_acc1", "attack_acc1_std", "attack_acc5", "dist_eval", "dist_face", "fid", "kid",
          "precision", "recall", "density", "coverage", "xi_train", "xi_test")  # fmt: skip


def smoothsweep(*arguments: object, code: int = 0) -> str:
    command = [sys.executable, "-m", "orchestrator", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, check=False)
    print("$ smoothsweep", *arguments, "\n" + done.stdout)
    assert done.returncode == code, done.stderr + done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    """A folder with everything that the paper's experiment needs before it starts, small and generated."""
    folder = tmp_path_factory.mktemp("rehearsal")
    faces = synthetic_faces(population="private", identities=len(PEOPLE), per_identity=PICTURES, size=96, seed=3)
    for i, image in enumerate(faces.images.permute(0, 2, 3, 1).numpy()):
        group, name = PEOPLE[int(faces.labels[i])]
        path = folder / "facescrub" / group / "faces" / name / f"{i % PICTURES}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).resize((250, 250)).save(path, quality=92)
    shipped = SHIPPED["stylegan2_synthetic64"]
    generator = read_prior(weights=shipped.with_suffix(".safetensors"), description=shipped.with_suffix(".json"))
    write_official_pickle(folder / "ffhq.pkl", generator.config, generator=dict(generator.state_dict()))
    seen = to_unit(faces.images[::6])
    torch.save(random_network(FaceNet(), resize(seen, 160)).network.state_dict(), folder / "facenet.pt")
    torch.save(random_network(FidInception(), resize(seen, 299)).state_dict(), folder / "fid.pth")
    return folder


def seen_images(stage, size):
    """All pictures and labels exactly as a sweep reads them: random weights tell nothing from pictures a little off."""
    config = {"kind": "facescrub", "path": str(stage / "facescrub"), "size": size, "split_seed": 42,
              "on_corrupt": "refuse", "classes": len(PEOPLE)}  # fmt: skip
    out = stage / f"seen{size}"
    out.mkdir()
    prepare_private(config, {}, out, TaskContext(work=out))
    parts = [load_images(out, part) for part in ("train", "test")]
    return to_unit(torch.cat([part.images for part in parts])), torch.cat([part.labels for part in parts])


def random_network(network, images):
    """Random weights whose features tell images apart: BatchNorm has seen some, or everything would look the same."""
    torch.manual_seed(0)
    for module in network.modules():
        if isinstance(module, torch.nn.Conv2d | torch.nn.Linear):
            torch.nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        if isinstance(module, torch.nn.BatchNorm2d | torch.nn.BatchNorm1d):
            module.momentum = None
    with torch.no_grad():
        network.train()(images)
    return network.eval()


@pytest.fixture(scope="module")
def settings(stage):
    """--set options that point the shipped sweep at the stage and shrink it."""
    smoothsweep("import", "prior", stage / "ffhq.pkl", "--out", stage / "priors" / "ffhq")
    fid = stage / "fid.pth"
    values = {
        **FEWER, "seeds": [42], "data.path": stage / "facescrub", "prior.path": stage / "priors" / "ffhq",
        "judges.embedder.weights": stage / "facenet.pt", "judges.fidelity.weights": fid,
        "judges.fidelity.sha256": sha256(fid.read_bytes()).hexdigest(),
    }  # fmt: skip
    return [part for key, value in values.items() for part in ("--set", f"{key}={value}")]


def test_the_tree_is_what_the_loader_expects(stage):
    text = smoothsweep("data", "check", stage / "facescrub", "--as", "facescrub", "--classes", len(PEOPLE), code=1)
    assert f"identities: {len(PEOPLE)}, recorded are 530" in text
    assert f"readable images: {len(PEOPLE) * PICTURES}" in text and "faults" not in text


def test_table_1_runs_from_its_shipped_file_to_the_papers_numbers(stage, settings):
    sweep, store = "sweeps/table1_facescrub.yaml", ["--store", stage / "store"]
    plan = json.loads(smoothsweep("plan", sweep, *settings, *store, "--json"))
    assert plan["trials"] == 5 and plan["by_stage"]["judge_fidelity"]["to_run"] == 5
    text = smoothsweep("run", sweep, *settings, *store)
    assert "Beside the paper's Table 1 (FaceScrub)" in text and "Departs from the paper's settings" in text
    folder = stage / "store" / "sweeps" / "table1_facescrub"
    rows = pd.read_parquet(folder / "results.parquet")
    assert list(rows["status"]) == ["done"] * 5 and list(rows["protocol"]) == ["paper"] * 5
    assert list(rows["recipe_defense"]) == ["label_smoothing"] * 3 + ["mid", "bido"]
    assert rows[list(JUDGED)].notna().all(axis=None)
    assert rows["dist_face"].between(1e-3, 4).all() and (rows["fid"] > 1).all()
    compared = pd.read_parquet(folder / "published_comparison.parquet")
    printed = compared[compared["paper"].notna()]
    assert sorted(printed["metric"]) == sorted(["test_acc", "attack_acc1", "dist_face", "xi_train"] * 5)
    assert printed["ours"].notna().all() and printed["difference"].notna().all()
    assert "Beside the paper's Table 1" in html.unescape((folder / "report.html").read_text())
    assert "0 to run" in smoothsweep("plan", sweep, *settings, *store)


ONE_JUDGE = {
    "judges.embedder.weights": None, "judges.fidelity.weights": None, "judges.fidelity.sha256": None,
    "judges.knowledge.pretrained": None, "judges.knowledge.epochs": None, "judges.knowledge.batch_size": None,
    "judges.embedder": "null", "judges.fidelity": "null", "judges.knowledge": "null", "classes": "[0, 4]",
}  # fmt: skip
"""Two people before the evaluator alone: what the tables about the attack's own stages need."""

SMALL_VARIANTS = """[
  {attack.lr: 0.005, attack.loss: poincare, attack.discriminator_weight: 0.0, attack.feature_weight: null},
  {attack.lr: 0.05, attack.loss: poincare, attack.discriminator_weight: 0.0, attack.feature_weight: null},
  {attack.lr: 0.005, attack.loss: cross_entropy, attack.discriminator_weight: 0.0, attack.feature_weight: null},
  {attack.lr: 0.005, attack.loss: poincare, attack.discriminator_weight: 0.01, attack.feature_weight: null},
  {attack.lr: 0.005, attack.loss: logit, attack.discriminator_weight: 0.0, attack.feature_weight: 1.0}]"""


@pytest.mark.parametrize(
    ("table", "more", "rows"),
    [
        ("5", {"attack.candidates": 4, "judges.gradients": "{per_class: 1, steps: 3, crop: 50}"}, [1, 2, 3]),
        ("6", {"attack.candidates": 4}, [1, 2, 3]),
        ("7", {}, [1, 2, 3, 4, 5, 6]),
        ("10", {"cells": SMALL_VARIANTS}, [1, 4, 5, 6, 7]),
    ],
)
def test_the_tables_about_the_attacks_stages_find_their_rows(stage, settings, table, more, rows):
    """After Table 1, whose three targets they share."""
    given = dict(value.split("=", 1) for value in settings[1::2]) | ONE_JUDGE | more
    options = [part for key, value in given.items() if value is not None for part in ("--set", f"{key}={value}")]
    text = smoothsweep("run", f"sweeps/table{table}.yaml", *options, "--store", stage / "store")
    folder = stage / "store" / "sweeps" / f"table{table}"
    results = pd.read_parquet(folder / "results.parquet")
    assert set(results["status"]) == {"done"} and results["attack_acc1"].notna().all()
    assert (results["queries_selection_target"].notna().sum() > 0) == (table == "7")
    compared = pd.read_parquet(folder / "published_comparison.parquet")
    assert sorted(set(compared["paper_row"])) == rows and f"Beside the paper's Table {table}" in text
    assert results["gradients_cosine_poincare"].notna().all() == (table == "5")


def test_an_official_checkpoint_is_attacked_like_any_target(stage, settings):
    from torchvision.models import resnet152

    torch.manual_seed(1)
    network = learn(resnet152(num_classes=len(PEOPLE)), *seen_images(stage, 64))
    state = {f"model._orig_mod.{key}": value for key, value in network.state_dict().items()}
    torch.save({"epoch": 100, "model_state_dict": state, "optimizer_state_dict": {}}, stage / "Classifier_9123.pth")
    text = smoothsweep(
        "import", "target", stage / "Classifier_9123.pth", "--architecture", "resnet152", "--classes", len(PEOPLE),
        "--out", stage / "targets" / "resnet152", "--alpha", "-0.05", "--image-size", 64,
    )  # fmt: skip
    assert "(model_state_dict)" in text and "not measured" in text
    given = dict(value.split("=", 1) for value in settings[1::2] if not value.startswith("recipe."))
    given |= {
        "recipe": f"{{imported: {stage}/targets/resnet152}}", "grid": "{}", "baseline": "{}", "classes": "[0, 4]",
        "name": "imported", "attack.candidates": 4, "attack.batch_size": 4, "attack.steps": 1,
        "attack.pool": "{size: 8, crop: 50}", "attack.selection_repeats": 1,
    }  # fmt: skip
    options = [part for key, value in given.items() for part in ("--set", f"{key}={value}")]
    run = smoothsweep("run", "sweeps/table1_facescrub.yaml", *options, "--store", stage / "store")
    row = pd.read_parquet(stage / "store" / "sweeps" / "imported" / "results.parquet").iloc[0]
    assert row["status"] == "done" and row["recipe_alpha"] == -0.05 and row["recipe_architecture"] == "resnet152"
    assert row[list(JUDGED)].notna().all() and pd.isna(row["train_acc"])
    assert "its training was not seen" in json.loads(row["reasons"])["train_acc"]
    assert "Beside the paper's Table 1" in run
