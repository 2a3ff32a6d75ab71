"""Networks that learn a target's answers: LOMMA's students against the official code, surrogates by what they learn
from and weigh; a killed training ends as one that was not."""

import pytest
import torch

from smoothsweep.core.attacks.distillation import (
    answer_weights,
    distil,
    distillation_loss,
    fresh_state,
    make_students,
    make_surrogates,
)
from smoothsweep.core.attacks.shared.base import AttackInputs
from smoothsweep.core.attacks.surrogates import make_answered_labels, make_answered_scores, make_pictures
from smoothsweep.core.attacks.training_settings import Distillation, SurrogateTraining
from smoothsweep.core.errors import InputError
from smoothsweep.sweeps.expand import check
from tests.core.attacks.looking import Kept, same_networks, seen
from tests.core.attacks.test_lowres import parts_of
from tests.lowres import blocky, golden, pooled
from tests.tiny import tiny_sweep

SIDE, CLASSES, COUNT = 32, 4, 48
SHORT = {"architectures": ["resnet_small", "vgg_small"], "pretrained": False, "epochs": 2, "batch_size": 16}
SETTINGS = {**SHORT, "lr": 0.05, "learns": "labels"}


class Linear(torch.nn.Module):
    """The stand-in student: target 1 with weights to be learnt."""

    def __init__(self):
        super().__init__()
        self.A = torch.nn.Parameter(golden("si_T1_A").clone())
        self.B = torch.nn.Parameter(golden("si_T1_B").clone())

    def forward(self, images):
        return ((pooled((images + 1) / 2) - 0.5) @ self.A).tanh() @ self.B


def taught(epochs, **changes):
    recipe, rates = Distillation(**changes), []
    state = fresh_state(Linear(), recipe, recipe.settings)

    def loss_at(step):
        images = 2 * blocky(f"lomma_pub/{step % 3}", 4) - 1
        return distillation_loss(state.network(images), parts_of(images)[1], recipe.temperature)

    distil(
        state,
        loss_at,
        steps=3 * epochs,
        lr_at=lambda step: recipe.lr_at(step // 3),
        seed_at=lambda step: step,
        called="it",
        on_step=lambda state: rates.append(state.sgd.param_groups[0]["lr"]),
    )
    return state, rates


def test_distillation_is_the_official_one_and_its_file_20_has_19_epochs():
    state, rates = taught(20)
    torch.testing.assert_close(
        torch.tensor(state.losses, dtype=torch.float64), golden("lomma_kd_loss_t1"), atol=1e-4, rtol=0
    )
    assert rates == golden("lomma_kd_lr").tolist()
    for epochs, name in ((9, "file10"), (19, "file20"), (20, "final")):
        student = taught(epochs)[0].network
        for letter in "AB":
            expected = golden(f"lomma_kd_{letter}_{name}")
            torch.testing.assert_close(getattr(student, letter).detach(), expected, atol=1e-4, rtol=0)
    assert Distillation().steps(30_000, "paper") == 19 * 468 and Distillation().steps(30_000, "clean") == 20 * 468


def test_a_temperature_divides_the_loss():
    state, _ = taught(2, temperature=4.0)
    torch.testing.assert_close(
        torch.tensor(state.losses, dtype=torch.float64), golden("lomma_kd_loss_t4"), atol=1e-5, rtol=0
    )


def test_a_class_without_probability_adds_nothing():
    teacher = torch.tensor([[0.0, -torch.inf, 0.0]])
    loss = distillation_loss(torch.zeros(1, 3), teacher)
    assert loss.item() == pytest.approx(torch.tensor(1.5).log().item())


class Brightness(torch.nn.Module):
    """Says class 0, 1 or 2 by how bright an image is; never 3."""

    def forward(self, images):
        bright = images.flatten(1).mean(1, keepdim=True)
        return torch.cat([-9 * bright, 2 - 30 * bright.abs(), 9 * bright, torch.full_like(bright, -9)], 1)


def look(access):
    network = Brightness() if access != "none" else None
    return seen(network, access, classes=CLASSES if access != "none" else 0, side=SIDE)


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


def students(context):
    public = torch.randint(0, 256, (64, 3, SIDE, SIDE), dtype=torch.uint8, generator=torch.Generator().manual_seed(2))
    return make_students(SHORT, AttackInputs(protocol="clean", public=public), look("scores"), context)


@pytest.mark.parametrize(
    ("made", "dies_at", "losses"), [("surrogates", 3, 6), ("surrogates", 8, 6), ("students", 11, 8)]
)
def test_a_training_that_died_goes_on_to_the_same_networks(made, dies_at, losses, pictures):
    answered = make_answered_labels({}, inputs(pictures=pictures), look("labels"), None).tensors
    own = inputs(pictures=pictures, answered_labels=answered)
    make = students if made == "students" else (lambda context: make_surrogates(SETTINGS, own, look("none"), context))
    whole, torn = Kept(), Kept(dies_at=dies_at)
    expected = make(whole)
    assert len(whole.states) == 2 * (losses - 1) and expected.tensors["losses"].shape == (2, losses)
    with pytest.raises(KeyboardInterrupt):
        make(torn)
    found = make(Kept(torn.states[-1]))
    assert same_networks(found, expected)
    assert all(torch.equal(found.tensors[name], tensor) for name, tensor in expected.tensors.items())


def test_the_rate_falls_along_a_cosine_and_a_batch_must_be_full():
    recipe = SurrogateTraining(lr=0.2, epochs=10, batch_size=4)
    assert [round(recipe.lr_at(step, 100), 6) for step in (0, 50, 100)] == [0.2, 0.1, 0.0]
    assert recipe.steps(11) == 20
    with pytest.raises(InputError, match=r"attack\.pool\.size: expected at least attack\.surrogates\.batch_size"):
        recipe.steps(3)
