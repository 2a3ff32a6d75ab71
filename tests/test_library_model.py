"""A model that somebody has: what may be said of it, what it must answer, and what an attacker is shown of it."""

import warnings
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch import nn

from smoothsweep.core.attacks.shared.base import ACCESS_LEVELS
from smoothsweep.core.defenses.registry import make_defense
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.orchestrator.planning.trial import inversion_stages
from smoothsweep.sweeps.expand import check
from smoothsweep.tasks.attack import OpenTarget
from smoothsweep.tasks.manifests import config_of
from smoothsweep.workbench import Model, workbench

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


def test_a_program_of_torchscript_is_opened_without_a_warning_and_stays_as_it_was(tmp_path, network, images):
    """As it is loaded again: the weights of a copy of it are no leaves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch's own, of a format that is in use
        torch.jit.save(torch.jit.trace(network.eval(), images), tmp_path / "own.pt")
        script = torch.jit.load(tmp_path / "own.pt")
    with opened(model_of(script, input_range=(-1, 1)), images) as (access, target):
        found = target.view("scores").scores(images)
        assert torch.allclose(found, network(images).softmax(1), atol=1e-5) and access == "gradients"
    assert all(weights.requires_grad for weights in script.parameters())


def test_weights_of_another_network_are_refused_by_its_name():
    state = {"state_dict": build_classifier("resnet_small", CLASSES, protocol="clean").state_dict()}
    with pytest.raises(InputError, match=r"^model as resnet18: "):
        model_of(state, architecture="resnet18", image_size=32)


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


class Sided(nn.Module):
    """Takes images of 64 pixels alone."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3 * 64 * 64, CLASSES)

    def forward(self, images):
        return self.layer(images.flatten(1))


def test_a_network_that_takes_no_images_of_the_stated_side_is_refused_in_one_line_with_one_that_it_takes():
    with pytest.raises(InputError, match=r"^model: expected answers to images \[2, 3, 112, 112\], got: ") as told:
        refused(Model(Sided(), image_size=112, input_range=(0, 1)), torch.zeros(3, 3, 112, 112))
    line = str(told.value)
    assert line.endswith("; it takes images of 64 pixels: use image_size=64") and "\n" not in line


def test_a_function_that_fails_is_one_line_and_is_not_asked_again(network):
    asked = []

    def function(images):
        asked.append(images.shape)
        raise RuntimeError("no such\nserver")

    with pytest.raises(InputError, match=r"^model: expected answers to images \[2, 3, 16, 16\], got: no such server$"):
        refused(model_of(function), torch.zeros(3, 3, SIDE, SIDE))
    assert len(asked) == 1
