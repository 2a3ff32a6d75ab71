"""Networks of GANs and their training against the official code; official checkpoints, and what parts keep of them."""

import pytest
import torch
import torch.nn.functional as F

from smoothsweep.core.attacks.gan_networks import (
    ConditionalGenerator,
    Critic,
    MinibatchDiscriminator,
    PlainGenerator,
    ProjectionDiscriminator,
    official_networks,
    with_class,
)
from smoothsweep.core.attacks.gan_training import (
    InversionSpecific,
    PublicDraws,
    StepDraw,
    Wasserstein,
    entropy_sum,
    new_pair,
    soft_cross_entropy,
    train_pair,
    update_pair,
)
from smoothsweep.core.attacks.registry import PART_NETWORKS, load_network, network_names, save_network
from smoothsweep.core.attacks.training_settings import NETWORKS, ConditionalConfig, GanTraining, PlainGanConfig
from smoothsweep.core.errors import InputError, TrainingDiverged
from tests import plg
from tests.core.attacks.looking import Kept
from tests.lowres import digest_of, fill, golden, images64, kept_pixels, networks, normal, pooled, s, thinned, u
from tests.official_gans import networks_of, official_file, official_files

CLOSE = {"atol": 5e-5, "rtol": 0}
OFFICIAL = {"G64": (PlainGenerator, 0), "DGWGAN": (Critic, 0), "KEDD": (MinibatchDiscriminator, 1000)}
TINY = ConditionalConfig(classes=3, resolution=16, z_dim=4, width=2)
FULL, SMALL = ConditionalConfig(classes=1000), ConditionalConfig(classes=7, z_dim=16, width=4)


def official(name):
    kind, classes = OFFICIAL[name]
    return fill(kind(PlainGanConfig(classes=classes)), name)


@pytest.mark.parametrize(("name", "parameters"), [("G64", 5_142_083), ("DGWGAN", 4_316_545), ("KEDD", 18_888_936)])
def test_names_shapes_and_counts_are_the_official_ones(name, parameters):
    kind, classes = OFFICIAL[name]
    with torch.device("meta"):
        network = kind(PlainGanConfig(classes=classes))
    shapes = {key: tuple(value.shape) for key, value in network.state_dict().items()}
    assert digest_of(shapes) == networks()[name]["sha256"]
    assert sum(p.numel() for p in network.parameters()) == parameters == networks()[name]["parameters"]


def test_the_generator():
    generator = official("G64").eval()
    z = normal("net_z", (4, 100)).requires_grad_(True)
    images = generator(z)
    torch.testing.assert_close(kept_pixels(images), golden("net_G64_eval"), **CLOSE)
    torch.testing.assert_close(images.double().sum((1, 2, 3)), golden("net_G64_eval_sum_per_image"), atol=1e-2, rtol=0)
    (images * s("net_G64_w", images.shape)).sum().backward()
    torch.testing.assert_close(z.grad, golden("net_G64_eval_grad_z"), **CLOSE)
    with torch.no_grad():
        torch.testing.assert_close(kept_pixels(generator.train()(z)), golden("net_G64_train"), **CLOSE)
        shown = generator.eval().synthesize(z[:, None])
        torch.testing.assert_close(shown, 2 * generator(z) - 1)
    moved = torch.stack([generator.l1[1].running_mean[:64], generator.l1[1].running_var[:64]])
    torch.testing.assert_close(moved, golden("net_G64_running_after"), **CLOSE)


def test_the_critic_and_its_gradient():
    critic, images = official("DGWGAN"), images64().requires_grad_(True)
    logits = critic(images)
    torch.testing.assert_close(logits, golden("net_DGWGAN_logit"), **CLOSE)
    logits.sum().backward()
    torch.testing.assert_close(kept_pixels(images.grad), golden("net_DGWGAN_grad_x"), **CLOSE)
    assert torch.equal(critic.eval()(images), logits)


