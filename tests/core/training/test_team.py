"""Two processes train what one does, gradient penalty and spectral norm included; but for batch norm, as is said."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from smoothsweep.core.attacks.gan.config import GanTraining
from smoothsweep.core.attacks.registry import PARTS, make_attack
from smoothsweep.core.errors import InputError
from smoothsweep.core.training.team import ALONE
from tests.core.training.shared_trainings import TRAININGS

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """What each of two gloo processes came to."""
    place = tmp_path_factory.mktemp("ranks")
    program = [sys.executable, "-m", "tests.core.training.two_ranks"]
    run = [
        subprocess.Popen([*program, str(rank), str(place / "store"), str(place / f"{rank}.pt")], cwd=ROOT)
        for rank in (0, 1)
    ]
    assert [one.wait(300) for one in run] == [0, 0]
    return [torch.load(place / f"{rank}.pt", weights_only=True) for rank in (0, 1)]


@pytest.mark.parametrize("name", list(TRAININGS))
def test_two_ranks_train_what_one_process_does(name, ranks):
    """Where no batch norm looks at other rows, to rounding: losses, both networks, the vectors of the spectral norm."""
    alone = TRAININGS[name](ALONE, True)
    assert alone.keys() == ranks[0][name].keys()
    for key, value in alone.items():
        torch.testing.assert_close(ranks[0][name][key], value, rtol=2e-3, atol=2e-4, equal_nan=True)


@pytest.mark.parametrize("name", list(TRAININGS))
def test_ranks_agree_to_the_bit_and_batch_norm_makes_another_training(name, ranks):
    for key in (name, f"{name}, moving"):
        for tensor, value in ranks[0][key].items():
            assert torch.equal(value.nan_to_num(), ranks[1][key][tensor].nan_to_num()), tensor
    alone, together = TRAININGS[name](ALONE, False)["losses"], ranks[0][f"{name}, moving"]["losses"]
    assert not torch.allclose(alone.nan_to_num(), together.nan_to_num(), rtol=1e-4)


def test_who_may_have_workers_has_them_in_its_stage_and_who_may_not_says_so():
    trained = {name for name, part in PARTS.items() if part.trains}
    assert trained == {*TRAININGS, "specific_gan", "surrogates"}  # the last two have one worker
    two = {"workers": 2}
    for kind, settings in (("gmi", {"gan": two}), ("plg_mi", {"gan": two}), ("lomma_gmi", {"students": two})):
        parts = {part.name: part for part in make_attack(kind, **settings).parts}
        [shared] = [part for part in parts.values() if part.workers == 2]
        assert shared.name in TRAININGS and "workers" not in shared.settings
    for kind in ("ked", "lomma_ked"):
        with pytest.raises(InputError, match=r"attack\.gan\.workers: expected 1: its discriminator compares .* got 2"):
            make_attack(kind, gan=two)
    with pytest.raises(InputError, match=r"attack\.gan\.workers: expected a divisor of attack\.gan\.batch_size \(64\)"):
        GanTraining(workers=3)
