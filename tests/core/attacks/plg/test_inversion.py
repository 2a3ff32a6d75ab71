"""PLG-MI's search against the official one, and what a class's numbers depend on."""

from types import SimpleNamespace

import pytest
import torch

from smoothsweep.core.attacks.gan.conditional_config import ConditionalConfig
from smoothsweep.core.attacks.gan.conditional_generator import ConditionalGenerator
from smoothsweep.core.attacks.plg import inversion
from smoothsweep.core.attacks.plg.augment import distort
from smoothsweep.core.attacks.plg.inversion import Search, draw_views, search, starts
from smoothsweep.core.attacks.registry import make_attack
from smoothsweep.core.attacks.shared.base import AttackInputs
from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.attacks.shared.view import view_of
from smoothsweep.core.data.images import ENLARGING
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.errors import InputError
from tests.lowres import pooled
from tests.plg import distortion, golden, undistorted


class StandIn:
    """The stand-in generator: p = .5 + .5 tanh(z A + Y[y] + b), cells of 8x8 pixels."""

    resolution, config = 64, SimpleNamespace(z_dim=20, classes=10)

    def synthesize(self, w):
        z, label = w[:, 0, :-1], w[:, 0, -1].long()
        cells = torch.tanh(z @ golden("plg_si_G_A") + golden("plg_si_G_Y")[label] + golden("plg_si_G_b"))
        return cells.view(-1, 3, 8, 8).repeat_interleave(8, 2).repeat_interleave(8, 3)


class Target(torch.nn.Module):
    def forward(self, images):
        return torch.tanh((pooled((images + 1) / 2) - 0.5) @ golden("si_T0_A")) @ golden("si_T0_B")


def wanted(target_class, protocol="paper", **changes):
    usual = {"restarts": 3, "steps": 30, "lr": 0.1, "loss": "max_margin", "seed": 0}
    return Search(target_class=target_class, protocol=protocol, **{**usual, **changes})


@pytest.fixture
def view():
    execution = Execution(ExecutionConfig(), "cpu")
    return view_of(Target(), "gradients", num_classes=10, image_size=64, execution=execution)


@pytest.fixture
def given_starts(monkeypatch):
    """Starts are [class][restart, z]; nothing is distorted."""

    def use(z0):
        monkeypatch.setattr(inversion, "starts", lambda z_dim, asked: z0[asked.target_class][: asked.restarts])
        monkeypatch.setattr(inversion, "draw_views", lambda step, place, side, asked: undistorted(asked.restarts))
        monkeypatch.setattr(inversion, "distort", lambda images, draw: images)  # what an empty draw does, in less time

    return use


def test_the_official_search_without_augmentation(view, given_starts):
    labels, z0 = golden("plg_iden").tolist(), golden("plg_attack_z0")
    given_starts({label: z0[:, place] for place, label in enumerate(labels)})
    found = {label: search(StandIn(), view, wanted(label)) for label in labels}
    final = torch.stack([found[label].w for label in labels], dim=1)
    torch.testing.assert_close(final, golden("plg_attack_z_final"), rtol=0, atol=1e-4)
    losses = torch.stack([found[label].loss for label in labels]).mean(0).T  # the official loss is a batch mean
    torch.testing.assert_close(losses, golden("plg_attack_loss"), rtol=0, atol=1e-4)
    for row in (0, 2):
        steps = golden("plg_steps_kept")[row].item()
        short = torch.stack([search(StandIn(), view, wanted(label, restarts=1, steps=steps)).w[0] for label in labels])
        torch.testing.assert_close(short, golden("plg_attack_z_seed0")[row], rtol=0, atol=1e-4)


@pytest.mark.parametrize(("name", "loss", "tolerance"), [("ce", "cross_entropy", 1e-4), ("poincare", "poincare", 5e-3)])
def test_the_official_search_with_other_losses(name, loss, tolerance, view, given_starts):
    labels, z0 = golden("plg_iden").tolist(), golden("plg_attack_z0")
    given_starts({label: z0[:, place] for place, label in enumerate(labels)})
    found = [search(StandIn(), view, wanted(label, restarts=2, steps=10, loss=loss)) for label in labels]
    final, losses = torch.stack([one.w for one in found], dim=1), torch.stack([one.loss for one in found]).mean(0).T
    torch.testing.assert_close(final, golden(f"plg_attack_{name}_z10"), rtol=0, atol=tolerance)
    torch.testing.assert_close(losses.double(), golden(f"plg_attack_{name}_loss"), rtol=0, atol=tolerance)


def test_the_official_search_under_its_two_views(view, monkeypatch):
    labels, found = golden("plg_iden").tolist()[:2], []
    for sample, label in enumerate(labels):
        rows = slice(sample, sample + 1)
        monkeypatch.setattr(inversion, "starts", lambda z_dim, asked, rows=rows: golden("plg_attack_aug_z0")[rows])
        monkeypatch.setattr(
            inversion,
            "draw_views",
            lambda step, place, side, asked, rows=rows: distortion("plg_attack_aug", step, place).of(rows),
        )
        found.append([search(StandIn(), view, wanted(label, restarts=1, steps=steps)) for steps in (1, 2)])
    for step in range(2):
        after = torch.cat([one[step].w for one in found])
        torch.testing.assert_close(after, golden("plg_attack_aug_z")[step], rtol=0, atol=1e-4)
    losses = torch.stack([one[1].loss[:, 0] for one in found]).mean(0)
    torch.testing.assert_close(losses.double(), golden("plg_attack_aug_loss"), rtol=0, atol=1e-4)


