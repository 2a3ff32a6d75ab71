"""The library: a model that somebody has, and what an attacker is shown of it; membership; audits beside each other."""

from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import smoothsweep
from smoothsweep.core.attacks.shared.base import ACCESS_LEVELS
from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.data.synthetic.faces import synthetic_faces
from smoothsweep.core.defenses.registry import make_defense
from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.comparisons import compare_recipes
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.library import QUERIES_PER_IMAGE
from smoothsweep.orchestrator.planning.trial import inversion_stages
from smoothsweep.orchestrator.result.audit import Audit as AuditResult
from smoothsweep.results import Audit, Judge
from smoothsweep.sweeps.expand import check
from smoothsweep.tasks.attack import OpenTarget
from smoothsweep.tasks.files import config_of
from smoothsweep.workbench import PROBE_IMAGES, Model, workbench

SIDE, CLASSES = 16, 5


class Flat(nn.Module):
    """One layer, and dropout that evaluation mode switches off."""

    def __init__(self):
        super().__init__()
        self.layer, self.drop = nn.Linear(3 * SIDE * SIDE, CLASSES), nn.Dropout(0.5)

    def forward(self, images):
        return self.drop(self.layer(images.flatten(1)))


@pytest.fixture
def network():
    return Flat()


@pytest.fixture
def images():
    return torch.rand(3, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0)) * 2 - 1


def model_of(classifier, **said):
    return Model(classifier, **{"image_size": SIDE, "input_range": (0, 1), **said})


@contextmanager
def opened(model, images):
    """What attacks get of the model: its access, and a view of each level."""
    with (
        workbench("cpu", progress=False) as bench,
        model.bring_in(bench.folder / "model", images, device="cpu") as card,
    ):
        data = {"kind": "synthetic", "identities": card.num_classes, "size": 16, "train_per_class": 1}
        tree = {"name": "x", "seeds": [1], "data": data, "recipe": {"imported": str(bench.folder / "model")}}
        stage = inversion_stages(check({**tree, "attack": None, "judges": {}}, "x"), 1).target
        bench.adopt(stage)
        config = config_of(bench.store.path(stage))
        yield card.access, OpenTarget(bench.store.path(stage), config, "cpu")


def test_a_network_is_shown_pictures_in_its_range_and_stays_as_it_was(network, images):
    network.train()
    unit = (images + 1) / 2
    expected = network.layer(unit.flatten(1)).softmax(1)
    with opened(model_of(network), images) as (_, target):
        assert torch.allclose(target.view("scores").scores(images), expected, atol=1e-6)
    mean, std = (0.5, 0.4, 0.3), (0.2, 0.3, 0.4)
    normalised = (unit - torch.tensor(mean)[:, None, None]) / torch.tensor(std)[:, None, None]
    with opened(model_of(network, input_range=None, mean=mean, std=std), images) as (_, target):
        expected = network.layer(normalised.flatten(1)).softmax(1)
        assert torch.allclose(target.view("scores").scores(images), expected, atol=1e-5)
    assert network.training and all(weight.requires_grad for weight in network.parameters())


ANSWERED = {
    "logits": (lambda logits: logits, "gradients"),
    "probabilities": (lambda logits: logits.softmax(1), "gradients"),
    "labels": (lambda logits: logits.argmax(1), "labels"),
}


@pytest.mark.parametrize("answers", list(ANSWERED))
@pytest.mark.parametrize("form", ["tensor", "array"])
def test_a_function_gives_what_its_answers_can_give_and_no_more(answers, form, network, images):
    shape, highest = ANSWERED[answers]

    def function(shown):
        found = shape(network.eval()(shown))
        return found if form == "tensor" else found.detach().numpy()

    with opened(model_of(function, answers=answers, num_classes=CLASSES), images) as (access, target):
        assert access == ("scores" if form == "array" and highest == "gradients" else highest)
        view = target.view(access)
        expected = network.layer(((images + 1) / 2).flatten(1))
        assert torch.equal(view.labels(images), expected.argmax(1)) and view.queries == len(images)
        if access != "labels":
            assert torch.allclose(view.scores(images), expected.softmax(1), atol=1e-5)
        if access == "gradients":
            shown = images.clone().requires_grad_(True)
            (found,) = torch.autograd.grad(view.logits(shown).log_softmax(1)[:, 2].sum(), shown)
            again = images.clone().requires_grad_(True)
            loss = network.layer(((again + 1) / 2).flatten(1)).log_softmax(1)[:, 2].sum()
            assert torch.allclose(found, torch.autograd.grad(loss, again)[0], atol=1e-5)
        for level in ACCESS_LEVELS[ACCESS_LEVELS.index(access) + 1 :]:
            with pytest.raises(InputError):
                target.view(level)


