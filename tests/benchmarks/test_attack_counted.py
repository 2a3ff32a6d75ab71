"""What is counted of a step is what is known of it, and the filter's joined form is the two steps that it joins."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.attack_counted import CONVOLUTIONS, FILTER, OTHER, Counting, lines_of, step_counts
from benchmarks.gpu_filter import with_filter
from smoothsweep.core.priors.stylegan2_ops import low_pass


@pytest.mark.parametrize("frozen", [True, False])
def test_a_convolution_is_counted(frozen):
    network = nn.Conv2d(3, 5, 3, bias=False, device="meta").requires_grad_(not frozen)
    images = torch.empty(2, 3, 6, 6, device="meta", requires_grad=True)
    with Counting() as counting:
        network(images).sum().backward()
    forward = 2 * (2 * 4 * 4 * 5) * (3 * 3 * 3)
    assert counting.found.flops == forward * (2 if frozen else 3)
    assert counting.found.weight_gradients == (0 if frozen else 1)
    elements = 2 * 3 * 6 * 6, 5 * 3 * 3 * 3, 2 * 5 * 4 * 4  # of images, weights and what is made of them
    assert counting.found.kernels[CONVOLUTIONS] == 2
    assert counting.found.bytes[CONVOLUTIONS] == 4 * (2 * sum(elements) + elements[0] + (0 if frozen else elements[1]))


def test_what_waits_for_a_number_stops():
    with Counting(), pytest.raises(RuntimeError, match="meta"):
        bool(torch.empty(2, device="meta").sum() > 0)


def test_no_step_of_the_attack_waits_or_has_gradients_of_weights():
    found = {precision: step_counts(precision, smoke=True) for precision in ("tf32", "bf16")}
    for precision, (counts, rows) in found.items():
        assert rows == 25 and counts.weight_gradients == 0
        assert set(counts.kernels) == {FILTER, CONVOLUTIONS, OTHER} and min(counts.kernels.values()) > 0
        assert len(lines_of(precision, counts, rows)) == 5
    whole, half = (sum(counts.bytes.values()) for counts, _ in found.values())
    assert 0.5 < half / whole < 0.55 and found["tf32"][0].flops == found["bf16"][0].flops


def test_a_convolution_joined_with_its_filter_is_both():
    draws = torch.Generator().manual_seed(0)
    weight = torch.randn(4, 8, 3, 3, generator=draws, dtype=torch.float64)
    x = torch.randn(2, 8, 7, 5, generator=draws, dtype=torch.float64)
    kernel = 4 * torch.outer(torch.tensor([1.0, 4.0, 2.0, 0.5]), torch.tensor([3.0, 1.0, 0.25, 2.0])).double()
    both = low_pass(F.conv_transpose2d(x, weight.transpose(0, 1), stride=2), kernel, padding=1)
    joined = F.conv_transpose2d(x, with_filter(weight, kernel), stride=2, padding=2)
    torch.testing.assert_close(both, joined, atol=1e-12, rtol=1e-12)
