from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.metrics.accuracy import expected_calibration_error

GOLDEN = np.load(Path(__file__).parents[2] / "golden" / "metrics.npz")
LOGITS = torch.from_numpy(GOLDEN["ece_logits"])
LABELS = torch.from_numpy(GOLDEN["ece_targets"])


@pytest.mark.parametrize("protocol", ["clean", "paper"])
@pytest.mark.parametrize(("norm", "column"), [("l1", 0), ("l2", 1), ("max", 2)])
def test_equals_torchmetrics(norm, column, protocol):
    expected = GOLDEN["ece_10bins_l1_l2_max"][column]
    ours = expected_calibration_error(LOGITS, LABELS, norm=norm, protocol=protocol)
    assert ours == pytest.approx(expected, abs=2e-7)
    again = expected_calibration_error(
        LOGITS.softmax(1), LABELS, norm=norm, protocol=protocol, scores_are="probabilities"
    )
    assert again == ours


def two_bins() -> tuple[torch.Tensor, torch.Tensor]:
    """Three rows of confidence 0.6, one of them right, and one right row of confidence 0.9."""
    return torch.tensor([[0.6, 0.4]] * 3 + [[0.1, 0.9]]), torch.tensor([0, 1, 1, 1])


@pytest.mark.parametrize(
    ("norm", "expected"),
    [
        ("l1", 0.75 * (0.6 - 1 / 3) + 0.25 * 0.1),
        ("l2", (0.75 * (0.6 - 1 / 3) ** 2 + 0.25 * 0.1**2) ** 0.5),
        ("max", 0.6 - 1 / 3),
    ],
)
def test_closed_form_of_two_bins(norm, expected):
    probabilities, labels = two_bins()
    ours = expected_calibration_error(probabilities, labels, norm=norm, scores_are="probabilities", protocol="clean")
    assert ours == pytest.approx(expected, abs=1e-6)


def test_protocols_differ_for_a_confidence_of_exactly_one():
    """One wrong row at 1.0 and one right row at 0.95: one bin that nearly cancels, or two that do not."""
    probabilities, labels = torch.tensor([[1.0, 0.0], [0.95, 0.05]]), torch.tensor([1, 0])
    options = {"norm": "l1", "scores_are": "probabilities"}
    clean = expected_calibration_error(probabilities, labels, protocol="clean", **options)
    paper = expected_calibration_error(probabilities, labels, protocol="paper", **options)
    assert clean == pytest.approx((1 - 0.05) / 2)
    assert paper == pytest.approx((1 + 0.05) / 2)


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 999), bins=st.integers(1, 20), scale=st.floats(0.1, 30))
def test_norms_are_ordered_and_within_range(seed, bins, scale):
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(30, 4, generator=generator)
    labels = torch.randint(4, (30,), generator=generator)
    options = {"bins": bins, "protocol": "clean"}
    l1, l2, largest = (expected_calibration_error(logits, labels, norm=norm, **options) for norm in ("l1", "l2", "max"))
    assert 0 <= l1 <= l2 + 1e-9
    assert l2 <= largest + 1e-9
    assert largest <= 1 + 1e-9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"norm": "l3"}, "norm"),
        ({"bins": 0}, "bins"),
        ({"scores_are": "probabilities"}, "sum to 1 in every row"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        expected_calibration_error(LOGITS, LABELS, **{"protocol": "clean", **options})
