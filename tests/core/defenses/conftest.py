from types import SimpleNamespace

import pytest
import torch

from smoothsweep.core.defenses.base import SmoothedLoss, Step
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.models.recipe import TrainingRecipe


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def colours(classes=4, per_class=12, size=32, seed=0):
    """Noisy plain colours in [-1, 1] and their labels."""
    palette = torch.tensor([[0.7, -0.6, -0.6], [-0.6, 0.7, -0.6], [-0.6, -0.6, 0.7], [0.5, 0.5, -0.7]])[:classes]
    labels = torch.arange(classes).repeat_interleave(per_class)
    noise = 0.3 * torch.randn(len(labels), 3, size, size, generator=generator(seed))
    return (palette[labels][:, :, None, None] + noise).clamp(-1, 1), labels


def prepared(defense, architecture="resnet_small", classes=4, seed=0):
    """A new classifier, changed by the defense, in training mode."""
    model = build_classifier(architecture, classes, seed=seed, protocol="clean")
    defense.prepare(model, generator=generator(seed))
    return model.train()


def companion(defense, model, size=32, lr=1e-3, seed=0):
    """What the defense trains beside a network of images of this size."""
    recipe = TrainingRecipe(architecture=model.architecture, image_size=size, lr=lr)
    return defense.companion(model, recipe, generator=generator(seed))


def take_step(defense, model, images, labels, *, alpha=0.0, epoch=0, epochs=10, seed=0, forward=None, beside=None):
    """The loss of one step, the batch altered first, as the training loop does it. beside: else a new companion."""
    draw = generator(seed)
    beside = beside if beside is not None else companion(defense, model, images.shape[-1])
    images, labels = defense.alter_batch(images, labels, draw)
    criterion = SmoothedLoss(alpha=alpha)
    step = Step(
        model=model,
        forward=forward or model,
        images=images,
        labels=labels,
        criterion=criterion,
        epoch=epoch,
        epochs=epochs,
        generator=draw,
        batch_size=16,
        companion=beside,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return defense.loss(step)


@pytest.fixture
def tools():
    """The helpers above, as one object."""
    helpers = (generator, colours, prepared, companion, take_step)
    return SimpleNamespace(**{helper.__name__: helper for helper in helpers})
