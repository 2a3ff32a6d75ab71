import pytest
import torch

from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.knowledge import score_surrogate


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
