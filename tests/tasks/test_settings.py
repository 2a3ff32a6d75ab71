"""What a stage's configuration is refused for, without the work."""

import pytest

from smoothsweep.core.errors import InputError
from smoothsweep.tasks.settings import check_training

RECIPE = {"architecture": "resnet_small", "image_size": 32, "epochs": 4, "batch_size": 8, "augmentation": {}}


def test_a_training_with_a_smoothing_that_cannot_be_is_refused():
    constant = {"alpha": -0.1, "schedule": {"kind": "constant"}}
    check_training({**RECIPE, "defense": constant}, {})
    for wrong in ({"kind": "sideways"}, {"kind": "step", "at": 2.0}):
        with pytest.raises(InputError):
            check_training({**RECIPE, "defense": {"alpha": -0.1, "schedule": wrong}}, {})


def test_a_training_with_images_that_the_network_cannot_take_is_refused():
    with pytest.raises(InputError, match="inception_v3"):
        check_training({**RECIPE, "architecture": "inception_v3"}, {})