def test_a_defense_that_alters_answers_leaves_an_attacker_no_more_than_it_shows(images):
    defended = build_classifier("resnet_small", CLASSES, protocol="clean", seed=0)
    make_defense("ssd", eps=1.0).prepare(defended, generator=torch.Generator().manual_seed(0))
    shown = torch.rand(2, 3, 32, 32) * 2 - 1
    with opened(model_of(defended, image_size=32), shown) as (access, _):
        assert access == "scores"
    with pytest.raises(InputError, match="at most scores, since its defense leaves no more, got gradients"):
        refused(model_of(defended, image_size=32, access="gradients"), shown)


def refused(model, images):
    with opened(model, images):
        raise AssertionError("it was opened")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"input_range": None}, "either input_range, or mean and std, got nothing"),
        ({"mean": (0, 0, 0), "std": (1, 1, 1)}, "got input_range and mean and std"),
        ({"input_range": None, "mean": (0, 0, 0)}, "got mean"),
        ({"input_range": (1, 0)}, "the lower one first"),
        ({"input_range": (1,)}, "black and white"),
        ({"image_size": 0}, "image_size: expected a whole number"),
        ({"answers": "words"}, "answers: expected one of"),
        ({"answers": "labels"}, "num_classes: expected how many"),
        ({"num_classes": 1}, "num_classes: expected a whole number of at least 2"),
        ({"access": "none"}, "access: expected one of labels, scores, gradients"),
    ],
)
def test_what_is_said_of_a_model_must_be_possible(said, words, network):
    with pytest.raises(InputError, match=words) as caught:
        model_of(network, **said)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "said", "words"),
    [
        (lambda n: torch.zeros(n, 2, 2), {}, r"logits of shape \[2, C\], got \[2, 2, 2\]"),
        (lambda n: torch.zeros(n, CLASSES), {"num_classes": 7}, r"logits of shape \[2, 7\], got \[2, 5\]"),
        (lambda n: torch.zeros(n, dtype=torch.int64), {}, r"logits of shape \[2, C\], got \[2\]"),
        (lambda n: torch.full((n, CLASSES), torch.nan), {}, "finite logits, got NaN"),
        (lambda n: torch.full((n, CLASSES), 1.0), {"answers": "probabilities"}, "say that the answers are logits"),
        (
            lambda n: torch.full((n,), 9),
            {"answers": "labels", "num_classes": CLASSES},
            "labels, whole numbers from 0 to 4, got 9 to 9",
        ),
        (lambda n: torch.full((n,), 0.5), {"answers": "labels", "num_classes": CLASSES}, "whole numbers"),
        (lambda n: [0] * n, {}, "as one tensor or an array of numbers, got list"),
        (lambda n: np.array(["a"] * n), {}, "as one tensor or an array of numbers, got ndarray"),
    ],
)
def test_an_answer_that_is_not_what_was_said_is_one_line(answer, said, words, images):
    with pytest.raises(InputError, match=words) as caught:
        refused(model_of(lambda shown: answer(len(shown)), **said), images)
    assert "\n" not in str(caught.value)


PEOPLE, EACH = 10, 24


@pytest.fixture(scope="module")
def split():
    """Training and held-out images of the same people."""
    faces = synthetic_faces(identities=PEOPLE, per_identity=EACH, size=32, spread=0.4, seed=5, population="private")
    inside = torch.arange(len(faces)) % 2 == 0
    return faces.subset(inside), faces.subset(~inside)


def remembering(seen: ImageSet, strength):
    """Sure of images that it knows, unsure of others, and right of either."""
    known = {image.numpy().tobytes(): int(label) for image, label in zip(seen.images, seen.labels, strict=True)}
    asked = []

    def answer(images):
        asked.append(len(images))
        logits = torch.randn(len(images), PEOPLE, generator=torch.Generator().manual_seed(len(asked)))
        for row, image in enumerate((images * 255).round().to(torch.uint8)):
            label = known.get(image.numpy().tobytes())
            if label is not None:
                logits[row, label] += strength
        return logits

    return answer, asked


