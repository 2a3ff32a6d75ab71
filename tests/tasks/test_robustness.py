"""The judge of robustness: which images it shows to whom, in which scale, and what its table says of them."""

import pandas as pd
import pytest
import torch
import torch.nn.functional as F

from smoothsweep.tasks.context import TaskContext
from smoothsweep.tasks.judging import judge_robustness
from smoothsweep.tasks.training import load_classifier

SETTINGS = {"images": 5, "steps": 2, "generations": 1, "population": 2, "strong_steps": 2, "seed": 4, "eps": 0.05}


@pytest.fixture(scope="module")
def made(paper, tmp_path_factory):
    inputs = {"target": paper.folder("target"), "data": paper.folder("data")}
    out, work = (tmp_path_factory.mktemp(name) for name in ("robustness", "work"))
    metrics = judge_robustness({"settings": SETTINGS}, inputs, out, TaskContext(work=work))
    return pd.read_parquet(out / "answers.parquet"), metrics


@pytest.fixture(scope="module")
def shown(paper, made):
    """The images of the table, in [0, 1], with the target that was asked."""
    data = paper.tensors("data", "test")
    model = load_classifier(paper.folder("target"), paper.config("target"), "cpu")
    return data["images"][torch.tensor(made[0]["row"])].float() / 255, model


def test_the_rows_are_test_images_with_their_people(paper, made):
    table, labels = made[0], paper.tensors("data", "test")["labels"]
    assert len(table) == 5 and table["row"].is_unique
    assert table["class"].tolist() == labels[torch.tensor(table["row"])].tolist()
    assert (table["target"] != table["class"]).all() and table["target"].between(0, 2).all()


def test_the_answers_are_those_of_the_target_to_these_images(made, shown):
    table, (pictures, model) = made[0], shown
    assert table["answer"].tolist() == model(pictures * 2 - 1).argmax(1).tolist()


def test_one_step_of_the_sign_of_the_gradient_is_fgsm(made, shown):
    table, (pictures, model) = made[0], shown
    labels, given = torch.tensor(table["class"]), pictures.clone().requires_grad_(True)
    (gradient,) = torch.autograd.grad(F.cross_entropy(model(given * 2 - 1), labels, reduction="sum"), given)
    moved = (pictures + SETTINGS["eps"] * gradient.sign()).clamp(0, 1)
    assert table["fgsm_untargeted"].tolist() == model(moved * 2 - 1).argmax(1).tolist()
    assert table["zero_gradient"].tolist() == gradient.flatten(1).eq(0).all(1).tolist()


def test_the_numbers_are_shares_of_the_table(made):
    table, metrics = made
    names = [name for name in table if name.endswith("_untargeted")]
    correct = table["answer"] == table["class"]
    for name in names:
        assert metrics[name] == pytest.approx((table[name] != table["class"]).mean())
        wrong = (table[name] != table["class"])[correct]
        assert metrics[f"{name}_correct"] == (pytest.approx(wrong.mean()) if len(wrong) else None)
    robust = correct & (table[names].eq(table["class"], axis=0)).all(axis=1)
    assert metrics["robust_acc"] == pytest.approx(robust.mean())