@torch.no_grad()
def test_the_discriminator_couples_the_images_of_a_batch():
    discriminator, images = official("KEDD"), images64()
    features, logits = discriminator(images)
    for name, found in (("feature", features), ("logits", logits)):
        expected = golden(f"net_KEDD_{name}")
        torch.testing.assert_close(thinned(found, expected.shape[1]), expected, **CLOSE)
    torch.testing.assert_close(discriminator.mbd1(features), golden("net_KEDD_minibatch"), **CLOSE)
    torch.testing.assert_close(logits.logsumexp(1), golden("net_KEDD_logsumexp"), **CLOSE)
    torch.testing.assert_close(features.double().sum(1), golden("net_KEDD_feature_sum"), atol=1e-2, rtol=0)
    for pair in (discriminator(images[:2])[1], discriminator(images, groups=2)[1][:2]):
        torch.testing.assert_close(thinned(pair, 100), golden("net_KEDD_logits_first2"), **CLOSE)
    assert not torch.allclose(discriminator(images)[1][:2], discriminator(images[:2])[1], atol=1e-3)


def test_plgs_generator_gives_the_official_images_and_gradients():
    network = plg.fill(ConditionalGenerator(FULL), "PLGG", "G", 1.0).eval()
    z, labels = normal("net_z128b", (4, 128)).requires_grad_(), plg.golden("net_PLGG_y")
    images = network(z, labels)
    torch.testing.assert_close(kept_pixels(images), plg.golden("net_PLGG_eval"), rtol=0, atol=5e-5)
    (gradient,) = torch.autograd.grad((images * s("net_PLGG_w", (4, 3, 64, 64))).sum(), z)
    torch.testing.assert_close(gradient, plg.golden("net_PLGG_eval_grad_z"), rtol=0, atol=5e-5)
    torch.testing.assert_close(kept_pixels(network.train()(z, labels)), plg.golden("net_PLGG_train"), rtol=0, atol=5e-5)


def test_the_discriminator_moves_its_spectral_norm_once_a_pass():
    network = plg.fill(ProjectionDiscriminator(FULL), "PLGD", "D", 1.0).train()
    images, labels = images64(), plg.golden("net_PLGG_y")
    for name in ("train_1", "train_2"):
        torch.testing.assert_close(network(images, labels), plg.golden(f"net_PLGD_{name}"), rtol=0, atol=1e-5)
    moved = torch.cat([network.linear.weight_u, network.embed.weight_u[:15]])
    torch.testing.assert_close(moved, plg.golden("net_PLGD_u_l6_ly_head"), rtol=0, atol=1e-5)
    torch.testing.assert_close(network.eval()(images, labels), plg.golden("net_PLGD_eval_after"), rtol=0, atol=1e-5)
    assert torch.equal(torch.cat([network.linear.weight_u, network.embed.weight_u[:15]]), moved)


def brought(part, files):
    return official_networks(part, files["generator"], files.get("discriminator"))


@pytest.mark.parametrize("part", list(NETWORKS))
@pytest.mark.parametrize("size", [{}, {"resolution": 64, "width": 1, "z_dim": 7}])
def test_the_networks_are_the_official_ones_whatever_their_size(part, size, tmp_path):
    wanted, found = networks_of(part, **size), brought(part, official_files(part, tmp_path, **size))
    assert found.keys() == wanted.keys() == NETWORKS[part].keys()
    for name, network in found.items():
        kind, config = NETWORKS[part][name]
        assert type(network) is PART_NETWORKS[kind].load() and PART_NETWORKS[kind].config is config
        assert network.config == wanted[name].config and not network.training
        assert not any(parameter.requires_grad for parameter in network.parameters())
        own = wanted[name].state_dict()
        assert all(torch.equal(own[key], value) for key, value in network.state_dict().items())


def judged(part="general_gan", **changes):
    """A change of the generator's file, or of the discriminator's."""
    return lambda folder: (
        official_files(part, folder)
        | {
            name: official_file(networks_of(part)[name], folder / "changed.tar", **change)
            for name, change in changes.items()
        }
    )


