"""What the isolated process says of an error, and with what it asks a loader."""

import pytest
import torch

from smoothsweep.core.isolation.serving import _failure, load_libraries


@pytest.mark.parametrize(
    ("error", "memory"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), "device"),
        (MemoryError("no more"), "host"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), "host"),
        (RuntimeError("shape '[3]' is invalid"), ""),
    ],
)
def test_whose_memory_was_too_small_is_said(error, memory):
    assert _failure(error)["memory"] == memory


def test_a_convolution_and_a_product_are_computed_before_anything_is_given_up():
    assert load_libraries(torch.device("cpu")) == 8 * 8 + 8 * 8 * 8


def test_the_first_and_the_last_line_are_kept_and_bounded():
    said = _failure(RuntimeError(f"first\n\n  middle \n {'x' * 2000} \n\n"))
    assert said["first"] == "first" and said["error"] == "x" * 1000
    assert _failure(ValueError())["error"] == _failure(ValueError())["first"] == "ValueError"