def face_model(answer):
    return smoothsweep.Model(answer, image_size=32, input_range=(0, 1), num_classes=PEOPLE)


@pytest.mark.parametrize("strength", [12.0, 0.0])
def test_what_a_model_remembers_is_told_by_thresholds_and_shadow_models_which_ask_it_nothing(split, strength):
    answer, asked = remembering(split[0], strength)
    small = {"architecture": "resnet_small", "epochs": 1}
    found = smoothsweep.membership(face_model(answer), *split, shadows=4, shadow_recipe=small, progress=False)
    opening = 2 * PROBE_IMAGES
    assert found.queries == 240 * QUERIES_PER_IMAGE == sum(asked) - opening
    assert found.holds and found.members == found.others == 120 and found.copies == 0
    margin, by_shadows = found.attacks.set_index("attack").loc["margin"], found.by_shadows.set_index("attack")
    assert 0 < by_shadows["shadow_models"].sum() < len(by_shadows)
    said = str(found).replace("\u00a0", " ")
    assert "4 models" in said and ("AUC of 1.00" in said) == (strength > 0)
    if strength:
        assert margin["auc"] > 0.95 and by_shadows.loc["rmia", "auc_within"] > 0.9
    else:
        assert margin["low"] <= 0.5 <= margin["high"] and by_shadows.loc["rmia", "low"] <= 0.6


def test_a_budget_is_kept_and_labels_alone_are_enough(split):
    answer, asked = remembering(split[0], 12.0)
    labels = smoothsweep.Model(
        lambda images: answer(images).argmax(1), image_size=32, input_range=(0, 1), num_classes=PEOPLE, answers="labels"
    )
    found = smoothsweep.membership(labels, *split, budget=50 * QUERIES_PER_IMAGE)
    assert (
        sum(asked) <= 50 * QUERIES_PER_IMAGE + 5 and set(found.attacks["access"]) == {"labels"} and found.members == 25
    )
    line = "^budget: expected at least 28 pictures, for one image of each kind, got 10$"
    with pytest.raises(smoothsweep.InputError, match=line):
        smoothsweep.membership(labels, *split, budget=10)


def test_copies_are_counted_and_left_out_of_every_number(split):
    """Three of the held-out images are training images of the same person, one of another person."""
    inside, outside = split
    taken = [int((inside.labels == label).nonzero()[0]) for label in (0, 1, 2, 3)]
    places = [int((outside.labels == label).nonzero()[0]) for label in (0, 1, 2, 4)]
    images = outside.images.clone()
    images[places] = inside.images[taken]
    answer, asked = remembering(inside, 12.0)
    found = smoothsweep.membership(
        face_model(answer), inside, ImageSet(images=images, labels=outside.labels, names=outside.names)
    )
    assert (found.copies, found.members, found.others) == (3, 120, 117)
    assert found.queries == 237 * QUERIES_PER_IMAGE + 3 * 2 == sum(asked) - 2 * PROBE_IMAGES, (
        "scores are asked of copies, too"
    )


COMPARED, SEEDS = (0, 1, 4, 5, 7, 9), (1, 2, 3)
JUDGE = Judge(metric="embedder_acc1", names=tuple("abcdefghij"), sensitivity=0.9, logits=lambda images: images)


def audit(mean, *, seed, by=JUDGE, seeds=SEEDS, classes=COMPARED, attacks=("ppa", "ppa logit", "random_latents")):
    shares = np.clip(mean + 0.1 * np.random.default_rng(seed).normal(size=(len(seeds), len(classes))), 0, 1)
    weaker = {one: np.clip(shares - 0.05 * at, 0, 1) for at, one in enumerate(attacks) if one != "random_latents"}
    return made_audit(weaker, by=by, seeds=seeds, classes=classes, attacks=attacks, test_acc=0.8 + seed / 100)


