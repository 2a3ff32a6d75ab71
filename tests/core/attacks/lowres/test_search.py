"""The searches of GMI, KED-MI and LOMMA against the official code, on networks small enough to be stored."""

import pytest
import torch
import torch.nn.functional as F

from smoothsweep.core.attacks.gan.losses import realness
from smoothsweep.core.attacks.lowres.search import Objective, distribution, momentum, sampled
from smoothsweep.core.data.images import truncated_bytes
from smoothsweep.core.metrics.accuracy import topk_hits
from tests.lowres import Spied, check_losses, golden, pooled
from tests.plg import golden as of_plg

KEPT = (1, 2, 3, 4, 5, 10, 20, 30)


def decode(w):
    """Images in [-1, 1] of constant blocks."""
    p = (w[:, 0] @ golden("si_G_A") + golden("si_G_b")).sigmoid()
    return 2 * p.view(-1, 3, 8, 8).repeat_interleave(8, 2).repeat_interleave(8, 3) - 1


def features_of(images, k):
    return ((pooled((images + 1) / 2) - 0.5) @ golden(f"si_T{k}_A")).tanh()


def logits_of(images, k):
    return features_of(images, k) @ golden(f"si_T{k}_B")


def critic(images):
    return (((pooled(images) - 0.5) @ golden("si_D_A")).tanh() @ golden("si_D_b")).flatten()


def many_classes(images):
    return realness(((pooled(images) - 0.5) @ golden("si_K_A")).tanh() @ golden("si_K_B"))


def cross_entropy(images, labels):
    return F.cross_entropy(logits_of(images, 0), labels, reduction="none")


def objective(labels, *, judge=critic, identity=cross_entropy, latent=lambda z, step: z):
    return Spied(
        Objective(
            decoder=decode,
            realness=judge,
            identity=identity,
            labels=labels,
            weight=100.0,
            scale=1 / len(labels),
            latent=latent,
        )
    )


def at(steps, values, kept=KEPT):
    """Of values before each step and after the last, those after the kept steps."""
    return torch.stack([values[step] for step in kept if step <= steps])


def evaluated(z):
    """The stand-in evaluator's logits of the images of z [..., 100], in 8 bits at its own size."""
    pictures = truncated_bytes(decode(z.flatten(0, -2)[:, None]), 112)
    logits = (pooled((pictures + 1) / 2) - 0.5) @ golden("si_E_A") @ golden("si_E_B")
    return logits.unflatten(0, z.shape[:-1])


def shares(logits, labels):
    """[draws], [draws]: how many are the evaluator's first class, and among its first five. logits: [draws, N, C]."""
    rows, of_rows = logits.flatten(0, 1), labels.repeat(len(logits))
    return [topk_hits(rows, of_rows, k).view(len(logits), -1).double().mean(1) for k in (1, 5)]


def check_evaluation(logits, labels, name):
    """Means and sample variances over draws, as the official evaluation of KED-MI returns them."""
    found = shares(logits, labels)
    official = torch.stack([*(one.mean() for one in found), *(one.var() for one in found)])
    torch.testing.assert_close(official, golden(name), atol=1e-6, rtol=0)


@pytest.mark.parametrize("attack", ["gmi", "ked", "lomma", "plg"])
def test_the_states_that_are_compared_are_those_that_were_kept(attack):
    stored = of_plg("plg_steps_kept") if attack == "plg" else golden(f"{attack}_steps_kept")
    assert tuple(stored.tolist()) == KEPT


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
        logits_of(decode(last[:, None]), 0), golden("gmi_final_target_logits")[restart], atol=2e-4, rtol=0
    )
    if restart == 0:
        torch.testing.assert_close(at(30, [*watched.z, last]), golden("gmi_z_seed0"), atol=5e-5, rtol=0)
        gradients = torch.stack([watched.gradient[step - 1] for step in KEPT])
        torch.testing.assert_close(gradients, golden("gmi_g_seed0"), atol=1e-3, rtol=0)
        velocity = torch.stack([watched.velocity()[step - 1] for step in KEPT])
        torch.testing.assert_close(velocity, golden("gmi_v_seed0"), atol=5e-5, rtol=0)


def test_gmis_verdict_is_that_of_the_evaluator_on_the_enlarged_picture():
    found = evaluated(golden("gmi_z_final"))
    torch.testing.assert_close(found, golden("gmi_final_eval_logits"), atol=2e-4, rtol=0)


@pytest.mark.parametrize(("judge", "prefix"), [(many_classes, "ked_dist"), (critic, "ked_dist_critic")])
def test_keds_search_is_the_official_one(judge, prefix):
    noise, labels = golden("ked_eps_first30"), golden("ked_iden")
    leaves = []

    def latent(leaf, step):
        if len(leaves) == step:
            leaves.append(leaf.detach().clone())
        return sampled(leaf, noise[step], None)

    watched = objective(labels, judge=judge, latent=latent)
    start = torch.stack([torch.zeros(5, 100), torch.ones(5, 100)], 1)
    found = distribution(start, watched, steps=30, lr=0.02)
    last = found.w
    states = at(30, [*leaves, last])
    torch.testing.assert_close(states[:, :, 0], golden(f"{prefix}_mu"), atol=2e-5, rtol=0)
    torch.testing.assert_close(states[:, :, 1], golden(f"{prefix}_logvar"), atol=2e-5, rtol=0)
    check_losses(watched, prefix, atol=3e-5)
    logits = evaluated(torch.stack([sampled(last, eps, None) for eps in golden("ked_eps_draws")]))
    check_evaluation(logits, labels, f"{prefix}_acc_acc5_var_var5")
    if prefix == "ked_dist":
        total = golden("ked_dist_total_loss")
        torch.testing.assert_close(found.loss.mean(1), total, check_dtype=False, atol=2e-3, rtol=0)
        shown = torch.stack([watched.z[step - 1] for step in KEPT])
        torch.testing.assert_close(shown, golden("ked_dist_z_unclamped"), atol=2e-5, rtol=0)
        assert shown.abs().max() > 1
        torch.testing.assert_close(logits, golden("ked_dist_eval_logits"), atol=2e-4, rtol=0)
        for one, name in zip(shares(logits, labels), ("acc", "acc5"), strict=True):
            assert one.tolist() == pytest.approx(golden(f"ked_dist_{name}_per_draw").tolist())


def test_keds_single_latents_are_searched_and_judged_as_gmis():
    found = []
    for restart in (0, 1):
        watched = objective(golden("ked_iden"), judge=many_classes)
        found.append(momentum(golden("ked_single_z0")[restart], watched, steps=10, lr=0.02, momentum=0.9, clip=1.0).w)
        states = torch.stack([[*watched.z, found[-1]][step] for step in (1, 5, 10)])
        torch.testing.assert_close(states, golden("ked_single_z")[restart], atol=5e-5, rtol=0)
        check_losses(watched, "ked_single", restart)
    check_evaluation(evaluated(torch.stack(found)), golden("ked_iden"), "ked_single_acc_acc5_var_var5")
