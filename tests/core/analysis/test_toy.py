from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from smoothsweep.core.analysis import toy
from smoothsweep.core.errors import InputError, TrainingDiverged

GOLDEN = np.load(Path(__file__).parents[2] / "golden" / "toy.npz")


def check_against_the_notebook(result: toy.ToyResult, suffix: str, stride: int) -> None:
    """Steps exactly; positions and confidences with room for another CPU's rounding (here they agree to 1e-6)."""
    steps, distance, loss = GOLDEN[f"toy_steps_distance_loss_{suffix}"]
    assert result.attack.steps == steps
    assert result.attack.distance == pytest.approx(distance, abs=1e-3)
    assert result.train_loss == pytest.approx(loss, abs=1e-5)
    assert result.attack.stopped
    path = result.attack.path.numpy()
    np.testing.assert_allclose(path[::stride], GOLDEN[f"toy_path_{suffix}"], rtol=0, atol=1e-3)
    np.testing.assert_allclose(path[-1], GOLDEN[f"toy_endpoint_{suffix}"], rtol=0, atol=1e-3)
    confidence = result.confidence[::5, ::5].numpy()
    np.testing.assert_allclose(confidence, GOLDEN[f"toy_conf_{suffix}"], rtol=0, atol=1e-3)
    endless = GOLDEN[f"toy_nostop5000_distance_{suffix}"][0]
    assert result.endless.distance == pytest.approx(endless, abs=2e-3)
    assert len(result.endless.path) == 5001
    assert not result.endless.stopped


@pytest.fixture(scope="module")
def shielded() -> toy.ToyResult:
    return toy.run_toy(-0.05)


def test_negative_smoothing_equals_the_notebook(shielded):
    check_against_the_notebook(shielded, "am005", stride=1)
    assert shielded.attack.steps == 53
    assert shielded.attack.distance == pytest.approx(6.75, abs=0.005)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("alpha", "suffix", "stride", "steps", "distance"),
    [(0.0, "a0", 12, 763, 3.23), (0.05, "a005", 51, 3113, 0.65)],
)
def test_hard_labels_and_positive_smoothing_equal_the_notebook(alpha, suffix, stride, steps, distance):
    result = toy.run_toy(alpha)
    check_against_the_notebook(result, suffix, stride)
    assert result.attack.steps == steps
    assert result.attack.distance == pytest.approx(distance, abs=0.006)


def test_data_equal_the_notebooks():
    points, labels = toy.make_blobs_data()
    assert np.array_equal(points.numpy(), GOLDEN["toy_X"].astype(np.float32))
    assert np.array_equal(labels.numpy(), GOLDEN["toy_y"])
    assert labels.bincount().tolist() == [167, 167, 166]


def test_initial_weights_equal_the_notebooks_and_the_global_random_state_stays():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    state = toy.build_toy_net().state_dict()
    assert torch.equal(torch.rand(3), expected)
    names = [name for name in GOLDEN if name.startswith("toy_init_param_")]
    assert len(names) == 9
    for name in names:
        ours = state[name.removeprefix("toy_init_param_").replace("_", ".")]
        np.testing.assert_allclose(ours.numpy(), GOLDEN[name], rtol=0, atol=1e-7)


def test_training_that_blows_up_says_under_which_alpha():
    with pytest.raises(TrainingDiverged, match=r"after 5 steps under alpha -1e\+38"):
        toy.train_toy(-1e38, steps=5)
    with pytest.raises(InputError, match="at most 1"):
        toy.train_toy(1.1, steps=1)


class Slope(nn.Module):
    """Logits (0, x, y): climbing towards class 2 moves right exactly as far as the softmax says."""

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.zeros_like(points[:, :1]), points], dim=1)


def test_attack_takes_the_step_that_follows_the_confident_point():
    attack = toy.attack_toy(Slope(), start=(0.0, 0.0), stop_at=0.5, lr=1.0)
    confidences = torch.cat([torch.zeros(len(attack.path), 1), attack.path], dim=1).softmax(1)[:, 2]
    torch.testing.assert_close(attack.path[1], torch.tensor([-1 / 3, 2 / 3]))
    assert attack.stopped
    assert len(attack.path) == attack.steps + 2
    assert confidences[attack.steps] > 0.5  # before the last update
    assert (confidences[: attack.steps] <= 0.5).all()
    points, labels = toy.make_blobs_data()
    away = (points[labels == 2] - attack.path[-1]).norm(dim=1).min().item()
    assert attack.distance == pytest.approx(away)
