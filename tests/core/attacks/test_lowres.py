"""GMI, KED-MI, LOMMA: searches as the official ones; students and surrogates."""

import dataclasses
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from smoothsweep.core.attacks.distillation import (
    answer_weights,
    distil,
    distillation_loss,
    fresh_state,
    make_students,
    make_surrogates,
)
from smoothsweep.core.attacks.lowres import FEATURES, GMI, STUDENTS, LommaGMI
from smoothsweep.core.attacks.lowres_search import (
    Identity,
    Objective,
    distribution,
    feature_pull,
    moments,
    momentum,
    realness,
    sampled,
)
from smoothsweep.core.attacks.shared.base import AttackInputs
from smoothsweep.core.attacks.surrogates import make_answers
from smoothsweep.core.attacks.training_settings import GENERAL, Distillation, SurrogateTraining
from smoothsweep.core.data.images import truncated_bytes
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.sweeps.expand import check
from tests.core.attacks.looking import Kept, Rows, alone_and_beside, same_networks, seen
from tests.lowres import Spied, blocky, check_losses, golden, pooled
from tests.lowres import s as signed
from tests.official_gans import networks_of
from tests.tiny import tiny_sweep

KEPT = (1, 2, 3, 4, 5, 10, 20, 30)
CLASSES, SIDE, Z = 11, 16, 7
PLAIN = GMI(steps=4, lr=0.05, selected=3, reference_batch=2)


def decode(w):
    """Images in [-1, 1] of constant blocks."""
    p = (w[:, 0] @ golden("si_G_A") + golden("si_G_b")).sigmoid()
    return 2 * p.view(-1, 3, 8, 8).repeat_interleave(8, 2).repeat_interleave(8, 3) - 1


def parts_of(images, k=0):
    """Features and logits of stand-in target k."""
    features = ((pooled((images + 1) / 2) - 0.5) @ golden(f"si_T{k}_A")).tanh()
    return features, features @ golden(f"si_T{k}_B")


def logits_of(images):
    return parts_of(images)[1]


TARGET = SimpleNamespace(features=parts_of, logits=logits_of)
"""A view of target 0."""


def critic(images):
    return (((pooled(images) - 0.5) @ golden("si_D_A")).tanh() @ golden("si_D_b")).flatten()


def many_classes(images):
    return realness(((pooled(images) - 0.5) @ golden("si_K_A")).tanh() @ golden("si_K_B"))


def identity(form, weight=1.0):
    students = [lambda images, k=k: parts_of(images, k)[1] for k in (1, 2, 3)]
    raw = form in ("ours", "llogit")
    return Identity(
        view=TARGET,
        students=students if form in ("ours", "laug") else [],
        raw_logit=raw,
        mean=golden("lomma_fea_mean") if raw else None,
        feature_weight=weight,
    )


def objective(labels, *, judge=critic, form="baseline", latent=lambda z, step: z):
    return Spied(
        Objective(
            decoder=decode,
            realness=judge,
            identity=identity(form),
            labels=labels,
            weight=100.0,
            scale=1 / len(labels),
            latent=latent,
        )
    )


def followed(noise, clamp):
    """A latent for each step of a distribution's search, and the leaves that it is drawn from."""
    leaves = []

    def latent(leaf, step):
        if len(leaves) == step:
            leaves.append(leaf.detach().clone())
        return sampled(leaf, noise[step], clamp)

    return latent, leaves


def at(steps, values, kept=KEPT):
    """Of values before each step and after the last, those after the kept steps."""
    return torch.stack([values[step] for step in kept if step <= steps])


def evaluated(z):
    """The stand-in evaluator's logits of the images of z [..., 100], in 8 bits at its own size."""
    pictures = truncated_bytes(decode(z.flatten(0, -2)[:, None]), 112)
    logits = (pooled((pictures + 1) / 2) - 0.5) @ golden("si_E_A") @ golden("si_E_B")
    return logits.unflatten(0, z.shape[:-1])


