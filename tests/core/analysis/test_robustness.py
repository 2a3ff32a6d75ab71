"""Attacks on pixels: what each changes, that ART's are the textbook's, and what saturation hides."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from smoothsweep.core.analysis.robustness import (
    UnitRangeClassifier,
    chosen_images,
    measure_robustness,
    one_pixel,
    other_classes,
    perturbed,
    predictions,
    zero_gradients,
)
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.robustness import Robustness

CLASSES, SIDE = 10, 16
FAST = Robustness(strong_steps=6)


class Scaled(nn.Module):
    """A fixed random network whose logits are multiplied: the decisions stay, the softmax saturates."""

    def __init__(self, scale):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.body = nn.Sequential(
                nn.Conv2d(3, 8, 3, 2, 1),
                nn.ReLU(),
                nn.Conv2d(8, 16, 3, 2, 1),
                nn.ReLU(),
                nn.Flatten(),
                nn.Linear(16 * (SIDE // 4) ** 2, CLASSES),
            )
        self.scale = scale

    def forward(self, images):
        return self.scale * self.body(images)


@pytest.fixture(scope="module")
def pictures():
    return torch.rand(24, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(1))


def of_scale(scale, pictures):
    model = UnitRangeClassifier(Scaled(scale)).eval().requires_grad_(False)
    return model, predictions(model, pictures, "cpu")


def success(name, model, pictures, labels):
    changed = perturbed(name, model, pictures, labels, targeted=False, settings=FAST, classes=CLASSES, seed=0)
    assert (changed - pictures).abs().max() <= FAST.eps + 1e-6 and 0 <= changed.min() <= changed.max() <= 1
    return (predictions(model, changed, "cpu") != labels).double().mean().item()


def test_saturation_hides_from_cross_entropy_and_not_from_the_margin(pictures):
    """Section C.8's trap: the same decisions, logits ever further apart. Labels are the model's own answers, so every
    picture is answered correctly before."""
    rates = {}
    for scale in (20, 1e3, 1e5, 1e6):
        model, labels = of_scale(scale, pictures)
        zero = zero_gradients(model, pictures, labels, "cpu").double().mean().item()
        rates[scale] = (
            zero,
            *(success(name, model, pictures, labels) for name in ("fgsm", "bim", "pgd", "margin_pgd", "auto_pgd")),
        )
    assert rates[20] == (0, 1, 1, 1, 1, 1)
    zero, fgsm, bim, pgd, margin, auto = rates[1e6]
    assert zero > 0.9 and max(fgsm, bim, pgd) < 0.2 and margin == auto == 1


@pytest.mark.parametrize("targeted", [False, True])
def test_bim_is_the_loop_of_its_definition(pictures, targeted):
    model, labels = of_scale(20, pictures)
    goal = other_classes(labels, CLASSES, 0) if targeted else labels
    changed = perturbed("bim", model, pictures, goal, targeted=targeted, settings=FAST, classes=CLASSES, seed=0)
    mine = pictures.clone()
    for _ in range(10):
        mine.requires_grad_(True)
        (gradient,) = torch.autograd.grad(F.cross_entropy(model(mine), goal), mine)
        step = mine.detach() + (-1 if targeted else 1) * (2 / 255) * gradient.sign()
        mine = pictures + (step.clamp(0, 1) - pictures).clamp(-8 / 255, 8 / 255)
    assert (changed - mine).abs().max() < 1e-5


class Spot(nn.Module):
    """Class 1 as soon as one pixel is redder than .9, class 2 as soon as one is bluer, else class 0."""

    def forward(self, images):
        red, blue = ((images + 1)[:, channel].flatten(1).amax(1) / 2 for channel in (0, 2))
        return torch.stack([torch.full_like(red, 0.9), red, blue], 1) * 30


@pytest.mark.parametrize(("targeted", "label"), [(False, 0), (True, 1), (True, 2)])
def test_one_pixel_changes_one_pixel_and_asks_no_more_than_the_papers_attack(targeted, label):
    model, picture = UnitRangeClassifier(Spot()), torch.full((3, 9, 12), 0.5)
    reached = 0
    for seed in range(8):
        arguments = {"targeted": targeted, "generations": 10, "population": 10, "seed": seed}
        changed, shown = one_pixel(model, picture, label, **arguments)
        again, _ = one_pixel(model, picture, label, **arguments)
        assert torch.equal(changed, again) and shown <= 110
        assert (changed != picture).any(0).sum() <= 1 and 0 <= changed.min() <= changed.max() <= 1
        answer = predictions(model, changed[None], "cpu").item()
        reached += answer == label if targeted else answer != label
    assert reached >= 6


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("fgsm", "eps", 0.01),
        ("pgd", "step", 0.001),
        ("bim", "steps", 3),
        ("auto_pgd", "strong_restarts", 3),
    ],
)
def test_every_setting_reaches_its_attack(name, key, value, pictures):
    """With a tiny reach, so that no attack is done after its first start."""
    model, labels = of_scale(20, pictures[:4])
    base = {"eps": 0.0005, "step": 0.0002, "steps": 2, "strong_steps": 4}
    one, other = (
        perturbed(
            name,
            model,
            pictures[:4],
            labels,
            targeted=False,
            settings=Robustness(**settings),
            classes=CLASSES,
            seed=1,
        )
        for settings in (base, {**base, key: value})
    )
    assert not torch.equal(one, other)


def test_the_report_counts_over_all_pictures_and_over_those_answered_correctly(pictures):
    """With wrong labels on a quarter of the pictures, those count as successes of every untargeted attack."""
    classifier = Scaled(20).eval().requires_grad_(False)
    few = pictures[:8]
    _, labels = of_scale(20, few)
    wrong = labels.clone()
    wrong[:2] = (wrong[:2] + 1) % CLASSES
    tiny = Robustness(eps=1e-6, step=1e-6, steps=1, generations=1, strong_steps=1)
    report = measure_robustness(classifier, few, wrong, classes=CLASSES, settings=tiny)
    found = report.metrics()
    assert found["fgsm_untargeted"] == found["auto_pgd_untargeted"] == 0.25
    assert found["fgsm_untargeted_correct"] == found["auto_pgd_untargeted_correct"] == 0.0
    assert found["robust_acc"] <= 0.75 and found["zero_gradients"] == 0
    assert found["bim_targeted"] == (report.clean == report.targets).double().mean()
    strong = measure_robustness(classifier, few, labels, classes=CLASSES, settings=FAST).metrics()
    assert strong["robust_acc"] == 0 and strong["fgsm_untargeted"] == 1 and len(strong) == 22


def test_what_cannot_be_measured_is_said():
    settings = Robustness(images=5, seed=1)
    assert len(chosen_images(9, settings)) == 5 and chosen_images(9, settings).tolist() == sorted(
        chosen_images(9, settings).tolist()
    )
    with pytest.raises(InputError, match="expected at most the 4 test images, got 5"):
        chosen_images(4, settings)
    with pytest.raises(InputError, match="at least 3 classes"):
        measure_robustness(nn.Identity(), torch.rand(2, 3, 4, 4), torch.zeros(2).long(), classes=2, settings=FAST)
