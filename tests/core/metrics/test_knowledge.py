from dataclasses import replace

import pytest
import torch

from core.data.augmentation import Augmentation
from core.data.images import ImageSet
from core.errors import InputError
from core.metrics.knowledge import (
    KNOWLEDGE_RECIPES,
    KnowledgeRecipe,
    score_surrogate,
    surrogate_options,
    training_recipe,
)
from core.models.classifiers import build_classifier
from core.models.recipe import TrainingRecipe, learning_rate
from core.training.classifier import train_classifier


def test_both_protocols_share_the_published_training():
    paper, clean = KNOWLEDGE_RECIPES["paper"], KNOWLEDGE_RECIPES["clean"]
    assert replace(paper, protocol="clean", shared_draws=False, keep_fitting_head=False) == clean
    assert (clean.architecture, clean.epochs, clean.batch_size) == ("resnet50", 75, 32)
    assert (clean.lr, clean.momentum, clean.weight_decay, clean.lr_min) == (0.1, 0.9, 1e-4, 1e-4)
    assert (clean.crop_scale, clean.flip) == ((0.8, 1.0), 0.5)


@pytest.mark.parametrize("protocol", ["paper", "clean"])
def test_the_surrogates_training_is_the_published_one(protocol):
    settings = training_recipe(KNOWLEDGE_RECIPES[protocol])
    published = TrainingRecipe(
        architecture="resnet50", epochs=75, batch_size=32, optimizer="sgd", lr=0.1, momentum=0.9, weight_decay=1e-4,
        lr_schedule="cosine", lr_min=1e-4, image_size=224,
        augmentation=Augmentation(
            crop_scale=(0.8, 1.0), crop_ratio=(1.0, 1.0), brightness=0, contrast=0, saturation=0, hue=0, flip=0.5,
            shared=protocol == "paper",
        ),
    )  # fmt: skip
    assert settings == published and settings.precision == "fp32"
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    annealing = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=75, eta_min=1e-4)
    for epoch in range(75):
        assert learning_rate(settings, epoch) == pytest.approx(optimizer.param_groups[0]["lr"])
        optimizer.step()
        annealing.step()
    options = surrogate_options(KNOWLEDGE_RECIPES[protocol])
    assert options == {"architecture": "resnet50", "pretrained": True, "protocol": protocol}
    assert training_recipe(KnowledgeRecipe(epochs=3, protocol="clean"), image_size=64).image_size == 64


@pytest.mark.parametrize("protocol", ["paper", "clean"])
def test_a_surrogate_learns_from_unclipped_loot_of_half_precision(protocol):
    recipe = replace(
        KNOWLEDGE_RECIPES[protocol], architecture="resnet_small", pretrained=False, epochs=4, batch_size=8, lr=0.02
    )
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(3).repeat_interleave(16)
    images = 3 * torch.eye(3)[labels][:, :, None, None] - 1.5 + torch.randn(48, 3, 40, 40, generator=generator)
    loot = ImageSet(images=images.half(), labels=labels, names=("a", "b", "c"))
    surrogate = build_classifier(num_classes=3, seed=0, **surrogate_options(recipe))
    records = train_classifier(surrogate, loot, training_recipe(recipe, image_size=32), seed=0, evaluate=loot)
    assert records[-1].test_acc == 1.0 and records[-1].loss < records[0].loss


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
        KnowledgeRecipe(**{"protocol": "clean", **wrong})


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
