"""Which classes of a pass are tried, and what counts as the same."""

import pytest
import torch

from smoothsweep.core.attacks.shared.execution import (
    same_bits,
)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ([1.0, float("nan")], [1.0, float("nan")], True),
        ([0.0], [-0.0], False),
        ([1.0], [1.0 + 2**-23], False),
        ([1.0], [1.0, 1.0], False),
    ],
)
def test_bits_are_compared_not_values(one, other, expected):
    assert same_bits(torch.tensor(one), torch.tensor(other)) is expected
