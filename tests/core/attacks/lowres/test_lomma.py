"""LOMMA against the official code, on networks small enough to be stored; its students and their resumption."""

import pytest
import torch

from smoothsweep.core.attacks.distillation.config import Distillation
from smoothsweep.core.attacks.distillation.students import StudentState, distil, distillation_loss
from smoothsweep.core.attacks.lowres.identity import Augmented, feature_pull
from smoothsweep.core.attacks.lowres.lomma import LommaGMI
from smoothsweep.core.attacks.lowres.lomma_parts import make_students, moments
from smoothsweep.core.attacks.lowres.search import Objective, distribution, momentum, sampled
from smoothsweep.core.attacks.shared.base import AttackInputs
from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.attacks.shared.view import view_of
from smoothsweep.core.data.images import truncated_bytes
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.accuracy import topk_hits
from tests.core.attacks.lowres.test_search import KEPT, critic, decode, many_classes
from tests.lowres import Spied, blocky, check_losses, golden, pooled, s


def parts_of(images, k):
    features = ((pooled((images + 1) / 2) - 0.5) @ golden(f"si_T{k}_A")).tanh()
    return features, features @ golden(f"si_T{k}_B")


class Standin:
    """A view of target 0."""

    def features(self, images):
        return parts_of(images, 0)

    def logits(self, images):
        return parts_of(images, 0)[1]


def identity(form, weight=1.0):
    students = [lambda images, k=k: parts_of(images, k)[1] for k in (1, 2, 3)]
    raw, many = form in ("ours", "llogit"), form in ("ours", "laug")
    return Augmented(
        view=Standin(),
        students=students if many else [],
        raw_logit=raw,
        mean=golden("lomma_fea_mean") if raw else None,
        feature_weight=weight,
    )


def objective(form, judge, latent=lambda z, step: z):
    return Spied(
        Objective(
            decoder=decode,
            realness=judge,
            identity=identity(form),
            labels=golden("lomma_iden"),
            weight=100.0,
            scale=1 / 5,
            latent=latent,
        )
    )


def test_the_mean_feature_and_the_pull_are_the_official_ones():
    images = torch.cat([blocky(f"lomma_pub/{k}", 4) for k in range(3)])
    mean, std = moments(parts_of(2 * images - 1, 0)[0])
    torch.testing.assert_close(mean, golden("lomma_preg_mean"), atol=1e-6, rtol=0)
    torch.testing.assert_close(std, golden("lomma_preg_std"), atol=1e-6, rtol=0)
    shifted = golden("lomma_preg_mean") + 0.3 * s("lomma_mean_shift", (16,))
    torch.testing.assert_close(shifted, golden("lomma_fea_mean"), atol=1e-6, rtol=0)
    features = golden("lomma_feat").requires_grad_(True)
    pull = feature_pull(features, golden("lomma_fea_mean")).mean()
    pull.backward()
    torch.testing.assert_close(pull.detach(), golden("lomma_reg_loss"), check_dtype=False, atol=1e-6, rtol=0)
    torch.testing.assert_close(features.grad, golden("lomma_reg_grad"), atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("name", "form", "weight"),
    [
        ("logit_k1", "llogit", 1.0),
        ("logit_k4", "ours", 1.0),
        ("logit_k4_lam01", "ours", 0.1),
        ("ce_k1", "baseline", 1.0),
        ("ce_k4", "laug", 1.0),
    ],
)
def test_the_identity_loss_and_its_gradient(name, form, weight):
    z = golden("lomma_z").requires_grad_(True)
    loss = identity(form, weight)(decode(z[:, None]), golden("lomma_iden")).mean()
    loss.backward()
    torch.testing.assert_close(loss.detach(), golden(f"lomma_iden_loss_{name}"), atol=1e-5, rtol=0)
    torch.testing.assert_close(z.grad, golden(f"lomma_iden_grad_z_{name}"), atol=1e-6, rtol=0)


@pytest.mark.parametrize("form", ["ours", "llogit", "laug"])
def test_the_search_on_gmi(form):
    for restart in (0, 1):
        watched = objective(form, critic)
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
    noise, leaves = golden("lomma_ked_eps"), []

    def latent(leaf, step):
        if len(leaves) == step:
            leaves.append(leaf.detach().clone())
        return sampled(leaf, noise[step], 1.0)

    start = torch.stack([torch.zeros(5, 100), torch.ones(5, 100)], 1)
    watched = objective(form, many_classes, latent)
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