@pytest.mark.parametrize("restart", range(5))
def test_gmis_search_is_the_official_one(restart):
    z0, labels = golden("gmi_z0")[restart], golden("gmi_iden")
    watched = objective(labels)
    found = momentum(z0, watched, steps=30, lr=0.02, momentum=0.9, clip=1.0)
    last = found.w
    torch.testing.assert_close(last, golden("gmi_z_final")[restart], atol=5e-5, rtol=0)
    check_losses(watched, "gmi", restart)
    total = golden("gmi_total_loss")[restart]
    torch.testing.assert_close(found.loss.mean(1), total, check_dtype=False, atol=2e-3, rtol=0)
    torch.testing.assert_close(
        logits_of(decode(last[:, None])), golden("gmi_final_target_logits")[restart], atol=2e-4, rtol=0
    )
    if restart == 0:
        torch.testing.assert_close(at(30, [*watched.z, last]), golden("gmi_z_seed0"), atol=5e-5, rtol=0)
        gradients = torch.stack([watched.gradient[step - 1] for step in KEPT])
        torch.testing.assert_close(gradients, golden("gmi_g_seed0"), atol=1e-3, rtol=0)
        velocity = torch.stack([watched.velocity()[step - 1] for step in KEPT])
        torch.testing.assert_close(velocity, golden("gmi_v_seed0"), atol=5e-5, rtol=0)


@pytest.mark.parametrize(("judge", "prefix"), [(many_classes, "ked_dist"), (critic, "ked_dist_critic")])
def test_keds_search_is_the_official_one(judge, prefix):
    noise, labels = golden("ked_eps_first30"), golden("ked_iden")
    latent, leaves = followed(noise, None)
    watched = objective(labels, judge=judge, latent=latent)
    start = torch.stack([torch.zeros(5, 100), torch.ones(5, 100)], 1)
    found = distribution(start, watched, steps=30, lr=0.02)
    last = found.w
    states = at(30, [*leaves, last])
    torch.testing.assert_close(states[:, :, 0], golden(f"{prefix}_mu"), atol=2e-5, rtol=0)
    torch.testing.assert_close(states[:, :, 1], golden(f"{prefix}_logvar"), atol=2e-5, rtol=0)
    check_losses(watched, prefix, atol=3e-5)
    if prefix == "ked_dist":
        total = golden("ked_dist_total_loss")
        torch.testing.assert_close(found.loss.mean(1), total, check_dtype=False, atol=2e-3, rtol=0)
        shown = torch.stack([watched.z[step - 1] for step in KEPT])
        torch.testing.assert_close(shown, golden("ked_dist_z_unclamped"), atol=2e-5, rtol=0)
        assert shown.abs().max() > 1
        logits = evaluated(torch.stack([sampled(last, eps, None) for eps in golden("ked_eps_draws")]))
        torch.testing.assert_close(logits, golden("ked_dist_eval_logits"), atol=2e-4, rtol=0)


def test_the_mean_feature_and_the_pull_are_the_official_ones():
    images = torch.cat([blocky(f"lomma_pub/{k}", 4) for k in range(3)])
    mean, std = moments(parts_of(2 * images - 1, 0)[0])
    torch.testing.assert_close(mean, golden("lomma_preg_mean"), atol=1e-6, rtol=0)
    torch.testing.assert_close(std, golden("lomma_preg_std"), atol=1e-6, rtol=0)
    shifted = golden("lomma_preg_mean") + 0.3 * signed("lomma_mean_shift", (16,))
    torch.testing.assert_close(shifted, golden("lomma_fea_mean"), atol=1e-6, rtol=0)
    features = golden("lomma_feat").requires_grad_(True)
    pull = feature_pull(features, golden("lomma_fea_mean")).mean()
    pull.backward()
    torch.testing.assert_close(pull.detach(), golden("lomma_reg_loss"), check_dtype=False, atol=1e-6, rtol=0)
    torch.testing.assert_close(features.grad, golden("lomma_reg_grad"), atol=1e-6, rtol=0)


