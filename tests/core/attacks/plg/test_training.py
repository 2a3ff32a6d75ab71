"""Training of PLG-MI's conditional GAN: the official steps to the digit, resumed exactly, and refusals."""

import copy

import pytest
import torch

from smoothsweep.core.attacks.gan.conditional_config import ConditionalConfig
from smoothsweep.core.attacks.optimisation.losses import attack_loss
from smoothsweep.core.attacks.plg.config import ConditionalTraining
from smoothsweep.core.attacks.plg.draws import Draws, Fakes, Reals, dequantised
from smoothsweep.core.attacks.plg.gan_part import make_gan
from smoothsweep.core.attacks.plg.training import critic_hinge, generator_hinge, new_state, target_images, train
from smoothsweep.core.attacks.shared.base import AttackInputs
from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.attacks.shared.view import view_of
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.errors import InputError, TrainingDiverged
from smoothsweep.core.seeds import generator
from tests.lowres import blocky, pooled
from tests.plg import fill, golden, official

CLASSES, SIDE = 3, 16
RECIPE = ConditionalTraining(steps=5, critic_steps=2, batch_size=4, z_dim=4, width=2)
CONFIG = ConditionalConfig(classes=CLASSES, resolution=SIDE, z_dim=4, width=2)
CPU = torch.device("cpu")


class OfficialDraws:
    """What the official run drew, in its order: G, five times D, and again; nothing is distorted."""

    def for_generator(self, step):
        return self._fakes(6 * step)

    def for_critic(self, step, update):
        number = 5 * step + update
        reals = Reals(images=blocky(f"plg_gan_real/{number}", 4), labels=golden("plg_gan_real_y")[number])
        return self._fakes(6 * step + 1 + update), reals

    def _fakes(self, number):
        return Fakes(z=golden("plg_gan_z")[number], labels=golden("plg_gan_y")[number])


def standing_in(images):
    """The stand-in target 0 on images in [-1, 1]."""
    pixels = pooled((images + 1) / 2)
    return torch.tanh((pixels - 0.5) @ golden("si_T0_A")) @ golden("si_T0_B")


@pytest.fixture
def official_run():
    config = ConditionalConfig(classes=7, z_dim=16, width=4, output="unit")
    recipe = ConditionalTraining(steps=2, batch_size=4, z_dim=16, width=4)
    state = new_state(config, recipe, "paper", CPU)
    fill(state.generator, "PLGGs", "G", 1.4)
    fill(state.discriminator, "PLGDs", "D", 1.4)
    return state


def test_the_first_fakes_are_the_official_ones(official_run):
    fakes = OfficialDraws().for_generator(0)
    made = official_run.generator(fakes.z, fakes.labels)
    torch.testing.assert_close(made[..., ::4, ::4], golden("plg_gan_fake_first"), rtol=0, atol=1e-5)


def test_two_iterations_are_the_official_ones(official_run):
    verdicts = []
    official_run.discriminator.register_forward_hook(lambda module, inputs, found: verdicts.append(found.detach()))
    train(official_run, OfficialDraws(), standing_in)
    asked = torch.stack(verdicts).view(2, 11, 4, 1)  # in the step of G; then of fakes and reals, in turns
    for found, name in ((asked[:, 0], "fake_in_g"), (asked[:, 1::2], "fake"), (asked[:, 2::2], "real")):
        torch.testing.assert_close(found.reshape(-1, 4, 1), golden(f"plg_gan_dis_{name}"), rtol=0, atol=1e-4)
    losses = torch.tensor(official_run.losses, dtype=torch.float64)
    critic = golden("plg_gan_loss_dis").view(2, 5).mean(1)
    expected = torch.stack([golden("plg_gan_loss_gen"), golden("plg_gan_loss_inv"), critic], dim=1)
    torch.testing.assert_close(losses, expected, rtol=0, atol=1e-4)
    total = losses[:, 0] + official_run.recipe.inversion_weight * losses[:, 1]
    torch.testing.assert_close(total, golden("plg_gan_loss_all"), rtol=0, atol=1e-4)
    for which, network in (("G", official_run.generator), ("D", official_run.discriminator)):
        ours = {official(name, which): value.double() for name, value in network.state_dict().items()}
        names = [str(name) for name in golden(f"plg_gan_{which}_after_names")]
        assert set(names) == {name for name in ours if not name.endswith("num_batches_tracked")}
        norms = torch.stack([ours[name].norm() for name in names])
        torch.testing.assert_close(norms, golden(f"plg_gan_{which}_after_sum_norm_first_last")[:, 1], rtol=5e-3, atol=0)


def test_the_hinge_losses_are_the_official_ones():
    fakes, reals = (golden(f"plg_dis_{name}").requires_grad_() for name in ("fake", "real"))
    loss = critic_hinge(fakes, reals)
    torch.testing.assert_close(loss, golden("plg_disloss_hinge"), rtol=0, atol=1e-5)
    for found, name in zip(torch.autograd.grad(loss, (fakes, reals)), ("fake", "real"), strict=True):
        torch.testing.assert_close(found, golden(f"plg_disloss_hinge_grad_{name}"), rtol=0, atol=1e-5)
    torch.testing.assert_close(generator_hinge(fakes), golden("plg_genloss_hinge"), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "loss", "tolerance"),
    [("maxmargin", "max_margin", 1e-5), ("ce", "cross_entropy", 1e-5), ("poincare", "poincare", 1e-3)],
)
def test_the_inversion_losses_are_the_official_ones(name, loss, tolerance):
    logits = golden("plg_logits").requires_grad_()
    found = attack_loss(loss, "paper")(logits, golden("plg_labels")).mean()
    torch.testing.assert_close(found, golden(f"plg_{name}"), rtol=0, atol=tolerance)
    (gradient,) = torch.autograd.grad(found, logits)
    torch.testing.assert_close(gradient, golden(f"plg_{name}_grad"), rtol=0, atol=tolerance)