def test_the_draws_are_clamped_and_judged_as_the_official_evaluation_does():
    """Five batches, five draws, four labels: latents, pictures of 8 bits, the evaluator's logits."""
    leaf = torch.stack([golden("evalp_mu"), golden("evalp_logvar")], 2)
    for draw in range(5):
        z = torch.stack([sampled(leaf[batch], golden("evalp_eps")[batch, draw], 1.0) for batch in range(5)])
        torch.testing.assert_close(z, golden("evalp_z_clamped")[:, draw], atol=1e-5, rtol=0)
        pictures = truncated_bytes(decode(z.flatten(0, 1)[:, None]), 112)
        features = (pooled((pictures + 1) / 2) - 0.5) @ golden("si_E_A")
        torch.testing.assert_close(features, golden("evalp_eval_feat")[:, draw].flatten(0, 1), atol=2e-4, rtol=0)
        logits = features @ golden("si_E_B")
        expected = golden("evalp_eval_logits")[:, draw].flatten(0, 1)
        torch.testing.assert_close(logits, expected, atol=2e-4, rtol=0)
        hits = torch.stack([topk_hits(logits, golden("evalp_labels").flatten(), k) for k in (1, 5)], 1)
        shares = 100 * hits.double().unflatten(0, (5, 4)).mean(1)
        assert torch.equal(shares, golden("evalp_acc_acc5_per_seed")[:, draw])


class Linear(torch.nn.Module):
    """The stand-in student: target 1 with weights to be learnt."""

    def __init__(self):
        super().__init__()
        self.A = torch.nn.Parameter(golden("si_T1_A").clone())
        self.B = torch.nn.Parameter(golden("si_T1_B").clone())

    def forward(self, images):
        return ((pooled((images + 1) / 2) - 0.5) @ self.A).tanh() @ self.B


def taught(epochs, **changes):
    state = StudentState.fresh(Linear(), Distillation(**changes))
    per_step = []
    distil(
        state,
        lambda step: 2 * blocky(f"lomma_pub/{step % 3}", 4) - 1,
        lambda images: parts_of(images, 0)[1],
        Distillation(**changes),
        steps=3 * epochs,
        per_epoch=3,
        on_step=lambda state: per_step.append(state.sgd.param_groups[0]["lr"]),
    )
    return state, per_step


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


class Small(torch.nn.Module):
    """A target that only answers."""

    def forward(self, images):
        return images.mean((2, 3))


class Kept:
    def __init__(self, state=None, stop_after=None):
        self.state, self.states, self.stop_after = state, [], stop_after

    def last_state(self):
        return self.state

    def keep_state(self, state):
        self.states.append(state)
        if self.stop_after == len(self.states):
            raise KeyboardInterrupt

    def progress(self, fraction, text):
        assert 0 <= fraction <= 1


def view(target):
    return view_of(target, "gradients", num_classes=3, image_size=32, execution=Execution(ExecutionConfig(), "cpu"))


def test_students_are_resumed_exactly():
    public = torch.randint(0, 256, (16, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(2))
    settings = {"architectures": ["resnet_small", "vgg_small"], "pretrained": False, "epochs": 2, "batch_size": 4}
    inputs, target = AttackInputs(protocol="clean", public=public), Small().eval()

    def made(part_context):
        return make_students(settings, inputs, view(target), part_context)

    whole, stopped = made(Kept()), Kept(stop_after=11)
    with pytest.raises(KeyboardInterrupt):
        made(stopped)
    again = made(Kept(stopped.states[-1]))
    assert stopped.states[-1]["under_way"] is not None and len(stopped.states[-1]["done"]) == 1
    for name, student in whole.networks.items():
        own, other = student.state_dict(), again.networks[name].state_dict()
        assert all(torch.equal(own[key], other[key]) for key in own)
    assert torch.equal(whole.tensors["losses"], again.tensors["losses"]) and whole.tensors["losses"].shape == (2, 8)


def test_a_target_without_features_is_refused_in_one_line():
    with pytest.raises(InputError, match="target: expected a network with features under its last layer") as refusal:
        view(Small().eval()).features(torch.zeros(1, 3, 32, 32))
    assert "\n" not in str(refusal.value)


def test_students_that_do_not_take_the_targets_images_are_refused():
    with pytest.raises(InputError, match="ir50_112: expected images of 112 pixels, got 64"):
        LommaGMI(students=Distillation(architectures=("ir50_112",))).check(
            image_size=64, prior_kind="eigenfaces", has_public=True
        )
    with pytest.raises(InputError, match=r"public: expected at least attack.students.batch_size \(64\) images, got 9"):
        Distillation().steps(9, "clean")
