"""Checkpoints in safetensors are read as those of torch.save are: the same weights, the same refusals."""

import hashlib
import json
import struct

import pytest
import torch
from safetensors.torch import save_file
from torchvision.models import resnet18

from smoothsweep.core.cards.network_weights import read_weights, write_weights
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.official_targets import import_target
from smoothsweep.core.models.pretrained import read_tensor_file


@pytest.fixture(scope="module")
def state():
    torch.manual_seed(5)
    return {f"model.{key}": value.contiguous() for key, value in resnet18(num_classes=7).state_dict().items()}


def both(state, folder):
    """The same weights in both formats; of neither does the suffix say which it is."""
    folder.mkdir(exist_ok=True)
    save_file(state, folder / "a.ckpt")
    torch.save(state, folder / "b.ckpt")
    return folder / "a.ckpt", folder / "b.ckpt"


def brought(path, **changes):
    options = {"architecture": "resnet18", "num_classes": 7, "transform_input": None, "protocol": "paper"}
    return import_target(path, **{**options, **changes})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_both_formats_give_the_same_network(state, tmp_path, dtype):
    cast = {key: value.to(dtype) if value.is_floating_point() else value for key, value in state.items()}
    (model, facts), (other, same) = (brought(path) for path in both(cast, tmp_path))
    for name, value in model.state_dict().items():
        assert torch.equal(value, other.state_dict()[name]), name
    images = torch.rand(3, 3, 64, 64)
    assert torch.equal(model(images), other(images)) and model(images).std() > 0
    assert (facts.wrapping, facts.prefix, facts.tensors) == (same.wrapping, same.prefix, same.tensors)
    assert facts.sha256 == hashlib.sha256((tmp_path / "a.ckpt").read_bytes()).hexdigest() != same.sha256


@pytest.mark.parametrize("changes", [{"num_classes": 6}, {"architecture": "resnet34"}, {"architecture": "vgg16_bn"}])
def test_what_does_not_fit_is_refused_in_one_line(state, tmp_path, changes):
    for path in both(state, tmp_path):
        with pytest.raises(InputError, match=str(path)) as raised:
            brought(path, **changes)
        assert "\n" not in str(raised.value)


def written(path, header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


@pytest.mark.parametrize(
    "header",
    [
        b"{",
        b'{"a": 1}',
        {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}},
        {"a": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}},
        {"a": {"dtype": "F32", "shape": [2**62, 4], "data_offsets": [0, 8]}},
        {"a": {"dtype": "F99", "shape": [2], "data_offsets": [0, 8]}},
    ],
)
def test_a_damaged_file_is_one_line(tmp_path, header):
    with pytest.raises(InputError) as raised:
        read_tensor_file(written(tmp_path / "x.safetensors", header, bytes(8)), "checkpoint")
    assert "no readable weight file" in str(raised.value) and "\n" not in str(raised.value)


def test_a_type_that_is_no_real_number_is_named(state, tmp_path):
    whole = {"model.fc.weight": torch.ones(7, 512, dtype=torch.int8)}
    save_file(state | whole, tmp_path / "x.safetensors")
    with pytest.raises(InputError, match=r"fc.weight: .*got torch.int8"):
        brought(tmp_path / "x.safetensors")


def test_a_header_of_many_mebibytes_is_not_read(tmp_path):
    header = b"{" + b" " * (17 * 2**20) + b"}"
    with pytest.raises(InputError, match=r"expected a header of at most 16 MiB, got 17.0 MiB"):
        read_tensor_file(written(tmp_path / "x.safetensors", header), "checkpoint")


def test_half_precision_weights_of_ours_still_fit_and_others_are_named(tmp_path):
    torch.manual_seed(0)
    linear = torch.nn.Linear(3, 2)

    def make(config):
        return torch.nn.Linear(3, 2)

    write_weights(linear, tmp_path / "w.safetensors", torch.float16)
    again = read_weights(make, None, tmp_path / "w.safetensors")
    assert torch.equal(again.weight, linear.weight.half().float())
    save_file({name: value.double() for name, value in linear.state_dict().items()}, tmp_path / "d.safetensors")
    with pytest.raises(InputError, match=r"expected float32 or float16, got torch\.float64"):
        read_weights(make, None, tmp_path / "d.safetensors")