def test_the_target_is_shown_what_the_official_one_is():
    labels, latents = golden("plg_iden")[:2, None].float(), (golden("plg_attack_aug_z0"), golden("plg_attack_aug_z")[0])
    for step, z in enumerate(latents):
        images = StandIn().synthesize(torch.cat([z, labels], dim=1)[:, None])
        for place in range(2):
            found = distort((images + 1) / 2, distortion("plg_attack_aug", step, place))
            expected = golden("plg_attack_aug_out")[step, place]
            torch.testing.assert_close(found[..., ::4, ::4], expected, rtol=0, atol=5e-5)


def test_the_official_way_to_the_evaluator(view):
    """Float images, corners aligned, to 112 pixels: what accuracy is measured on."""
    labels, z = golden("plg_iden"), golden("plg_attack_z_final")
    for restart in range(3):
        w = torch.cat([z[restart], labels[:, None].float()], dim=1)[:, None]
        images = (ENLARGING["aligned_corners"](StandIn().synthesize(w), 112) + 1) / 2
        logits = (pooled(images) - 0.5) @ golden("si_E_A") @ golden("si_E_B")
        torch.testing.assert_close(logits, golden("plg_attack_eval_logits")[restart], rtol=0, atol=2e-4)


def test_under_clean_a_class_draws_by_itself_and_under_paper_a_batch_of_sixty_shares():
    for protocol, shared in (("paper", True), ("clean", False)):
        same = starts(8, wanted(3, protocol)), starts(8, wanted(63, protocol))
        assert torch.equal(*same) == shared  # the row of the next batch
        assert not torch.equal(same[0], starts(8, wanted(4, protocol)))
        orders = [draw_views(5, 1, 64, wanted(label, protocol, restarts=40)).order for label in (3, 4, 63)]
        assert torch.equal(orders[0], orders[1]) == shared and not torch.equal(orders[0], orders[2])
        jitter = draw_views(5, 1, 64, wanted(3, protocol, restarts=40)).jitter
        assert jitter.all() == shared  # the default chance of the official augmentation
    views = [draw_views(step, place, 64, wanted(3, "clean")).degrees for step in (0, 1) for place in (0, 1)]
    assert len({tuple(view.tolist()) for view in views}) == 4


def test_results_are_all_restarts_in_the_order_of_the_targets_confidence(view):
    network = ConditionalGenerator(ConditionalConfig(classes=10, resolution=64, z_dim=4, width=2)).eval()
    network.requires_grad_(False)
    own = AttackInputs(protocol="clean", networks={"plg_gan": {"generator": network}})
    found = make_attack("plg_mi", steps=3, selected=4).invert(view, own, 6, seed=1)
    assert found.w.shape == (4, 1, 5) and (found.w[:, 0, -1] == 6).all()
    assert sorted(found.rows["restart"].tolist()) == [0, 1, 2, 3]
    assert (found.scores.diff() <= 0).all()
    images = network.synthesize(found.w)
    torch.testing.assert_close(Target()(images).softmax(1)[:, 6], found.scores)
    assert found.facts["loss_first"] == found.curves["loss"][0] and found.facts["num_frozen"] == 0
    assert -1 <= found.facts["gradient_cosine"] <= 1


def test_a_generator_of_another_number_of_classes_and_labels_alone_are_one_line(view):
    network = ConditionalGenerator(ConditionalConfig(classes=9, resolution=64, z_dim=4, width=2))
    own = AttackInputs(protocol="clean", networks={"plg_gan": {"generator": network}})
    with pytest.raises(InputError, match="plg_gan: expected a generator of the target's 10 classes, got 9"):
        make_attack("plg_mi", steps=3).invert(view, own, 0, seed=1)
    blind = view_of(Target(), "labels", num_classes=10, image_size=64, execution=view.execution)
    with pytest.raises(InputError, match="target: expected access to its gradients for attack plg_mi, got"):
        make_attack("plg_mi", steps=3).invert(blind, own, 0, seed=1)


def test_sizes_and_public_images_that_do_not_do_are_refused_before_anything_runs():
    attack = make_attack("plg_mi", top_n=30)
    for side in (16, 32, 64):
        attack.check(image_size=side, prior_kind="shipped", has_public=True)
    with pytest.raises(InputError, match="side of the target's input: expected 64 pixels, or 16 or 32, got 224"):
        attack.check(image_size=224, prior_kind="shipped", has_public=True)
    with pytest.raises(InputError, match="public: expected the images that this attack learns from, got none"):
        attack.check(image_size=64, prior_kind="shipped", has_public=False)
    attack.check_public(30)
    with pytest.raises(InputError, match=r"attack.top_n: expected at most the 29 public images, got 30"):
        attack.check_public(29)
