"""PLG-MI against the official code and kornia: its random views, pseudo-labels, GAN's training and search; what is
drawn, what a class's numbers depend on, and refusals."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from smoothsweep.core.attacks.plg_mi import PLGMI
from smoothsweep.core.attacks.plg_search import (
    LabelledDraws,
    ask,
    distort,
    make_conditional_gan,
    make_labels,
    new_conditional_pair,
    search,
    top_n,
    update_conditional_pair,
)
from smoothsweep.core.attacks.shared.base import AttackInputs
from smoothsweep.core.attacks.training_settings import ConditionalConfig, ConditionalTraining
from smoothsweep.core.data.celeba import central_face
from smoothsweep.core.data.images import to_unit
from smoothsweep.core.data.layouts import fit_square
from smoothsweep.core.seeds import generator
from tests.core.attacks.looking import Kept, same_networks, seen
from tests.lowres import blocky, pooled, s
from tests.plg import distortion, fill, golden, official, undistorted

CASES = ("train0", "train1", "attack0", "attack1")


def every_other(images):
    """As images are stored."""
    return images[..., ::2, ::2]


@pytest.mark.parametrize("case", CASES)
def test_a_view_is_kornias(case):
    draw, images = distortion(f"plg_aug_{case}"), golden("plg_aug_in").requires_grad_()
    found = distort(images, draw)
    torch.testing.assert_close(every_other(found), golden(f"plg_aug_{case}_out"), rtol=0, atol=5e-5)
    if case.endswith("0"):
        (gradient,) = torch.autograd.grad((found * s("plg_aug_w", (3, 3, 64, 64))).sum(), images)
        torch.testing.assert_close(every_other(gradient), golden(f"plg_aug_{case}_grad_in"), rtol=0, atol=1e-3)


class Scores:
    """A target that is surest of the class that an image's brightness names."""

    num_classes, image_size = 5, 8

    def scores(self, images):
        bright = images.mean((1, 2, 3))
        return (-((bright[:, None] - torch.linspace(-1, 1, 5)) ** 2) * 20).softmax(1)


def standing_in(images):
    """The stand-in target 0 on images in [-1, 1]."""
    return torch.tanh((pooled((images + 1) / 2) - 0.5) @ golden("si_T0_A")) @ golden("si_T0_B")


def test_from_the_pictures_to_the_official_selection():
    """Aligned faces of constant blocks, cut, reduced and asked about as any public pictures are."""
    blocks = golden("plg_topn_blocks_uint8").numpy().repeat(25, 1).repeat(23, 2)[:, :218, :178]
    faces = [fit_square(central_face(row, Image.fromarray(one)), 64, "shorter_side") for row, one in enumerate(blocks)]
    public = torch.from_numpy(np.stack(faces)).permute(0, 3, 1, 2).contiguous()
    view = SimpleNamespace(image_size=64, scores=lambda images: standing_in(images).softmax(1))
    scores = ask(view, public)
    torch.testing.assert_close(scores, golden("plg_topn_prob"), rtol=0, atol=1e-5)
    names = [f"{number:06d}.jpg" for number in golden("plg_topn_file_numbers").tolist()]
    found = top_n(scores, 4, "paper", paths=names)
    assert torch.equal(found, golden("plg_topn_selected"))
    assert torch.equal(top_n(golden("plg_topn_prob"), 4, "paper", paths=names), found)
    confidence = golden("plg_topn_prob").T.gather(1, found).double()  # in ascending order
    torch.testing.assert_close(confidence.round(decimals=4), golden("plg_topn_name_prob"), rtol=0, atol=1e-6)


def test_the_official_rule_for_ties():
    names = [str(name) for name in golden("plg_ties_names")]
    found = top_n(golden("plg_ties_logits").softmax(1), 5, "paper", paths=names)
    assert torch.equal(found, golden("plg_ties_selected"))


def test_under_negative_smoothing_most_confidences_are_zero_and_paper_takes_the_last_images():
    scores = torch.zeros(9, 2)
    scores[4, 0] = 1.0
    assert top_n(scores, 3, "paper").tolist() == [[7, 8, 4], [6, 7, 8]]
    assert top_n(scores, 3, "clean").tolist() == [[1, 0, 4], [2, 1, 0]]


@settings(max_examples=25)
@given(rows=st.integers(1, 12), n=st.integers(1, 12), levels=st.integers(1, 4), seed=st.integers(0, 99))
def test_both_protocols_choose_scores_that_nothing_left_out_exceeds(rows, n, levels, seed):
    scores = torch.randint(levels, (rows, 3), generator=generator(seed)).float()
    n = min(n, rows)
    for protocol in ("paper", "clean"):
        found = top_n(scores, n, protocol)
        assert found.shape == (3, n) and found.dtype == torch.int64
        for column, chosen in zip(scores.T, found, strict=True):
            assert len(chosen.unique()) == n
            assert torch.equal(column[chosen], column.sort().values[-n:])