def test_the_identity_loss_and_its_gradient_at_another_weight_of_the_pull():
    z = golden("lomma_z").requires_grad_(True)
    loss = identity("ours", 0.1)(decode(z[:, None]), golden("lomma_iden")).mean()
    loss.backward()
    torch.testing.assert_close(loss.detach(), golden("lomma_iden_loss_logit_k4_lam01"), atol=1e-5, rtol=0)
    torch.testing.assert_close(z.grad, golden("lomma_iden_grad_z_logit_k4_lam01"), atol=1e-6, rtol=0)


@pytest.mark.parametrize("form", ["ours", "llogit", "laug"])
def test_the_search_on_gmi(form):
    for restart in (0, 1):
        watched = objective(golden("lomma_iden"), form=form)
        found = momentum(golden("lomma_gmi_z0")[restart], watched, steps=30, lr=0.02, momentum=0.9, clip=1.0)
        check_losses(watched, f"lomma_gmi_{form}", restart)
        torch.testing.assert_close(found.w, golden(f"lomma_gmi_{form}_z_final")[restart], atol=5e-5, rtol=0)
        expected = golden(f"lomma_gmi_{form}_total_loss")[restart]
        torch.testing.assert_close(found.loss.mean(1), expected, check_dtype=False, atol=2e-3, rtol=0)
        if form == "ours" and restart == 0:
            states = torch.stack([[*watched.z, found.w][step] for step in KEPT])
            torch.testing.assert_close(states, golden("lomma_gmi_ours_z"), atol=5e-5, rtol=0)
            velocity = torch.stack([watched.velocity()[step - 1] for step in KEPT])
            torch.testing.assert_close(velocity, golden("lomma_gmi_ours_v"), atol=5e-5, rtol=0)


@pytest.mark.parametrize("form", ["ours", "llogit", "laug"])
def test_the_search_on_ked_clamps_within_the_graph(form):
    latent, leaves = followed(golden("lomma_ked_eps"), 1.0)
    start = torch.stack([torch.zeros(5, 100), torch.ones(5, 100)], 1)
    watched = objective(golden("lomma_iden"), judge=many_classes, form=form, latent=latent)
    found = distribution(start, watched, steps=30, lr=0.02)
    check_losses(watched, f"lomma_ked_{form}")
    states = torch.stack([[*leaves, found.w][step] for step in KEPT])
    torch.testing.assert_close(states[:, :, 0], golden(f"lomma_ked_{form}_mu"), atol=2e-5, rtol=0)
    torch.testing.assert_close(states[:, :, 1], golden(f"lomma_ked_{form}_logvar"), atol=2e-5, rtol=0)
    expected = golden(f"lomma_ked_{form}_total_loss")
    torch.testing.assert_close(found.loss.mean(1), expected, check_dtype=False, atol=2e-3, rtol=0)
    if form == "ours":
        clamped = torch.stack([watched.z[step - 1] for step in KEPT])
        torch.testing.assert_close(clamped, golden("lomma_ked_ours_z_clamped"), atol=2e-5, rtol=0)


def seeded(seed):
    return torch.Generator().manual_seed(seed)


class Generator(nn.Module):
    """Pixels that are sums over the latent's numbers, row by row: no kernel knows of another row."""

    config = SimpleNamespace(z_dim=Z)

    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.randn(Z, 3, SIDE, SIDE, generator=seeded(0)))

    def synthesize(self, w):
        return (w[:, 0, :, None, None, None] * self.weight).sum(1).tanh()


class Critic(nn.Module):
    """As the generator."""

    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.randn(3 * SIDE * SIDE, generator=seeded(1)))

    def forward(self, images):
        return (images.contiguous().flatten(1) * self.weight).sum(1)


def rows(**changes):
    """The target that no class shares a kernel's row with."""
    return Rows(CLASSES, SIDE, seed=2, **changes)


GIVEN = AttackInputs(protocol="clean", networks={GENERAL: {"generator": Generator(), "discriminator": Critic()}})


