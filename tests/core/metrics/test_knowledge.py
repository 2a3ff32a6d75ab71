from dataclasses import replace

import pytest
import torch

from core.errors import InputError
from core.metrics.knowledge import KNOWLEDGE_RECIPES, KnowledgeRecipe, score_surrogate


def test_both_protocols_share_the_published_training():
    paper, clean = KNOWLEDGE_RECIPES["paper"], KNOWLEDGE_RECIPES["clean"]
    assert replace(paper, protocol="clean", shared_draws=False, keep_fitting_head=False) == clean
    assert (clean.architecture, clean.epochs, clean.batch_size) == ("resnet50", 75, 32)
    assert (clean.lr, clean.momentum, clean.weight_decay, clean.lr_min) == (0.1, 0.9, 1e-4, 1e-4)
    assert (clean.crop_scale, clean.flip, clean.clamp) == ((0.8, 1.0), 0.5, (-1.0, 1.0))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"protocol": "mine"}, "expected paper or clean"),
        ({"epochs": 0}, "epochs: expected at least 1"),
        ({"batch_size": 0}, "batch_size: expected at least 1"),
        ({"lr_min": 0.2}, "0 <= lr_min <= lr"),
        ({"crop_scale": (0.0, 1.0)}, r"crop_scale: expected a range in \(0, 1\]"),
        ({"flip": 1.5}, "flip: expected a probability"),
    ],
)
def test_impossible_recipes_are_refused(wrong, message):
    with pytest.raises(InputError, match=message):
        KnowledgeRecipe(**wrong)


def test_scores_are_the_top1_accuracies_of_the_splits():
    train, test = torch.tensor([0, 1, 2, 0]), torch.tensor([2, 1])
    logits_train = torch.eye(3)[torch.tensor([0, 1, 1, 2])]
    scores = score_surrogate(logits_train, train, torch.eye(3)[test], test)
    assert scores == {"xi_train": 0.5, "xi_test": 1.0}


def test_classes_that_were_not_attacked_are_left_out():
    labels = torch.tensor([0, 1, 2, 2])
    logits = torch.eye(3)[torch.tensor([0, 0, 2, 2])]
    assert score_surrogate(logits, labels, logits, labels) == {"xi_train": 0.75, "xi_test": 0.75}
    attacked = torch.tensor([0, 2])
    assert score_surrogate(logits, labels, logits, labels, attacked=attacked) == {
        "xi_train": 1.0,
        "xi_test": 1.0,
    }


def test_a_split_without_an_attacked_class_is_refused():
    labels = torch.tensor([0, 1])
    with pytest.raises(InputError, match="no image of an attacked class in the test split"):
        score_surrogate(torch.eye(2), labels, torch.eye(2), labels - labels, attacked=torch.tensor([1]))
