"""Surrogates: what they learn from, what they weigh, and that a killed training ends as one that was not."""

import copy

import pytest
import torch

from smoothsweep.core.attacks.registry import make_attack
from smoothsweep.core.attacks.shared.base import AttackInputs
from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.attacks.shared.view import view_of
from smoothsweep.core.attacks.surrogate.config import SurrogateTraining
from smoothsweep.core.attacks.surrogate.parts import (
    make_answered_labels,
    make_answered_scores,
    make_pictures,
    make_surrogates,
)
from smoothsweep.core.attacks.surrogate.training import answer_weights
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.errors import InputError
from smoothsweep.sweeps.loaded import check
from tests.tiny import tiny_sweep

SIDE, CLASSES, COUNT = 32, 4, 48
SETTINGS = {
    "architectures": ["resnet_small", "vgg_small"],
    "pretrained": False,
    "epochs": 2,
    "batch_size": 16,
    "lr": 0.05,
    "learns": "labels",
}


class Brightness(torch.nn.Module):
    """Says class 0, 1 or 2 by how bright an image is; never 3."""

    def forward(self, images):
        bright = images.flatten(1).mean(1, keepdim=True)
        return torch.cat([-9 * bright, 2 - 30 * bright.abs(), 9 * bright, torch.full_like(bright, -9)], 1)


class Kept:
    """A context that remembers its states, and dies at one of them."""

    def __init__(self, dies_at=None, state=None):
        self.states, self._dies_at, self._state = [], dies_at, state

    def last_state(self):
        return copy.deepcopy(self._state)

    def keep_state(self, state):
        self.states.append(copy.deepcopy(state))
        if len(self.states) == self._dies_at:
            raise KeyboardInterrupt

    def progress(self, fraction, text):
        assert 0 <= fraction <= 1 and text


def look(access):
    network = Brightness() if access != "none" else None
    execution = Execution(ExecutionConfig(), "cpu")
    classes = CLASSES if access != "none" else 0
    return view_of(network, access, num_classes=classes, image_size=SIDE, execution=execution)


@pytest.fixture(scope="module")
def pictures():
    source = torch.Generator().manual_seed(1)
    base = torch.randint(0, 256, (COUNT, 1, 1, 1), generator=source)
    noise = torch.randint(-20, 20, (COUNT, 3, SIDE, SIDE), generator=source)
    return {"images": (base + noise).clamp(0, 255).to(torch.uint8)}


def inputs(**parts):
    return AttackInputs(protocol="clean", parts=parts)


def test_labels_are_asked_once_per_picture_and_a_class_never_answered_is_counted(pictures):
    view = look("labels")
    made = make_answered_labels({}, inputs(pictures=pictures), view, None)
    assert view.queries == COUNT and made.tensors["answers"].shape == (COUNT,)
    assert made.tensors["hits"].sum() == COUNT and made.tensors["hits"][3] == 0
    assert made.facts == {"classes_never_hit": 1.0}
    scores = make_answered_scores({}, inputs(pictures=pictures), look("scores"), None)
    assert torch.equal(scores.tensors["answers"].argmax(1), made.tensors["answers"])
    assert torch.equal(scores.tensors["hits"], made.tensors["hits"])


class Levels:
    """A prior whose images are as bright as their only latent, mapped to psi times its z."""

    z_dim = w_dim = num_ws = 1
    resolution = SIDE

    def sample_z(self, n, seed):
        return (seed + torch.arange(float(n)))[:, None].numpy() / 100

    def map(self, z, *, psi, cutoff):
        assert cutoff == 1
        return psi * z[:, None]

    def synthesize(self, w):
        images = w[:, :, :, None].expand(-1, 3, SIDE, SIDE).clone()
        images[:, :, :2] = images[:, :, -2:] = images[..., :2] = images[..., -2:] = -1  # what a crop leaves out
        return images


def test_the_pictures_are_those_of_the_settings():
    settings = {"size": 5, "seed": 7, "truncation_psi": 2.0, "truncation_cutoff": 1, "crop": SIDE - 4}
    sees = AttackInputs(protocol="clean", parts={}, prior=Levels())
    made = make_pictures(settings, sees, look("none"), None).tensors
    levels = 2 * (7 + torch.arange(5.0)) / 100
    torch.testing.assert_close(made["w"], levels[:, None, None])
    shown = ((levels + 1) / 2 * 255).round().to(torch.uint8)[:, None, None, None]
    assert torch.equal(made["images"], shown.expand(-1, 3, SIDE, SIDE))


