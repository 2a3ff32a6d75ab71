"""The low-resolution GANs as parts: what they are trained on, and under whose name they refuse their settings."""

import pytest
import torch

from smoothsweep.core.attacks.distillation.config import Distillation
from smoothsweep.core.attacks.gan.config import GanTraining
from smoothsweep.core.attacks.registry import PARTS
from smoothsweep.core.attacks.shared.base import AttackInputs
from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.attacks.shared.view import view_of
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.errors import InputError
from tests.nonsense import nonsense_for

CPU, CLASSES = torch.device("cpu"), 3
SETTINGS = {
    "general_gan": (GanTraining, "gan"),
    "specific_gan": (GanTraining, "gan"),
    "students": (Distillation, "students"),
}


class Silent:
    """A context that keeps nothing."""

    def last_state(self):
        return None

    def keep_state(self, state):
        pass

    def progress(self, fraction, text):
        pass


@pytest.fixture(scope="module")
def public():
    """Larger than the networks, to which it is reduced."""
    random = torch.Generator().manual_seed(2)
    return torch.randint(0, 256, (8, 3, 40, 40), generator=random, dtype=torch.uint8)


def looked():
    """A target by a formula, seen with its gradients."""
    target = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    return view_of(target, "gradients", num_classes=CLASSES, image_size=32, execution=Execution(ExecutionConfig(), CPU))


@pytest.mark.parametrize("kind", SETTINGS)
def test_a_part_refuses_its_settings_under_the_keys_of_the_sweep_file(kind, public):
    (declared, key), view = SETTINGS[kind], looked()
    for field, value in dict(nonsense_for(declared)).items():
        with pytest.raises(InputError) as refusal:
            PARTS[kind].function()({field: value}, AttackInputs(protocol="clean", public=public), view, Silent())
        assert str(refusal.value).startswith(f"attack.{key}.{field}: expected "), (field, value, str(refusal.value))
