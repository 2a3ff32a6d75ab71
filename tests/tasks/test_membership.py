"""The stage that attacks membership, and shadow models: whom they ask about what, and what they refuse."""

import numpy as np
import pandas as pd
import pytest
import torch

import smoothsweep
from smoothsweep.core.errors import InputError
from smoothsweep.core.membership.base import log_odds, margins
from smoothsweep.core.membership.measuring import roc_auc
from smoothsweep.core.models.inference import evaluate_logits
from smoothsweep.tasks.context import TaskContext
from smoothsweep.tasks.files import load_images, load_tensors
from smoothsweep.tasks.judging import judge_membership
from smoothsweep.tasks.settings import check_membership, check_shadow
from smoothsweep.tasks.shadow import train_shadow
from smoothsweep.tasks.training import load_classifier

DATA = {"kind": "synthetic", "identities": 3, "train_per_class": 6, "test_per_class": 4, "size": 32, "seed": 3}


@pytest.fixture(scope="module")
def shadows(paper, tmp_path_factory):
    """Folders of four shadow models of the pipeline's recipe."""
    found = []
    for number in range(4):
        config = {**paper.config("target"), "part": {"model": number, "share": 0.5, "seed": 0}, "seed": 7 + number}
        out, work = (tmp_path_factory.mktemp(name) for name in ("shadow", "work"))
        train_shadow(config, {"data": paper.folder("data")}, out, TaskContext(work=work))
        found.append(out)
    return found


@pytest.fixture(scope="module")
def judged(paper, shadows, tmp_path_factory):
    inputs = {"target": paper.folder("target"), "data": paper.folder("data")}
    inputs |= {f"shadow_{number:04d}": folder for number, folder in enumerate(shadows)}
    out, work = (tmp_path_factory.mktemp(name) for name in ("membership", "work"))
    settings = {"shadows": 4, "copies": 2, "levels": 2, "images": 5}
    metrics = judge_membership({"settings": settings}, inputs, out, TaskContext(work=work))
    return pd.read_parquet(out / "scores.parquet"), pd.read_parquet(out / "per_class.parquet"), metrics


def test_every_image_is_in_one_model_of_a_pair_and_answered_by_both(shadows):
    answers = [load_tensors(folder / "answers.safetensors") for folder in shadows]
    assert all((one["inside"] ^ other["inside"]).all() for one, other in (answers[:2], answers[2:]))
    assert {tuple(one["phi"].shape) for one in answers} == {(2, 30)}
    assert not (shadows[0] / "weights.safetensors").exists()


def test_members_are_the_training_images_and_scores_the_targets_own(paper, judged):
    table, _, metrics = judged
    train, test = (paper.tensors("data", part) for part in ("train", "test"))
    assert table["member"].tolist() == [True] * 18 + [False] * 12
    images, labels = (torch.cat([train[key], test[key]]) for key in ("images", "labels"))
    model = load_classifier(paper.folder("target"), paper.config("target"), "cpu")
    logits = evaluate_logits(model, images, image_size=32).numpy()
    assert table["margin"].to_numpy() == pytest.approx(margins(logits, labels.numpy()), abs=1e-4)
    assert table["loss"].to_numpy() == pytest.approx(log_odds(logits, labels.numpy()), abs=1e-4)
    own = table["rmia"].to_numpy()
    assert metrics["membership_auc"] == metrics["membership_rmia_auc"] == roc_auc(own[:18], own[18:])


def test_the_audit_in_memory_has_the_numbers_of_the_stage(paper, tmp_path):
    """All attacks without shadow models, those on labels too: the same images, copies and noise."""
    inputs = {"target": paper.folder("target"), "data": paper.folder("data")}
    out = tmp_path / "judged"
    out.mkdir()
    metrics = judge_membership({"settings": {}}, inputs, out, TaskContext(work=tmp_path))
    train, test = (load_images(paper.folder("data"), part) for part in ("train", "test"))
    model = load_classifier(paper.folder("target"), paper.config("target"), "cpu")
    in_memory = smoothsweep.Model(model, image_size=paper.config("target")["image_size"], input_range=(-1, 1))
    found = smoothsweep.membership(in_memory, train, test, progress=False)
    assert {row["attack"]: row["auc"] for row in found.attacks.to_dict("records")} == {
        name: metrics[f"membership_{name}_auc"]
        for name in ("margin", "margin_per_class", "loss", "loss_per_class", "label_views", "label_distance")
    }
    assert (found.shift, found.copies) == (metrics["membership_shift"], metrics["membership_copies"])


def test_labels_are_asked_of_as_many_members_as_others(judged):
    table = judged[0]
    asked = table["label_views"].notna()
    assert asked[table["member"]].sum() == asked[~table["member"]].sum() == 5
    assert set(table.loc[asked, "label_views"] * 2 % 1) == {0.0}


def test_the_table_by_class_and_nulls(judged):
    table, by_class, metrics = judged
    mine = table[table["class"] == 1]
    expected = roc_auc(mine.loc[mine["member"], "margin"], mine.loc[~mine["member"], "margin"])
    assert by_class.set_index("class").loc[1, "membership_margin"] == pytest.approx(expected)
    assert metrics["membership_tpr_fpr1"] is None and metrics["membership_least_fpr"] == pytest.approx(1 / 12)
    assert np.isfinite(metrics["membership_shift"]) and metrics["membership_copies"] == 0.0


def test_too_few_images_of_a_class_are_refused_before_any_work():
    check_membership({"settings": {"shadows": 4}}, {"data": DATA})
    few = {**DATA, "train_per_class": 2, "test_per_class": 1}
    check_membership({"settings": {}}, {"data": few})
    with pytest.raises(InputError, match=r"judges.membership: expected at least 2 images of every class"):
        check_membership({"settings": {"shadows": 4}}, {"data": few})
    with pytest.raises(InputError, match=r"judges.membership.shadows: expected 0, or an even number of at least 4"):
        check_membership({"settings": {"shadows": 3}}, {"data": DATA})
    part = {"model": 0, "share": 0.9, "seed": 0}
    recipe = {"architecture": "resnet_small", "image_size": 32, "epochs": 1, "batch_size": 8, "part": part}
    with pytest.raises(InputError, match="got 1 of class 0"):
        check_shadow(recipe, {"data": DATA})