@pytest.fixture
def draws():
    images = torch.randint(256, (9, 3, SIDE, SIDE), generator=generator(0), dtype=torch.uint8)
    index = torch.stack([torch.randperm(9, generator=generator(c))[:4] for c in range(CLASSES)])
    return Draws(images, index, CONFIG, RECIPE, "clean")


def linear(images):
    weight = torch.randn(3 * SIDE * SIDE, CLASSES, generator=generator("target"))
    return images.flatten(1) @ weight / SIDE


def same(one, other):
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert torch.equal(value, other[name]) if isinstance(value, torch.Tensor) else value == other[name], name


def test_a_training_that_diverges_says_where(draws):
    state = new_state(CONFIG, RECIPE, "clean", CPU)
    calls = []

    def breaking(images):
        calls.append(len(images))
        return linear(images) * (1 if len(calls) < 3 else torch.nan)

    with pytest.raises(TrainingDiverged, match="diverged at step 2"):
        train(state, draws, breaking)


def test_every_pair_of_image_and_label_is_shown_once_in_every_round(draws):
    """Twelve pairs in batches of four: three batches are a round."""
    seen = []
    for step in range(3):
        for update in range(RECIPE.critic_steps):
            reals = draws.for_critic(step, update)[1]
            raw = ((reals.images + 1) * 128).floor().to(torch.uint8)
            seen += [(image.numpy().tobytes(), label) for image, label in zip(raw, reals.labels.tolist(), strict=True)]
    assert len(set(seen[:12])) == len(set(seen[12:])) == 12 and seen[:12] != seen[12:]


def test_bytes_become_the_range_of_the_generator():
    images, noise = torch.tensor([0.0, 255.0]), torch.tensor([0.0, 1.0])
    assert dequantised(images, noise, "unit").tolist() == pytest.approx([0, 1 + 1 / 256])
    assert dequantised(images, noise, "signed").tolist() == pytest.approx([-1, 1])
    made = torch.tensor([-1.0, 0.0, 1.0])
    assert target_images(made, None, "signed").tolist() == [-1, 0, 1]
    assert target_images(made, None, "unit").tolist() == [-3, -1, 1]  # what is below 0 reaches the target as it is


class Kept:
    """A context in memory."""

    def __init__(self, state=None):
        self.state, self.kept, self.told = state, [], []

    def last_state(self):
        return self.state

    def keep_state(self, state):
        self.kept.append(copy.deepcopy(state))

    def progress(self, fraction, text):
        self.told.append((fraction, text))


def part(access="gradients", classes=CLASSES, part_context=None, protocol="clean", steps=20):
    public = torch.randint(256, (9, 3, 24, 24), generator=generator(0), dtype=torch.uint8)
    index = torch.stack([torch.randperm(9, generator=generator(c))[:4] for c in range(classes)])
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * SIDE * SIDE, CLASSES))
    torch.nn.init.normal_(network[1].weight, std=0.1, generator=generator(1))
    torch.nn.init.zeros_(network[1].bias)
    view = view_of(network, access, num_classes=CLASSES, image_size=SIDE, execution=Execution(ExecutionConfig(), "cpu"))
    settings = {**vars(RECIPE), "betas": list(RECIPE.betas), "steps": steps}
    asked = AttackInputs(protocol=protocol, public=public, parts={"plg_labels": {"index": index}})
    return make_gan(settings, asked, view, part_context or Kept()), view


def test_the_part_goes_on_from_its_state_and_tells_how_far_it_is():
    part_context = Kept()
    whole, view = part(part_context=part_context)
    assert view.queries == 20 * RECIPE.batch_size and part_context.told[-1] == (1.0, "step 20/20")
    assert [state["step"] for state in part_context.kept] == list(range(1, 20))
    resumed, view = part(part_context=Kept(part_context.kept[11]))
    assert view.queries == 8 * RECIPE.batch_size
    same(whole.networks["generator"].state_dict(), resumed.networks["generator"].state_dict())
    assert torch.equal(whole.tensors["losses"], resumed.tensors["losses"]) and whole.facts == resumed.facts
    assert not whole.networks["generator"].training


def test_protocols_differ_in_the_range_of_the_generator():
    outputs = {
        protocol: part(protocol=protocol, steps=1)[0].networks["generator"].config.output
        for protocol in ("paper", "clean")
    }
    assert outputs == {"paper": "unit", "clean": "signed"}


def test_labels_of_another_number_of_classes_and_a_target_without_gradients_are_one_line():
    with pytest.raises(InputError, match="plg_labels: expected images of the target's 3 classes, got 4"):
        part(classes=4)
    with pytest.raises(InputError, match="expected access to its gradients for the conditional GAN"):
        part(access="labels")