def test_public_images_of_another_size_are_reduced_to_the_target_s():
    flat = torch.linspace(0, 255, 10).round().to(torch.uint8)[:, None, None, None]
    large, small = flat.expand(-1, 3, 24, 24), flat.expand(-1, 3, 8, 8)
    found = [
        make_labels({"top_n": 2}, AttackInputs(protocol="clean", public=images.contiguous()), Scores(), None).tensors
        for images in (large, small)
    ]
    assert torch.equal(found[0]["index"], found[1]["index"])
    best = Scores().scores(to_unit(small)).argmax(0)
    assert torch.equal(found[0]["index"][:, -1], best)


CLASSES, SIDE = 3, 16
RECIPE = ConditionalTraining(steps=5, critic_steps=2, batch_size=4, z_dim=4, width=2)
CPU = torch.device("cpu")


class OfficialDraws:
    """What the official run drew, in its order: G, five times D, and again; nothing is distorted."""

    def for_generator(self, step):
        return self._fakes(6 * step), None

    def for_critic(self, step, update):
        number = 5 * step + update
        reals = blocky(f"plg_gan_real/{number}", 4), golden("plg_gan_real_y")[number]
        return self._fakes(6 * step + 1 + update), reals

    def _fakes(self, number):
        return golden("plg_gan_z")[number], golden("plg_gan_y")[number]


def test_two_iterations_are_the_official_ones():
    config = ConditionalConfig(classes=7, z_dim=16, width=4, output="unit")
    recipe = ConditionalTraining(steps=2, batch_size=4, z_dim=16, width=4)
    pair = new_conditional_pair(config, recipe, "paper", CPU)
    fill(pair.generator, "PLGGs", "G", 1.4)
    fill(pair.discriminator, "PLGDs", "D", 1.4)
    made = pair.generator(*OfficialDraws().for_generator(0)[0])
    torch.testing.assert_close(made[..., ::4, ::4], golden("plg_gan_fake_first"), rtol=0, atol=1e-5)
    fill(pair.generator, "PLGGs", "G", 1.4)  # the norms have moved
    verdicts = []
    pair.discriminator.register_forward_hook(lambda module, inputs, found: verdicts.append(found.detach()))
    rows = []
    for _ in range(2):
        rows.append(list(update_conditional_pair(pair, OfficialDraws(), standing_in).values()))
        pair.step += 1
    asked = torch.stack(verdicts).view(2, 11, 4, 1)  # in the step of G; then of fakes and reals, in turns
    for found, name in ((asked[:, 0], "fake_in_g"), (asked[:, 1::2], "fake"), (asked[:, 2::2], "real")):
        torch.testing.assert_close(found.reshape(-1, 4, 1), golden(f"plg_gan_dis_{name}"), rtol=0, atol=1e-4)
    losses = torch.tensor(rows, dtype=torch.float64)
    critic = golden("plg_gan_loss_dis").view(2, 5).mean(1)
    expected = torch.stack([golden("plg_gan_loss_gen"), golden("plg_gan_loss_inv"), critic], dim=1)
    torch.testing.assert_close(losses, expected, rtol=0, atol=1e-4)
    total = losses[:, 0] + pair.recipe.inversion_weight * losses[:, 1]
    torch.testing.assert_close(total, golden("plg_gan_loss_all"), rtol=0, atol=1e-4)
    for which, network in (("G", pair.generator), ("D", pair.discriminator)):
        ours = {official(name, which): value.double() for name, value in network.state_dict().items()}
        names = [str(name) for name in golden(f"plg_gan_{which}_after_names")]
        assert set(names) == {name for name in ours if not name.endswith("num_batches_tracked")}
        norms = torch.stack([ours[name].norm() for name in names])
        torch.testing.assert_close(norms, golden(f"plg_gan_{which}_after_sum_norm_first_last")[:, 1], rtol=5e-3, atol=0)


def test_every_pair_of_image_and_label_is_shown_once_in_every_round():
    """Twelve pairs in batches of four: three batches are a round."""
    images = torch.randint(256, (9, 3, SIDE, SIDE), generator=generator(0), dtype=torch.uint8)
    index = torch.stack([torch.randperm(9, generator=generator(c))[:4] for c in range(CLASSES)])
    config = ConditionalConfig(classes=CLASSES, resolution=SIDE, z_dim=4, width=2)
    draws, seen = LabelledDraws(images, index, config, RECIPE, "clean"), []
    for step in range(3):
        for update in range(RECIPE.critic_steps):
            images, labels = draws.for_critic(step, update)[1]
            raw = ((images + 1) * 128).floor().to(torch.uint8)
            seen += [(image.numpy().tobytes(), label) for image, label in zip(raw, labels.tolist(), strict=True)]
    assert len(set(seen[:12])) == len(set(seen[12:])) == 12 and seen[:12] != seen[12:]