def test_a_budget_below_one_query_per_class_is_refused_in_one_line(pictures):
    few = {"images": pictures["images"][:3]}
    with pytest.raises(InputError, match=r"^attack\.pool\.size: expected at least a query for each of the 4 classes"):
        make_answered_labels({}, inputs(pictures=few), look("labels"), None)
    small = {"pool": {"size": 64}, "candidates": 20}
    attack = make_attack("surrogate_labels", **small)
    attack.check_classes(64)
    with pytest.raises(InputError, match=r"^attack\.pool\.size: expected at least a query for each of the 65 classes"):
        attack.check_classes(65)


def test_a_sweep_that_knows_its_classes_refuses_the_budget_before_any_work():
    attack = {
        "kind": "surrogate_labels",
        "pool": {"size": 2},
        "candidates": 2,
        "finalists": 2,
        "selected": 2,
        "surrogates": {"batch_size": 2, "architectures": ["vgg_small"], "pretrained": False},
    }
    with pytest.raises(InputError, match=r"attack\.pool\.size: expected at least a query for each of the \d+ cl"):
        check(tiny_sweep(attack=attack, grid={}, baseline={}), "sweep")


def test_rare_answers_weigh_more_by_a_formula():
    """SMILE's weights at 0, 1 and 9 others of a class, by their proportions."""
    answers = torch.eye(3)[torch.tensor([0] * 9 + [1])]
    weights = answer_weights(answers, 0.9)
    assert weights.mean().item() == pytest.approx(1)
    assert (weights[0] / weights[-1]).item() == pytest.approx(0.1535 / 0.5263, rel=1e-3)
    assert torch.equal(answer_weights(answers, 0.0), torch.ones(10))


def test_surrogates_learn_what_the_target_answered_and_are_shown_nothing_of_it(pictures):
    answered = make_answered_labels({}, inputs(pictures=pictures), look("labels"), None).tensors
    view, settings = look("none"), {**SETTINGS, "architectures": ["resnet_small"], "epochs": 8}
    made = make_surrogates(settings, inputs(pictures=pictures, answered_labels=answered), view, Kept())
    assert made.facts["agreement"] >= 0.8 and view.queries == 0
    assert made.tensors["losses"].shape == (1, 24) and made.tensors["confidences"].shape == (COUNT, CLASSES)
    torch.testing.assert_close(made.tensors["confidences"].sum(1), torch.ones(COUNT))
    flipped = {**answered, "answers": 2 - answered["answers"].clamp(max=2)}
    other = make_surrogates(settings, inputs(pictures=pictures, answered_labels=flipped), view, Kept())
    learnt = other.tensors["confidences"].argmax(1) == flipped["answers"]
    assert learnt.float().mean() >= 0.8  # what was answered, whatever the picture


@pytest.mark.parametrize("dies_at", [3, 8])
def test_a_training_that_died_goes_on_to_the_same_networks(pictures, dies_at):
    answered = make_answered_labels({}, inputs(pictures=pictures), look("labels"), None).tensors
    own, whole = inputs(pictures=pictures, answered_labels=answered), Kept()
    expected = make_surrogates(SETTINGS, own, look("none"), whole)
    assert len(whole.states) == 2 * 5
    torn = Kept(dies_at=dies_at)
    with pytest.raises(KeyboardInterrupt):
        make_surrogates(SETTINGS, own, look("none"), torn)
    found = make_surrogates(SETTINGS, own, look("none"), Kept(state=torn.states[-1]))
    for name, tensor in expected.tensors.items():
        assert torch.equal(found.tensors[name], tensor), name
    for name, network in expected.networks.items():
        for key, value in network.state_dict().items():
            assert torch.equal(found.networks[name].state_dict()[key], value), key


def test_the_rate_falls_along_a_cosine_and_a_batch_must_be_full():
    recipe = SurrogateTraining(lr=0.2, epochs=10, batch_size=4)
    assert [round(recipe.lr_at(step, 100), 6) for step in (0, 50, 100)] == [0.2, 0.1, 0.0]
    assert recipe.steps(11) == 20
    with pytest.raises(InputError, match=r"attack\.pool\.size: expected at least attack\.surrogates\.batch_size"):
        recipe.steps(3)