@pytest.mark.parametrize("protocol", ["paper", "clean"])
@pytest.mark.parametrize("steps", [1, 4])
def test_side_by_side_every_class_has_the_bits_and_the_queries_that_it_has_by_itself(protocol, steps):
    inputs, target = dataclasses.replace(GIVEN, protocol=protocol), rows()
    attack, tried = dataclasses.replace(PLAIN, steps=steps), min(2, steps)
    alone, asked, shown = alone_and_beside(attack, target, inputs, [3, 0, 10, 7], classes=CLASSES, side=SIDE)
    assert asked == shown == 4 * 3 * (steps + 1)
    beside = [12] * tried + [3] * 3 * tried + [12] * steps + [3] * 4
    assert target.seen == [3] * 4 * (steps + 1) + beside and not torch.equal(alone[0].w, alone[1].w)


@pytest.mark.parametrize("settings", [{"rows_per_batch": 3}, {"precision": "bf16"}])
def test_what_the_user_says_of_execution_is_left_alone(settings):
    target = rows()
    view = seen(target, classes=CLASSES, side=SIDE, **settings)
    assert len(PLAIN.invert_batch(view, GIVEN, [0, 1], seed=5)) == 2
    assert set(target.seen) == {3}


@pytest.mark.parametrize(("selected", "together"), [(5, 4), (1, 20), (3, 6), (20, 1), (50, 1)])
def test_so_many_classes_that_their_restarts_fill_a_pass(selected, together):
    attack = dataclasses.replace(PLAIN, selected=selected)
    assert attack.side_by_side("cpu") == together
    assert attack.side_by_side("cuda") == 1


@pytest.mark.parametrize("kind", [GMI, LommaGMI])
def test_networks_of_convolutions_and_students_are_the_same_too(kind):
    """By whichever way: which one is the machine's to say."""
    side, classes = 32, [3, 0, 10, 7]
    target = build_classifier("resnet_small", CLASSES, seed=1, protocol="clean").eval()
    students = {"student0": build_classifier("resnet_small", CLASSES, seed=2, protocol="clean").eval()}
    mean = {"mean": torch.zeros(target.head.in_features)}
    general = networks_of("general_gan")
    for network in general.values():
        network.eval().requires_grad_(False)
    inputs = AttackInputs(protocol="clean", networks={GENERAL: general, STUDENTS: students}, parts={FEATURES: mean})
    own = {"students": Distillation(architectures=("resnet_small",))} if kind is LommaGMI else {}
    attack = kind(steps=3, selected=5, **own)
    alone_and_beside(attack, target, inputs, classes, classes=CLASSES, side=side)


def test_students_that_do_not_take_the_targets_images_are_refused():
    large = LommaGMI(students=Distillation(architectures=("ir50_112",)))
    with pytest.raises(InputError, match="ir50_112: expected images of 112 pixels, got 64"):
        large.check(image_size=64, prior_kind="eigenfaces", has_public=True)
    with pytest.raises(InputError, match=r"public: expected at least attack.students.batch_size \(64\) images, got 9"):
        Distillation().steps(9, "clean")


SIDE_DISTILLATION, CLASSES_DISTILLATION, COUNT = 32, 4, 48
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
    return seen(network, access, classes=CLASSES_DISTILLATION if access != "none" else 0, side=SIDE_DISTILLATION)


@pytest.fixture(scope="module")
def pictures():
    source = torch.Generator().manual_seed(1)
    base = torch.randint(0, 256, (COUNT, 1, 1, 1), generator=source)
    noise = torch.randint(-20, 20, (COUNT, 3, SIDE_DISTILLATION, SIDE_DISTILLATION), generator=source)
    return {"images": (base + noise).clamp(0, 255).to(torch.uint8)}


def inputs(**parts):
    return AttackInputs(protocol="clean", parts=parts)


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


def students(context):
    public = torch.randint(
        0,
        256,
        (64, 3, SIDE_DISTILLATION, SIDE_DISTILLATION),
        dtype=torch.uint8,
        generator=torch.Generator().manual_seed(2),
    )
    return make_students(SHORT, AttackInputs(protocol="clean", public=public), look("scores"), context)


@pytest.mark.parametrize(("made", "dies_at", "losses"), [("surrogates", 8, 6), ("students", 11, 8)])
def test_a_training_that_died_goes_on_to_the_same_networks(made, dies_at, losses, pictures):
    answered = make_answers({}, inputs(pictures=pictures), look("labels"), None).tensors
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