def part(part_context=None, protocol="clean", steps=8):
    public = torch.randint(256, (9, 3, 24, 24), generator=generator(0), dtype=torch.uint8)
    index = torch.stack([torch.randperm(9, generator=generator(c))[:4] for c in range(CLASSES)])
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * SIDE * SIDE, CLASSES))
    torch.nn.init.normal_(network[1].weight, std=0.1, generator=generator(1))
    torch.nn.init.zeros_(network[1].bias)
    view = seen(network, classes=CLASSES, side=SIDE)
    own = {**RECIPE.settings, "steps": steps}
    asked = AttackInputs(protocol=protocol, public=public, parts={"plg_labels": {"index": index}})
    return make_conditional_gan(own, asked, view, part_context or Kept()), view


def test_the_part_goes_on_from_its_state_and_tells_how_far_it_is():
    part_context = Kept()
    whole, view = part(part_context=part_context)
    assert view.queries == 8 * RECIPE.batch_size and part_context.told[-1] == (1.0, "step 8/8")
    assert [state["step"] for state in part_context.states] == list(range(1, 8))
    resumed, view = part(part_context=Kept(part_context.states[4]))
    assert view.queries == 3 * RECIPE.batch_size
    assert same_networks(whole, resumed)
    assert torch.equal(whole.tensors["losses"], resumed.tensors["losses"]) and whole.facts == resumed.facts
    assert not whole.networks["generator"].training


class StandIn:
    """The stand-in generator: p = .5 + .5 tanh(z A + Y[y] + b), cells of 8x8 pixels."""

    resolution, config = 64, SimpleNamespace(z_dim=20, classes=10)

    def synthesize(self, w):
        z, label = w[:, 0, :-1], w[:, 0, -1].long()
        cells = torch.tanh(z @ golden("plg_si_G_A") + golden("plg_si_G_Y")[label] + golden("plg_si_G_b"))
        return cells.view(-1, 3, 8, 8).repeat_interleave(8, 2).repeat_interleave(8, 3)


class Target(torch.nn.Module):
    def forward(self, images):
        return standing_in(images)


@pytest.fixture
def view():
    return seen(Target(), classes=10, side=64)


def searched(view, label, start, views_at=None, **settings):
    """The official search from these latents; nothing is distorted where no views are given."""
    attack = PLGMI(**{"steps": 30, "lr": 0.1, **settings})
    plain = [undistorted(len(start))] * 2
    return search(StandIn(), view, attack, label, start, views_at or (lambda step: plain), "paper")


def test_the_official_search_without_augmentation(view):
    labels, z0 = golden("plg_iden").tolist(), golden("plg_attack_z0")
    found = [searched(view, label, z0[:, place]) for place, label in enumerate(labels)]
    final = torch.stack([one.w for one in found], dim=1)
    torch.testing.assert_close(final, golden("plg_attack_z_final"), rtol=0, atol=1e-4)
    losses = torch.stack([one.loss for one in found]).mean(0).T  # the official loss is a batch mean
    torch.testing.assert_close(losses, golden("plg_attack_loss"), rtol=0, atol=1e-4)
    for row in (0, 2):
        steps = golden("plg_steps_kept")[row].item()
        short = [searched(view, label, z0[:1, place], steps=steps).w[0] for place, label in enumerate(labels)]
        torch.testing.assert_close(torch.stack(short), golden("plg_attack_z_seed0")[row], rtol=0, atol=1e-4)


@pytest.mark.parametrize(("name", "loss", "tolerance"), [("ce", "cross_entropy", 1e-4), ("poincare", "poincare", 5e-3)])
def test_the_official_search_with_other_losses(name, loss, tolerance, view):
    labels, z0 = golden("plg_iden").tolist(), golden("plg_attack_z0")
    found = [searched(view, label, z0[:2, place], steps=10, loss=loss) for place, label in enumerate(labels)]
    final, losses = torch.stack([one.w for one in found], dim=1), torch.stack([one.loss for one in found]).mean(0).T
    torch.testing.assert_close(final, golden(f"plg_attack_{name}_z10"), rtol=0, atol=tolerance)
    torch.testing.assert_close(losses.double(), golden(f"plg_attack_{name}_loss"), rtol=0, atol=tolerance)


def test_the_official_search_under_its_two_views(view):
    labels, found = golden("plg_iden").tolist()[:2], []
    for sample, label in enumerate(labels):
        rows = slice(sample, sample + 1)
        drawn = partial(lambda step, rows: [distortion("plg_attack_aug", step, i).of(rows) for i in (0, 1)], rows=rows)
        found.append([searched(view, label, golden("plg_attack_aug_z0")[rows], drawn, steps=steps) for steps in (1, 2)])
    for step in range(2):
        after = torch.cat([one[step].w for one in found])
        torch.testing.assert_close(after, golden("plg_attack_aug_z")[step], rtol=0, atol=1e-4)
    losses = torch.stack([one[1].loss[:, 0] for one in found]).mean(0)
    torch.testing.assert_close(losses.double(), golden("plg_attack_aug_loss"), rtol=0, atol=1e-4)
