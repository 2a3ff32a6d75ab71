from __future__ import annotations

from itertools import chain

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from smoothsweep.core.devices import (
    CPU_TENSOR_BYTES,
    DeviceBatch,
    ExecutionConfig,
    arithmetic,
    repeatable_kernels,
    suitable_rows,
)
from smoothsweep.core.errors import InputError

CPU = torch.device("cpu")


@given(total=st.integers(0, 60), first=st.integers(1, 80), limit=st.integers(1, 80))
def test_every_row_is_computed_once_and_in_order_whatever_fits(total, first, limit):
    batch, tried = DeviceBatch(first), []

    def work(rows):
        tried.append(rows.stop - rows.start)
        if tried[-1] > limit:
            raise torch.OutOfMemoryError("too many")
        return list(range(rows.start, rows.stop))

    found = batch.run(work, total)
    assert list(chain.from_iterable(found)) == list(range(total))
    assert max(map(len, found), default=0) <= min(first, limit)
    tried.clear()
    batch.run(work, total)
    assert all(size <= limit for size in tried)  # what did not fit is not tried again


def test_every_halving_is_counted():
    def work(rows):
        if rows.stop - rows.start > 3:
            raise torch.OutOfMemoryError("too many")

    batch = DeviceBatch(16)
    batch.run(work, 16)
    assert (batch.rows, batch.halved) == (2, 3)


def test_slices_are_of_about_equal_length():
    assert [rows.stop - rows.start for rows in DeviceBatch(24).run(lambda rows: rows, 25)] == [13, 12]


def test_memory_is_given_back_before_the_next_try():
    alive = []

    class Tensor:
        def __init__(self):
            alive.append(self)

        def __del__(self):
            freed.append(1)

    freed, seen = [], []

    def work(rows):
        held = Tensor()
        alive.clear()
        seen.append(len(freed))
        if rows.stop - rows.start > 1:
            raise torch.OutOfMemoryError(f"{held}")

    DeviceBatch(2).run(work, 2)
    assert seen == [0, 1, 2]  # at each try all that came before is gone


def test_a_row_that_does_not_fit_is_an_input_error():
    def never(rows):
        raise torch.OutOfMemoryError("no")

    with pytest.raises(InputError, match=r"optimisation: expected device memory for at least one image"):
        DeviceBatch(8, what="optimisation").run(never, 3)


def test_other_errors_pass():
    def broken(rows):
        raise RuntimeError("not memory")

    with pytest.raises(RuntimeError, match="not memory"):
        DeviceBatch(8).run(broken, 3)


def test_rows_on_a_cpu_follow_from_the_largest_tensor():
    def probe(rows):
        x = torch.zeros(rows, CPU_TENSOR_BYTES // 4 // 5, requires_grad=True)
        torch.autograd.grad(x.exp().sum(), x)

    assert suitable_rows(probe, CPU, most=100) == 5
    assert suitable_rows(probe, CPU, most=3) == 3


def test_weights_do_not_count():
    weights = torch.zeros(CPU_TENSOR_BYTES // 4 // 10, 2)

    def probe(rows):
        x = torch.zeros(rows, 10, requires_grad=True)
        torch.autograd.grad((x[:, :2] @ weights.T).sum() + x.exp().sum(), x)

    assert suitable_rows(probe, CPU, most=100) == 100


def test_a_row_larger_than_the_limit_goes_alone():
    def probe(rows):
        x = torch.zeros(rows, CPU_TENSOR_BYTES // 4 + 1, requires_grad=True)
        torch.autograd.grad(x.exp().sum(), x)

    assert suitable_rows(probe, CPU, most=100) == 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"precision": "fp16"}, "expected one of fp32, tf32, bf16, got 'fp16'"),
        ({"rows_per_batch": 0}, "expected None or a number >= 1, got 0"),
        ({"compile": True, "cuda_graphs": True}, "at most one"),
    ],
)
def test_wrong_settings_are_input_errors(wrong, message):
    with pytest.raises(InputError, match=message):
        ExecutionConfig(**wrong)


@pytest.mark.parametrize("config", [{"cuda_graphs": True}, {"precision": "tf32"}])
def test_what_a_cpu_cannot_do_is_an_input_error(config):
    with pytest.raises(InputError, match="CUDA device, got cpu"):
        ExecutionConfig(**config).check_device(CPU)
    ExecutionConfig(**config).check_device(torch.device("cuda"))


@pytest.mark.parametrize(("precision", "wanted"), [("fp32", False), ("bf16", False), ("tf32", True)])
def test_tf32_is_on_only_when_asked_for(precision, wanted):
    def now():
        return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32

    before = now()
    with arithmetic(precision):
        assert now() == (wanted, wanted)
    assert now() == before


@pytest.mark.parametrize("precision", ["fp32", "tf32"])
def test_repeatable_kernels_keep_the_arithmetic_that_is_in_force(precision):
    with arithmetic(precision), repeatable_kernels():
        flags = torch.backends.cudnn
        assert (flags.allow_tf32, flags.deterministic, flags.benchmark) == (precision == "tf32", True, False)
    assert not torch.backends.cudnn.deterministic
