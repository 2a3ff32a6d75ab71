"""Reading tensor files: what torch wrote comes back, everything else is refused in one line and never run."""

import io

import pytest
import torch

from smoothsweep.core.errors import InputError
from smoothsweep.core.models.checkpoints import fitting_state, plain_tensors, read_tensor_file

pytestmark = pytest.mark.usefixtures("quick_programs")


def saved(content, **options) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer, **options)
    return buffer.getvalue()


STATE = {"a.weight": torch.arange(300.0), "epoch": 3}
ZIP, LEGACY = saved(STATE), saved(STATE, _use_new_zipfile_serialization=False)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not a checkpoint", "is no readable weight file"),
        (ZIP[:-50], "is cut short"),
        (LEGACY[:-50], "is no readable weight file"),
    ],
)
def test_damaged_files_are_named_in_one_line(tmp_path, content, message):
    (tmp_path / "x.pth").write_bytes(content)
    with pytest.raises(InputError) as raised:
        read_tensor_file(tmp_path / "x.pth", "test")
    assert message in str(raised.value) and "x.pth" in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ([1], "expected a dictionary of tensors, got list"),
        ({}, "expected a dictionary of tensors, got dict"),
        ({"a": 1}, "'a': expected a tensor, got int"),
        ({1: torch.zeros(1)}, "1: expected a tensor"),
        ({"a": torch.zeros(2, 2).to_sparse()}, "a: expected a dense tensor of real numbers, got .*sparse"),
        ({"a": torch.zeros(2, device="meta")}, "a: expected a dense tensor of real numbers, got .*meta"),
        ({"a": torch.zeros(2, dtype=torch.complex64)}, "a: .* got torch.complex64"),
    ],
)
def test_only_plain_tensors_make_a_state(state, message):
    with pytest.raises(InputError, match=f"^test: {message}"):
        plain_tensors(state, "test")


def test_huge_shapes_over_little_memory_are_refused_before_they_are_touched():
    state = {"a": torch.zeros(1).expand(10**6, 10**6)}
    with pytest.raises(InputError, match=r"expected shape \(2,\), got \(1000000, 1000000\)"):
        fitting_state(state, {"a": torch.zeros(2)}, "test")


def test_numbers_must_be_finite_in_the_networks_precision():
    with pytest.raises(InputError, match=r"^test: a: expected finite numbers"):
        fitting_state({"a": torch.tensor([1e300], dtype=torch.float64)}, {"a": torch.zeros(1)}, "test")


def test_old_files_may_lack_the_counters_of_batchnorm():
    network = torch.nn.BatchNorm2d(3)
    network.num_batches_tracked.fill_(5)
    state = {k: v for k, v in network.state_dict().items() if "num_batches" not in k}
    network.load_state_dict(fitting_state(state, network.state_dict(), "test"))
    assert network.num_batches_tracked == 0
