"""Adversarial robustness, stability of gradients, people on public images."""

import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from smoothsweep.core.analysis.gradients import follow_gradients
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
from smoothsweep.core.analysis.shown_people import FALSE_ACCEPTS, find_shown_people, people_shown
from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.gradients import Gradients
from smoothsweep.core.judges.robustness import Robustness

CLASSES, SIDE = 10, 16
FAST = Robustness(strong_steps=6, generations=2)


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
    return torch.rand(12, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(1))


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
    for scale in (20, 1e6):
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
    [("fgsm", "eps", 0.01), ("pgd", "step", 0.001), ("bim", "steps", 3), ("auto_pgd", "strong_restarts", 3)],
)
def test_every_setting_reaches_its_attack(name, key, value, pictures):
    """With a tiny reach, so that no attack is done after its first start."""
    model, labels = of_scale(20, pictures[:4])
    base = {"eps": 0.0005, "step": 0.0002, "steps": 2, "strong_steps": 4}
    one, other = (
        perturbed(
            name, model, pictures[:4], labels, targeted=False, settings=Robustness(**settings), classes=CLASSES, seed=1
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


SIZE, CLASSES_GRADIENT_STABILITY = 4, 3
STILL = {"crop_scale": (1.0, 1.0), "truncation_cutoff": None, "steps": 4, "per_class": 3, "lr": 0.1}


class Linear:
    """A prior of images that are the latents themselves: w [N, 1, 48] -> [N, 3, 4, 4]."""

    num_ws, w_dim, z_dim, resolution = 1, 3 * SIZE * SIZE, 3 * SIZE * SIZE, SIZE

    def sample_z(self, n, seed):
        return torch.randn(n, self.z_dim, generator=torch.Generator().manual_seed(seed)).double().numpy()

    def map(self, z, *, psi=1.0, cutoff=None):
        return psi * z[:, None]

    def synthesize(self, w):
        return w[:, 0].reshape(-1, 3, SIZE, SIZE)


class Head(nn.Module):
    """Logits that are linear in the pixels, times a scale: the larger, the sooner the softmax is saturated."""

    def __init__(self, scale):
        super().__init__()
        self.register_buffer(
            "weight", torch.randn(CLASSES_GRADIENT_STABILITY, 48, generator=torch.Generator().manual_seed(5))
        )
        self.scale = scale

    def forward(self, images):
        return self.scale * images.flatten(1) @ self.weight.T


def followed(scale, loss, **changes):
    settings = Gradients(**{**STILL, **changes})
    return settings, follow_gradients(
        Linear(),
        Head(scale),
        1,
        settings,
        loss,
        protocol="clean",
        image_size=SIZE,
        execution=Execution(ExecutionConfig(), "cpu"),
    )


def test_a_saturated_target_shows_as_zero_gradients_of_cross_entropy_but_not_of_poincare():
    _, path = followed(1e4, "cross_entropy", per_class=12, truncation_psi=1.0)
    assert (path["saturated"] == 1).all()
    settled = path["zero"] == 1  # where the class itself has probability 1
    assert settled.any() and not settled.all()
    assert (path["logit_gap"][settled] > 0).all()
    assert path["cosine"][1:][settled[1:]].isnan().all()
    _, other = followed(1e4, "poincare", per_class=12, truncation_psi=1.0)
    assert (other["zero"] == 0).all() and (other["saturated"] == 1).all()


NAMES = ("ann", "ben", "cid", "dora", "eve", "fay")


def photographs(people, each, *, noise=0.6, seed=0):
    """Features [people * each, 64] around a centre for each person, and whose they are."""
    centres = torch.randn(len(NAMES), 64, generator=torch.Generator().manual_seed(9))
    labels = torch.tensor(people).repeat_interleave(each)
    return centres[labels] + noise * torch.randn(len(labels), 64, generator=torch.Generator().manual_seed(seed)), labels


def strangers(count, seed=1):
    return torch.randn(count, 64, generator=torch.Generator().manual_seed(seed))


def shown(public, *, noise=0.6):
    private, labels = photographs(range(6), 10, noise=noise)
    return people_shown(private, labels, public, NAMES, [f"{row}.png" for row in range(len(public))])


def test_the_people_on_public_images_are_named_with_the_images():
    found = shown(torch.cat([strangers(60), photographs([1, 4], 5, seed=3)[0]]))
    assert found.images["ben"] == [f"{i}.png" for i in range(60, 65)]
    assert found.images["eve"] == [f"{i}.png" for i in range(65, 70)]
    assert sum(map(len, found.images.values())) <= 11, "more than one stranger"
    assert (
        found.is_surprising and "ben (60.png" in found.lines("E")[0] and "ben" not in found.lines("E", named=False)[0]
    )


@pytest.mark.parametrize("seed", range(1, 5))
def test_strangers_are_accepted_as_seldom_as_is_said(seed):
    found = shown(strangers(4000, seed))
    accepted = sum(map(len, found.images.values()))
    assert accepted <= 3 * FALSE_ACCEPTS * 4000 and not found.is_surprising and found.recognised > 0.9


def test_an_embedder_that_does_not_tell_the_people_apart_says_nothing():
    found = shown(strangers(50), noise=9.0)
    assert found.recognised < 0.5 and not found.is_surprising and "copies alone" in found.lines("E")[0]


def test_real_faces_in_other_photographs(repository, tmp_path):
    """17 of 77 public images, as in a real case, show six of the private people."""
    shared = repository.parent / "shared" / "data"
    if not (shared / "lfw-faces" / "faces.parquet").is_file():
        pytest.skip("no real faces beside the repository")
    faces = pd.read_parquet(shared / "lfw-faces" / "faces.parquet")
    others = pd.read_parquet(shared / "public-faces" / "faces.parquet").iloc[:60]
    people = [rows for _, rows in faces.groupby("label")][10:16]
    private = pd.concat([rows.iloc[:6] for rows in people])[["image", "label", "identity"]]
    again = pd.concat([rows.iloc[6:9] for rows in people]).iloc[:17][["image"]]
    private.to_parquet(tmp_path / "private.parquet")
    pd.concat([others[["image"]], again]).to_parquet(tmp_path / "public.parquet")
    judge = {"name": "mobilefacenet_a", "weights": str(shared / "weights" / "mobilefacenet_a.safetensors")}
    found = find_shown_people(tmp_path / "private.parquet", tmp_path / "public.parquet", judge)
    rows = {int(name.split()[1]) for images in found.images.values() for name in images}
    assert found.is_surprising and len(rows & set(range(60, 77))) >= 12 and len(rows & set(range(60))) <= 1
