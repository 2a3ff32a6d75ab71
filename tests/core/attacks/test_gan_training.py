"""Training of the pairs against the official scripts, and its resumption."""

import pytest
import torch
import torch.nn.functional as F

from smoothsweep.core.attacks.gan_networks import Critic, MinibatchDiscriminator
from smoothsweep.core.attacks.gan_training import (
    InversionSpecific,
    PublicDraws,
    StepDraw,
    Wasserstein,
    entropy_sum,
    gradient_penalty,
    new_pair,
    soft_cross_entropy,
    train_pair,
    update_pair,
)
from smoothsweep.core.attacks.registry import PARTS
from smoothsweep.core.attacks.shared.base import AttackInputs
from smoothsweep.core.attacks.training_settings import Distillation, GanTraining, PlainGanConfig
from smoothsweep.core.errors import InputError, TrainingDiverged
from tests.core.attacks.looking import Kept, seen
from tests.lowres import fill, golden, pooled, u
from tests.nonsense import nonsense_for

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


def test_the_penalty_is_the_official_one():
    x, y = u("gp_x", (4, 3, 64, 64)), u("gp_y", (4, 3, 64, 64))

    def critic(images):
        return (((pooled(images) - 0.5) @ golden("si_D_A")).tanh() @ golden("si_D_b")).flatten()

    found = gradient_penalty(critic, x, y, golden("gmi_gp_alpha"))
    torch.testing.assert_close(found.detach(), golden("gmi_gp_standin"), check_dtype=False, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("lse", lambda logits: logits.logsumexp(1)),
        ("softxent", lambda logits: soft_cross_entropy(logits, golden("ked_teacher_logits").softmax(1))),
        ("entropy_sum", entropy_sum),
    ],
)
def test_keds_losses_and_gradients(name, function):
    logits = golden("ked_logits").requires_grad_(True)
    found = function(logits)
    torch.testing.assert_close(found.detach(), golden(f"ked_{name}"), check_dtype=False, atol=1e-5, rtol=0)
    found.sum().backward()
    torch.testing.assert_close(logits.grad, golden(f"ked_{name}_grad"), atol=1e-5, rtol=0)


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
        state,
        lambda: update_pair(state, objective, draws.at(state.step)),
        steps=steps,
        part_context=part_context,
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


@pytest.mark.parametrize(
    ("kind", "declared", "key"),
    [
        ("general_gan", GanTraining, "gan"),
        ("specific_gan", GanTraining, "gan"),
        ("students", Distillation, "students"),
    ],
)
def test_a_part_refuses_its_settings_under_the_keys_of_the_sweep_file(kind, declared, key):
    target = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    public = torch.randint(0, 256, (8, 3, 40, 40), dtype=torch.uint8)  # larger than the networks, and reduced to them
    view = seen(target, classes=3, side=32)
    for field, value in dict(nonsense_for(declared)).items():
        with pytest.raises(InputError) as refusal:
            PARTS[kind].function()({field: value}, AttackInputs(protocol="clean", public=public), view, Kept())
        assert str(refusal.value).startswith(f"attack.{key}.{field}: expected "), (field, value, str(refusal.value))