def made_audit(shares, *, by, seeds, classes, attacks, test_acc, published=()):
    """An audit with these shares of hits, the strongest attack first."""
    known = {"access": "gradients", "low": 0.0, "high": 1.0, "seeds": len(seeds), "queries": None, "seconds": 0.0}
    leaks = {name: float(shares[name].mean()) if name in shares else 0.0 for name in attacks}
    reached = [{"attack": name, "control": name not in shares, "leak": leak, **known} for name, leak in leaks.items()]
    people = dict.fromkeys(("share", "rate", "low", "high", "among_top", "control", "verified"), 0.0)
    result = AuditResult(
        classes=len(by.names),
        judge=by.metric,
        ceiling=by.sensitivity,
        reached=tuple(reached),
        people=tuple({"name": str(label), "label": label, **people} for label in classes),
        test_acc=test_acc,
        chance=1 / len(by.names),
        can_tell=by.sensitivity > 2 / len(by.names),
    )
    names = {name: name for name in attacks}
    return Audit(
        result=result, reconstructions=None, by=by, names=names, shares=shares, seeds=seeds, published=published
    )


def test_each_model_stands_beside_the_first():
    audits = {"mine": audit(0.7, seed=1), "plain": audit(0.72, seed=2), "hidden": audit(0.2, seed=3)}
    table = smoothsweep.compare(audits)
    assert list(table["model"]) == list(audits) and list(table["test_acc"]) == pytest.approx([0.81, 0.82, 0.83])
    leaks = [one.shares["ppa"].mean() for one in audits.values()]
    assert list(table["leak"]) == leaks and np.isnan(table["reduction"][0])
    assert list(table["reduction"][1:]) == pytest.approx([leaks[0] - leak for leak in leaks[1:]])
    assert list(table["verdict"]) == ["", "inconclusive", "reduces"] and table["seeds_needed"].isna()[2]
    assert table["reduction_high"][2] > table["reduction"][2] > table["reduction_low"][2] > 0
    blind = {name: replace(one, result=replace(one.result, can_tell=False)) for name, one in audits.items()}
    table = smoothsweep.compare(blind)
    assert list(table["verdict"]) == [""] * 3 and table["reduction"].isna().all() and table["leak"].notna().all()


def test_the_intervals_pay_for_models_and_for_the_choice_of_attacks():
    audits = {"mine": audit(0.7, seed=1), "plain": audit(0.72, seed=2), "hidden": audit(0.2, seed=3)}
    both = smoothsweep.compare({name: audits[name] for name in ("mine", "hidden")})
    three = smoothsweep.compare(audits)
    assert len({(table["reduction_high"] - table["reduction_low"]).iloc[-1] for table in (both, three)}) == 2
    pair = compare_recipes({name: audits[name].shares["ppa"] for name in ("mine", "hidden")}).pairs[0]
    low, high = both["reduction_low"][1], both["reduction_high"][1]
    assert low < pair.low and pair.high < high and both["reduction"][1] == pytest.approx(pair.difference)
    swapped = {name: replace(one, shares=dict(reversed(one.shares.items()))) for name, one in audits.items()}
    pd.testing.assert_frame_equal(smoothsweep.compare(swapped), three)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"by": replace(JUDGE)}, "compare: b: expected the judge of the first audit"),
        ({"classes": (0, 1, 4, 5, 7, 8)}, "expected the people of the first audit"),
        ({"seeds": (1, 2, 4)}, r"expected the seeds of the first audit, \[1, 2, 3\], got \[1, 2, 4\]"),
        ({"attacks": ("ppa", "random_latents")}, "expected the attacks of the first audit"),
    ],
)
def test_what_stands_for_something_else_is_not_paired(other, words):
    with pytest.raises(InputError, match=words) as caught:
        smoothsweep.compare({"a": audit(0.5, seed=1), "b": audit(0.5, seed=2, **other)})
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="at least two audits, got 1"):
        smoothsweep.compare({"a": audit(0.5, seed=1)})


def test_access_can_be_less_than_the_answers_give_but_not_more(network, images):
    with opened(model_of(network, access="scores"), images) as (access, target):
        assert access == "scores"
        with pytest.raises(InputError):
            target.view("gradients")
    with pytest.raises(InputError, match="at most scores, since its answers carry no gradients, got gradients"):
        refused(model_of(lambda shown: network(shown).detach(), access="gradients"), images)
    with pytest.raises(InputError, match="at most labels, since its answers are labels, got scores"):
        said = {"answers": "labels", "num_classes": CLASSES, "access": "scores"}
        refused(model_of(lambda shown: network(shown).argmax(1), **said), images)
