import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.data.augmentation import Augmentation
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.recipe import TrainingRecipe, learning_rate


def scheduled(scheduler_of, recipe):
    """The rates that a torch scheduler, stepped after every epoch, would use."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=recipe.lr)
    scheduler = scheduler_of(optimizer)
    rates = []
    for _ in range(recipe.epochs):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


def test_the_papers_recipe():
    recipe = TrainingRecipe(architecture="resnet152", epochs=100, image_size=224)
    assert (recipe.architecture, recipe.epochs, recipe.batch_size, recipe.image_size) == ("resnet152", 100, 128, 224)
    assert (recipe.optimizer, recipe.lr, recipe.betas, recipe.weight_decay) == ("adam", 1e-3, (0.9, 0.999), 0)
    augmentation = Augmentation(crop_scale=(0.85, 1), brightness=0.2, contrast=0.2, saturation=0.1, hue=0.1, flip=0.5)
    assert recipe.augmentation == augmentation and augmentation.crop_ratio == (1, 1)
    rates = [learning_rate(recipe, e) for e in range(100)]
    assert rates == pytest.approx([1e-3] * 75 + [1e-4] * 15 + [1e-5] * 10)


@settings(max_examples=25, deadline=None)
@given(epochs=st.integers(1, 60), first=st.integers(1, 98), second=st.integers(1, 98))
def test_milestones_agree_with_torch(epochs, first, second):
    marks = tuple(sorted({first / 100, second / 100}))
    recipe = TrainingRecipe(epochs=epochs, lr_milestones=marks)
    whole = sorted(-(-round(mark * 100) * epochs // 100) for mark in marks)  # rounded up, in integers
    expected = scheduled(lambda o: torch.optim.lr_scheduler.MultiStepLR(o, whole, gamma=0.1), recipe)
    assert [learning_rate(recipe, e) for e in range(epochs)] == pytest.approx(expected)


def test_cosine_agrees_with_torch():
    recipe = TrainingRecipe(epochs=12, lr=0.1, lr_schedule="cosine", lr_min=1e-4)
    annealing = torch.optim.lr_scheduler.CosineAnnealingLR
    expected = scheduled(lambda o: annealing(o, T_max=12, eta_min=1e-4), recipe)
    assert [learning_rate(recipe, e) for e in range(12)] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lr": float("nan")}, "training lr"),
        ({"betas": (0.9, 1.0)}, "training betas"),
        ({"momentum": 0.9}, "training momentum: expected 0 with optimizer adam, got 0.9"),
        ({"optimizer": "sgd", "betas": (0.1, 0.1)}, "training betas: expected the default with optimizer sgd"),
        ({"optimizer": "sgd", "momentum": 1.0}, "training momentum"),
        ({"lr_milestones": (0.9, 0.5)}, "training lr_milestones: expected ascending"),
        ({"lr_milestones": (0.5, 1.0)}, "training lr_milestones: expected fractions"),
        ({"lr_milestones": (75, 90)}, r"training lr_milestones: expected a number of at most 1, got 75"),
        ({"lr_min": 1e-4}, "training lr_min: expected 0 with lr_schedule multistep"),
        ({"lr_schedule": "cosine", "lr_min": 1.0}, "training lr_min"),
        ({"lr_schedule": "cosine", "lr_factor": 0.5}, "with lr_schedule cosine"),
    ],
)
def test_settings_without_effect_or_sense_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        TrainingRecipe(**changes)