@pytest.mark.parametrize(
    ("part", "files", "message"),
    [
        (
            "general_gan",
            judged(generator={"change": lambda s: s.pop("module.l2_5.0.1.weight")}),
            r"as generator of a general_gan: 1 missing keys, first l2_5\.0\.1\.weight",
        ),
        (
            "general_gan",
            judged(generator={"change": lambda s: s["module.l1.0.weight"].fill_(float("nan"))}),
            r"l1\.0\.weight: expected finite numbers",
        ),
        (
            "specific_gan",
            lambda folder: official_files("general_gan", folder),
            r"as discriminator of a specific_gan: expected a tensor fc_layer\.weight of 2 axes",
        ),
        (
            "general_gan",
            lambda folder: {"generator": official_files("general_gan", folder)["generator"]},
            "--discriminator: expected the checkpoint of the discriminator of a general_gan, got none",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(part, files, message, tmp_path):
    with pytest.raises(InputError, match=message) as refusal:
        brought(part, files(tmp_path))
    assert "\n" not in str(refusal.value)


@pytest.fixture
def kept(tmp_path):
    network = ConditionalGenerator(TINY).eval()
    network.norm.running_mean.normal_(generator=torch.Generator().manual_seed(0))
    save_network(network, tmp_path, "generator")
    return network, tmp_path


def test_a_network_is_read_as_it_was_written(kept):
    network, folder = kept
    found = load_network(folder, "generator")
    assert type(found) is ConditionalGenerator and found.config == TINY and network_names(folder) == ["generator"]
    assert not found.training and not any(parameter.requires_grad for parameter in found.parameters())
    w = with_class(torch.randn(2, 4, generator=torch.Generator().manual_seed(1)), 2)
    assert torch.equal(found.synthesize(w), network.synthesize(w))


CPU = torch.device("cpu")
FIRST = {"atol": 1e-3, "rtol": 0}


class OfficialDraws:
    """The images by formula and the latents in the official order: five steps of D, one of G, the rest."""

    def __init__(self, kind, streams):
        self.z, self.streams = golden(f"{kind}_gan_z"), streams
        self.mix = golden("gmi_gan_alpha")

    def at(self, step):
        images = tuple(u(f"{name}/{step}", (4, 3, 64, 64)) for name in self.streams)
        z = self.z[step if step < 5 else step + 1]
        return StepDraw(images=images, z=z, z_generator=self.z[5], mix=self.mix[step])


def six_steps(pair, draws, objective):
    """Of the official script: the losses, of the discriminator [6] and of the generator's one update."""
    losses = []
    for _ in range(6):
        losses.append(update_pair(pair, objective, draws.at(pair.step)))
        pair.step += 1
    [of_generator] = [one["generator"] for one in losses if one["generator"] is not None]
    return torch.tensor([one["discriminator"] for one in losses]), of_generator


def official_pair(judge, name, classes, like=None):
    state = new_pair(PlainGanConfig(classes=classes), GanTraining(batch_size=4), judge, CPU)
    fill(state.generator, "G64")
    fill(state.discriminator, name, like=like)
    return state


def check_norms(network, kind, letter, rel=5e-3):
    names, numbers = (golden(f"{kind}_gan_{letter}_after_{what}") for what in ("names", "sum_norm_first_last"))
    stored = dict(zip(names.tolist(), numbers[:, 1].tolist(), strict=True))
    own = {name: value.double().norm().item() for name, value in network.state_dict().items() if name in stored}
    assert own.keys() == stored.keys() and len(own) > 10
    for name, norm in own.items():
        assert norm == pytest.approx(stored[name], rel=rel, abs=1e-6), name


def answers_of(discriminator):
    """What the discriminator says from now on, call by call."""
    said = []
    discriminator.register_forward_hook(lambda module, given, found: said.append(found))
    return said


def of_steps(said, calls):
    """[6] of lists: what was said in each step of the discriminator, `calls` a step; and what in the generator's."""
    before = 5 * calls
    rest = said[before:-calls]
    return [said[step * calls : (step + 1) * calls] for step in range(5)] + [said[-calls:]], rest


def check_steps(found, name, *, later):
    """As of the official script: three steps closely, the others, which Adam's first signs lead apart, less so."""
    expected = golden(name)
    torch.testing.assert_close(found[:3], expected[:3], check_dtype=False, **FIRST)
    torch.testing.assert_close(found[3:], expected[3:], check_dtype=False, **later)


def test_gmis_training_is_that_of_the_official_script():
    state = official_pair(Critic, "DGWGAN", 0)
    said, later = answers_of(state.discriminator), {"atol": 0, "rtol": 1e-2}
    draws = OfficialDraws("gmi", ["gan_img"])
    losses, of_generator = six_steps(state, draws, Wasserstein(critic=state.discriminator))
    check_steps(losses, "gmi_gan_d_loss", later=later)
    assert of_generator == pytest.approx(golden("gmi_gan_g_loss_step5").item(), abs=1e-2)
    steps, [of_fakes] = of_steps([one.detach() for one in said], 3)  # between fakes and reals, of fakes, of reals
    _, fakes, reals = (torch.stack(one) for one in zip(*steps, strict=True))
    torch.testing.assert_close(of_fakes, golden("gmi_gan_g_logit_step5"), atol=2e-2, rtol=0)
    distance = reals.mean(1) - fakes.mean(1)
    for name, found in (("wd", distance), ("fake_logit", fakes), ("real_logit", reals)):
        check_steps(found, f"gmi_gan_{name}", later={"atol": 5e-2, "rtol": 1e-2})
    check_steps((losses + distance) / 10, "gmi_gan_gp", later=later)
    check_norms(state.generator, "gmi", "G")
    check_norms(state.discriminator, "gmi", "D")


def standin_teacher():
    """Target 0 with a norm without weights before its tanh, in training mode: batch statistics. And what it said."""
    norm, said = torch.nn.BatchNorm1d(16, affine=False), []

    def soft_labels(images, step):
        with torch.no_grad():
            said.append(norm((pooled(images) - 0.5) @ golden("si_T0_A")).tanh() @ golden("si_T0_B"))
        return said[-1].softmax(1)

    return soft_labels, norm, said


def test_keds_training_is_that_of_the_official_script():
    state = official_pair(MinibatchDiscriminator, "KEDD10", 10, like="KEDD")
    soft_labels, norm, taught = standin_teacher()
    objective = InversionSpecific(discriminator=state.discriminator, soft_labels=soft_labels, protocol="paper")
    said, later = answers_of(state.discriminator), {"atol": 0.1, "rtol": 0}
    draws = OfficialDraws("ked", ["gan_img", "gan_unl1", "gan_unl2"])
    losses, made = six_steps(state, draws, objective)
    check_steps(losses, "ked_gan_d_loss", later=later)
    of_generator, entropy, matched = golden("ked_gan_g_loss_entropysum_featurematch_step5").tolist()
    assert made == pytest.approx(of_generator, abs=1e-2)
    steps, (of_fakes, _) = of_steps([one[1].detach() for one in said], 3)  # of the labelled, of reals, of fakes
    labelled, reals, fakes = (torch.stack(one) for one in zip(*steps, strict=True))
    assert entropy_sum(of_fakes).item() == pytest.approx(entropy, abs=5e-2)
    assert made - 1e-4 * entropy_sum(of_fakes).item() == pytest.approx(matched, abs=1e-2)
    for name, found in (
        ("logits_label_first6", labelled[..., :6]),
        ("logits_fake_first6", fakes[..., :6]),
        ("lse_unlabel", reals.logsumexp(2)),
        ("lse_fake", fakes.logsumexp(2)),
    ):
        check_steps(found, f"ked_gan_{name}", later={"atol": 0.5, "rtol": 0})
    teacher = torch.stack(taught)
    torch.testing.assert_close(teacher, golden("ked_gan_teacher_logits"), atol=1e-4, rtol=0)
    moved = torch.stack([norm.running_mean, norm.running_var])
    torch.testing.assert_close(moved, golden("ked_gan_teacher_bn_after_mean_var"), atol=1e-5, rtol=0)
    agreed = (labelled.argmax(2) == teacher.argmax(2)).double().mean(1)
    assert agreed[:3].tolist() == golden("ked_gan_acc")[:3].tolist()
    of_labels = torch.stack([soft_cross_entropy(*one) for one in zip(labelled, teacher.softmax(2), strict=True)])
    check_steps(of_labels, "ked_gan_loss_label", later=later)
    mass, made_mass = reals.logsumexp(2), fakes.logsumexp(2)
    half = 0.5 * (F.softplus(mass) - mass + F.softplus(made_mass)).mean(1)
    check_steps(half, "ked_gan_loss_unlabel", later=later)
    check_norms(state.generator, "ked", "G")
    check_norms(state.discriminator, "ked", "D")


def tiny(epochs=2, **changes):
    recipe = GanTraining(**{"width": 2, "batch_size": 4, "epochs": epochs, "critic_steps": 3, "seed": 5} | changes)
    images = torch.randint(0, 256, (16, 3, 32, 32), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)
    state = new_pair(PlainGanConfig(resolution=32, width=2, classes=3), recipe, MinibatchDiscriminator, CPU)
    labels = torch.tensor([0.2, 0.3, 0.5]).expand(4, 3)
    objective = InversionSpecific(discriminator=state.discriminator, soft_labels=lambda *_: labels, protocol="clean")
    return state, PublicDraws(images, recipe, streams=3, device=CPU), objective


def run(part_context, steps=42, **changes):
    state, draws, objective = tiny(epochs=11, **changes)
    train_pair(
        state, lambda: update_pair(state, objective, draws.at(state.step)), steps=steps, part_context=part_context
    )
    return state


def test_a_resumed_training_is_the_same_training():
    kept = Kept()
    whole = run(kept)
    assert [checkpoint["step"] for checkpoint in kept.states] == list(range(2, 42, 2))
    state = run(Kept(kept.states[7]))
    for part in ("generator", "discriminator"):
        own, other = getattr(whole, part).state_dict(), getattr(state, part).state_dict()
        assert all(torch.equal(own[name], other[name]) for name in own)
    assert torch.equal(torch.tensor(whole.losses).nan_to_num(), torch.tensor(state.losses).nan_to_num())
    assert [row[1] == row[1] for row in whole.losses] == [False, False, True] * 14
    with pytest.raises(InputError, match="gan checkpoint: recipe: expected"):
        run(Kept(kept.states[0]), lr=1e-3)


def test_the_mean_entropy_weighs_as_the_official_sum_at_its_batch():
    _, _, objective = tiny()
    fakes = torch.rand(64, 3, 32, 32)
    draw = StepDraw(images=(fakes, fakes, torch.rand(64, 3, 32, 32)), z=fakes, z_generator=fakes, mix=fakes)
    with torch.no_grad():
        official = InversionSpecific(
            discriminator=objective.discriminator, soft_labels=objective.soft_labels, protocol="paper"
        )
        assert torch.equal(objective.for_generator(fakes, draw), official.for_generator(fakes, draw))


def test_what_cannot_be_trained_is_said():
    with pytest.raises(InputError, match=r"public: expected at least attack.gan.batch_size \(64\) images, got 63"):
        GanTraining().steps(63)
    assert GanTraining(epochs=120).steps(30_000) == 56_160
    state, draws, objective = tiny()
    with torch.no_grad():
        state.discriminator.fc_layer.weight.fill_(torch.inf)
    with pytest.raises(TrainingDiverged, match="diverged at step 0: loss of the discriminator"):
        train_pair(state, lambda: update_pair(state, objective, draws.at(0)), steps=2, part_context=Kept())
