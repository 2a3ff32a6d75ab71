"""Reading tensor files: what torch wrote comes back, everything else is refused in one line and never run."""

import io
import os
import pickle
import zipfile

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from smoothsweep.core.errors import InputError
from smoothsweep.core.models.pretrained import fitting_state, plain_tensors, read_tensor_file, strip_wrappers


class Hostile:
    """Runs a command when it is unpickled the usual way."""

    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


def saved(content, **options) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer, **options)
    return buffer.getvalue()


STATE = {"a.weight": torch.arange(300.0), "epoch": 3}
ZIP, LEGACY = saved(STATE), saved(STATE, _use_new_zipfile_serialization=False)


@pytest.mark.parametrize("content", [ZIP, LEGACY], ids=["zip", "legacy"])
def test_both_formats_of_torch_are_read(tmp_path, content):
    (tmp_path / "x.pth").write_bytes(content)
    got = read_tensor_file(tmp_path / "x.pth", "test")
    assert got["epoch"] == 3
    assert torch.equal(plain_tensors({"a": got["a.weight"]}, "test")["a"], STATE["a.weight"])


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("wrap", [lambda h: h, lambda h: {"model_state_dict": {}, "extra": h}, lambda h: [h]])
def test_hostile_pickles_are_refused_and_not_run(tmp_path, wrap, legacy):
    witness = tmp_path / "witness"
    content = saved(wrap(Hostile(f"touch {witness}")), _use_new_zipfile_serialization=not legacy)
    (tmp_path / "x.pth").write_bytes(content)
    with pytest.raises(InputError) as raised:
        read_tensor_file(tmp_path / "x.pth", "test")
    assert "holds more than tensors (posix.system); refused" in str(raised.value) and "\n" not in str(raised.value)
    assert not witness.exists()


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_plain_pickles_are_refused_and_not_run(tmp_path, protocol):
    witness = tmp_path / "witness"
    (tmp_path / "x.pth").write_bytes(pickle.dumps(Hostile(f"touch {witness}"), protocol=protocol))
    with pytest.raises(InputError, match=r"^test: .*x\.pth"):
        read_tensor_file(tmp_path / "x.pth", "test")
    assert not witness.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"<html>", "is a web page saved as weights"),
        (b"not a checkpoint", "is no readable weight file"),
        (ZIP[:-50], "is cut short"),
        (LEGACY[:-50], "is no readable weight file"),
        (b"PK\x03\x04" + bytes(500), "is cut short"),
    ],
)
def test_damaged_files_are_named_in_one_line(tmp_path, content, message):
    (tmp_path / "x.pth").write_bytes(content)
    with pytest.raises(InputError) as raised:
        read_tensor_file(tmp_path / "x.pth", "test")
    assert message in str(raised.value) and "x.pth" in str(raised.value) and "\n" not in str(raised.value)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"^test: no file .*absent"):
        read_tensor_file(tmp_path / "absent.pth", "test")


def test_archives_that_grow_when_read_are_refused(tmp_path):
    """A few kilobytes of zeros, compressed, would become gigabytes."""
    stored = io.BytesIO(saved({"a": torch.zeros(500_000)}))
    with zipfile.ZipFile(stored) as source, zipfile.ZipFile(tmp_path / "x.pth", "w", zipfile.ZIP_DEFLATED) as target:
        for member in source.infolist():
            target.writestr(member.filename, source.read(member))
    assert (tmp_path / "x.pth").stat().st_size < 20_000
    with pytest.raises(InputError, match="is a compressed archive"):
        read_tensor_file(tmp_path / "x.pth", "test")


@settings(max_examples=150, deadline=None)
@given(st.booleans(), st.floats(0, 1, exclude_max=True), st.integers(0, 255))
@example(legacy=False, where=0.9866528155613562, value=1)  # the end claims several disks: is_zipfile itself raises
def test_no_damaged_byte_escapes_as_another_error(tmp_path_factory, legacy, where, value):
    content = LEGACY if legacy else ZIP
    position = int(where * len(content))
    path = tmp_path_factory.mktemp("flip") / "x.pth"
    path.write_bytes(content[:position] + bytes([value]) + content[position + 1 :])
    try:
        read_tensor_file(path, "test")
    except InputError as error:
        assert "\n" not in str(error)


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


def test_parameters_become_plain_tensors():
    state = plain_tensors({"a": torch.nn.Parameter(torch.ones(2))}, "test")
    assert type(state["a"]) is torch.Tensor and not state["a"].requires_grad


def test_wrappers_are_dropped_only_in_front():
    assert strip_wrappers("module.model._orig_mod.fc.weight") == "fc.weight"
    assert strip_wrappers("features.model.weight") == "features.model.weight"


def test_huge_shapes_over_little_memory_are_refused_before_they_are_touched():
    state = {"a": torch.zeros(1).expand(10**6, 10**6)}
    with pytest.raises(InputError, match=r"expected shape \(2,\), got \(1000000, 1000000\)"):
        fitting_state(state, {"a": torch.zeros(2)}, "test")


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_numbers_must_be_finite(bad):
    with pytest.raises(InputError, match=r"^test: a: expected finite numbers"):
        fitting_state({"a": torch.tensor([0.0, bad])}, {"a": torch.zeros(2)}, "test")


def test_numbers_must_be_finite_in_the_networks_precision():
    with pytest.raises(InputError, match=r"^test: a: expected finite numbers"):
        fitting_state({"a": torch.tensor([1e300], dtype=torch.float64)}, {"a": torch.zeros(1)}, "test")


def test_old_files_may_lack_the_counters_of_batchnorm():
    network = torch.nn.BatchNorm2d(3)
    network.num_batches_tracked.fill_(5)
    state = {k: v for k, v in network.state_dict().items() if "num_batches" not in k}
    network.load_state_dict(fitting_state(state, network.state_dict(), "test"))
    assert network.num_batches_tracked == 0
