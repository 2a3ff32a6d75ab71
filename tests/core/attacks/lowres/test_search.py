"""The searches of GMI, KED-MI and LOMMA against the official code, on networks small enough to be stored."""

import pytest
import torch
import torch.nn.functional as F

from core.attacks.lowres.gan_losses import realness
from core.attacks.lowres.search import Objective, distribution, momentum, sampled
from core.data.enlarging import truncated_bytes
from tests.lowres import golden, pooled

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


class Spied:
    """An objective whose latents, gradients and losses are kept."""

    def __init__(self, objective):
        self.objective, self.z, self.gradient, self.prior, self.identity = objective, [], [], [], []

    def __call__(self, leaf, step):
        found, ask = self.objective(leaf, step), self.objective
        with torch.no_grad():
            z = ask.latent(leaf, step)
            images = ask.decoder(z[:, None])
            self.z.append(z.clone())
            self.prior.append(-ask.realness((images + 1) / 2).mean())
            self.identity.append(ask.identity(images, ask.labels).mean())
        self.gradient.append(found.latent)
        return found


def objective(labels, *, judge=critic, identity=cross_entropy, latent=lambda z, step: z):
    return Spied(Objective(decoder=decode, realness=judge, identity=identity, labels=labels, weight=100.0,
                           scale=1 / len(labels), latent=latent))  # fmt: skip


def at(steps, values, kept=KEPT):
    """Of values before each step and after the last, those after the kept steps."""
    return torch.stack([values[step] for step in kept if step <= steps])


@pytest.mark.parametrize("restart", range(5))
def test_gmis_search_is_the_official_one(restart):
    z0, labels = golden("gmi_z0")[restart], golden("gmi_iden")
    watched = objective(labels)
    last = momentum(z0, watched, steps=30, lr=0.02, momentum=0.9, clip=1.0).w
    torch.testing.assert_close(last, golden("gmi_z_final")[restart], atol=5e-5, rtol=0)
    for name, found in (("prior", watched.prior), ("iden", watched.identity)):
        expected = golden(f"gmi_{name}_loss")[restart]
        torch.testing.assert_close(torch.stack(found), expected, check_dtype=False, atol=2e-5, rtol=0)
    torch.testing.assert_close(logits_of(decode(last[:, None]), 0), golden("gmi_final_target_logits")[restart],
                               atol=2e-4, rtol=0)  # fmt: skip
    if restart == 0:
        torch.testing.assert_close(at(30, [*watched.z, last]), golden("gmi_z_seed0"), atol=5e-5, rtol=0)
        gradients = torch.stack([watched.gradient[step - 1] for step in KEPT])
        torch.testing.assert_close(gradients, golden("gmi_g_seed0"), atol=1e-3, rtol=0)


def test_gmis_verdict_is_that_of_the_evaluator_on_the_enlarged_picture():
    images = truncated_bytes(decode(golden("gmi_z_final").flatten(0, 1)[:, None]), 112)
    logits = (pooled((images + 1) / 2) - 0.5) @ golden("si_E_A") @ golden("si_E_B")
    expected = golden("gmi_final_eval_logits").flatten(0, 1)
    torch.testing.assert_close(logits, expected, atol=2e-4, rtol=0)


def test_the_update_is_nesterovs_with_a_clip_and_a_velocity_that_hears_of_neither():
    v, z0 = torch.zeros(4, 100), torch.randn(4, 100, generator=torch.Generator().manual_seed(4))
    watched = objective(torch.arange(4))
    found = momentum(z0, watched, steps=50, lr=0.02, momentum=0.9, clip=1.0).w
    z = z0
    for gradient in watched.gradient:
        new = 0.9 * v - 0.02 * gradient
        z, v = (z - 0.9 * v + 1.9 * new).clamp(-1, 1), new
    assert found.abs().max() == 1 and (found - z).abs().max() < 1e-6


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
    last = distribution(start, watched, steps=30, lr=0.02).w
    states = at(30, [*leaves, last])
    torch.testing.assert_close(states[:, :, 0], golden(f"{prefix}_mu"), atol=2e-5, rtol=0)
    torch.testing.assert_close(states[:, :, 1], golden(f"{prefix}_logvar"), atol=2e-5, rtol=0)
    for name, found in (("prior", watched.prior), ("iden", watched.identity)):
        expected = golden(f"{prefix}_{name}_loss")
        torch.testing.assert_close(torch.stack(found), expected, check_dtype=False, atol=3e-5, rtol=0)
    if prefix == "ked_dist":
        shown = torch.stack([watched.z[step - 1] for step in KEPT])
        torch.testing.assert_close(shown, golden("ked_dist_z_unclamped"), atol=2e-5, rtol=0)
        assert shown.abs().max() > 1
        draws = torch.stack([sampled(last, eps, None) for eps in golden("ked_eps_draws")])
        pictures = truncated_bytes(decode(draws.flatten(0, 1)[:, None]), 112)
        logits = ((pooled((pictures + 1) / 2) - 0.5) @ golden("si_E_A") @ golden("si_E_B")).view(5, 5, 10)
        torch.testing.assert_close(logits, golden("ked_dist_eval_logits"), atol=2e-4, rtol=0)


@pytest.mark.parametrize("restart", [0, 1])
def test_keds_single_latents_are_searched_as_gmis(restart):
    watched = objective(golden("ked_iden"), judge=many_classes)
    last = momentum(golden("ked_single_z0")[restart], watched, steps=10, lr=0.02, momentum=0.9, clip=1.0).w
    found = torch.stack([[*watched.z, last][step] for step in (1, 5, 10)])
    torch.testing.assert_close(found, golden("ked_single_z")[restart], atol=5e-5, rtol=0)
