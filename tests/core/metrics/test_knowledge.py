import pytest
import torch

from smoothsweep.core.data.augmentation import Augmentation
from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.knowledge import score_surrogate
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.models.recipe import TrainingRecipe
from smoothsweep.core.training.classifier import train_classifier


@pytest.mark.parametrize("protocol", ["paper", "clean"])
def test_a_surrogate_learns_from_unclipped_reconstructions_of_half_precision(protocol):
    recipe = TrainingRecipe(
        architecture="resnet_small",
        epochs=4,
        batch_size=8,
        optimizer="sgd",
        lr=0.02,
        momentum=0.9,
        weight_decay=1e-4,
        lr_schedule="cosine",
        lr_min=1e-4,
        image_size=32,
        augmentation=Augmentation.none().replace(crop_scale=(0.8, 1.0), flip=0.5, shared=protocol == "paper"),
    )
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(3).repeat_interleave(16)
    images = 3 * torch.eye(3)[labels][:, :, None, None] - 1.5 + torch.randn(48, 3, 40, 40, generator=generator)
    reconstructions = ImageSet(images=images.half(), labels=labels, names=("a", "b", "c"))
    surrogate = build_classifier("resnet_small", 3, protocol=protocol, pretrained=False, seed=0)
    records = train_classifier(surrogate, reconstructions, recipe, seed=0, evaluate=reconstructions)
    assert records[-1].test_acc == 1.0 and records[-1].loss < records[0].loss


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
