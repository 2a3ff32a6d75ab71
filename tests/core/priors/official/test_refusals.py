"""Files of something else, and networks of another kind: each is refused by what differs."""

import os
import pickle
from pathlib import Path

import pytest
import torch
from official_pickle import write_official_pickle

from smoothsweep.core.errors import InputError
from smoothsweep.core.priors.official import importer
from smoothsweep.core.priors.official.importer import import_prior
from smoothsweep.core.priors.stylegan2_settings import StyleGAN2Config

TINY = StyleGAN2Config(resolution=8, z_dim=6, w_dim=5, mapping_layers=1, channel_base=32, channel_max=4)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "network.pkl"


def refusal(path):
    with pytest.raises(InputError) as caught:
        import_prior(path)
    message = str(caught.value)
    assert "\n" not in message and str(path) in message and len(message) < 600
    return message


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "expected a file of 1 to"),
        (b"<!DOCTYPE html><html></html>", "a web page"),
        (b"PK\x03\x04", "a zip archive"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
        (b"\x93NUMPY", "offset 0: byte 0x93: expected the opcode PROTO first"),
        (pickle.dumps({}, 0), "expected the opcode PROTO first"),
        (pickle.dumps({}, 3), "expected a dict with G, D, G_ema, got a dict of 0"),
        (pickle.dumps({"G": 1, "D": 2, "G_ema": 3}, 3), "G: expected a network, got 1"),
        (pickle.dumps({}, 3) + b"x", "offset 6: 1 bytes follow the pickle"),
        (b"\x80\x06.", "expected protocol 3 to 5, once, got 6"),
        (b"\x80\x04", "offset 2: end of data"),
    ],
)
def test_other_files_are_refused(file, content, words):
    file.write_bytes(content)
    message = refusal(file)
    assert words in message, message


def test_what_is_no_file_is_refused(tmp_path):
    assert "cannot be read: No such file" in refusal(tmp_path / "absent.pkl")
    assert "expected a regular file" in refusal(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert "expected a regular file" in refusal(tmp_path / "pipe")


def test_a_file_above_the_limit_is_refused(file):
    with open(file, "wb") as handle:
        handle.truncate(importer.MAX_FILE_BYTES + 1)
    assert "got 1073741825" in refusal(file)


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_tensorflow_pickles_are_told_apart(file, protocol):
    module, name = b"dnnlib.tflib.network", b"Network"
    if protocol == 4:
        text = b"\x8c\x14" + module + b"\x94\x8c\x07" + name + b"\x94\x93"
    else:
        text = b"c" + module + b"\n" + name + b"\n"
    file.write_bytes(bytes([0x80, protocol]) + text + b"q\x00)\x81q\x01}q\x02b.")
    message = refusal(file)
    assert "TensorFlow" in message and "stylegan2-ada-pytorch/pretrained/ffhq.pkl" in message


def test_protocol_2_is_refused_with_a_way_out(file):
    write_official_pickle(file, TINY, protocol=2)
    assert "write the file again with protocol 3" in refusal(file)


def set_argument(*path, value):
    def edit(data):
        target = data[path[0]].state["_init_kwargs"]
        for name in path[1:-1]:
            target = target[name]
        target[path[-1]] = value

    return edit


def both(generator_path, discriminator_path, value):
    def edit(data):
        set_argument("G_ema", *generator_path.split("."), value=value)(data)
        set_argument("D", *discriminator_path.split("."), value=value)(data)

    return edit


def set_state(network, layer, name, value):
    def edit(data):
        target = data[network].child(layer) if layer else data[network]
        target.state[name] = value

    return edit


def set_tensor(network, layer, container, name, change):
    def edit(data):
        entries = data[network].child(layer).state[container]
        entries[name] = change(entries[name].data)

    return edit


def drop(network, layer, container, name):
    return lambda data: data[network].child(layer).state[container].pop(name)


def poisoned(value):
    return torch.where(torch.arange(value.numel()).reshape(value.shape) == 1, torch.nan, value)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (set_argument("G_ema", "c_dim", value=10), "G_ema: c_dim: expected 0, got 10"),
        (set_argument("D", "c_dim", value=10), "D: c_dim: expected 0, got 10"),
        (set_argument("G_ema", "img_channels", value=1), "img_channels: expected 3, got 1"),
        (set_argument("G_ema", "z_dim", value=None), "z_dim: expected a whole number"),
        (set_argument("G_ema", "z_dim", value=True), "z_dim: expected a whole number"),
        (both("img_resolution", "img_resolution", 24), "resolution: expected a power of two"),
        (both("synthesis_kwargs.channel_max", "channel_max", 3), "give shape [3, 4, 4], the file has [4, 4, 4]"),
        (set_argument("G_ema", "synthesis_kwargs", "architecture", value="resnet"), "architecture: expected 'skip'"),
        (set_argument("G_ema", "synthesis_kwargs", "use_noise", value=False), "use_noise: expected True, got False"),
        (set_argument("G_ema", "synthesis_kwargs", "conv_clamp", value=-1), "conv_clamp: expected a number > 0 or No"),
        (set_argument("G_ema", "synthesis_kwargs", "conv_clamp", value=256), "conv_clamp: G_ema has 256, D has None"),
        (set_argument("G_ema", "synthesis_kwargs", "magic", value=1), "unknown constructor argument 'magic'"),
        (set_argument("G_ema", "synthesis_kwargs", "resample_filter", value=[1, 2, 1]), "expected [1, 3, 3, 1], got a"),
        (set_argument("G_ema", "mapping_kwargs", "lr_multiplier", value=0.1), "lr_multiplier: expected 0.01, got 0.1"),
        (set_argument("G_ema", "mapping_kwargs", "layer_features", value=7), "layer_features: expected None or w_dim"),
        (set_argument("G_ema", "mapping_kwargs", value=[]), "mapping_kwargs: expected a dict, got a list of 0"),
        (set_argument("G_ema", "channel_base", value=16384), "unknown constructor argument 'channel_base'"),
        (set_argument("D", "architecture", value="orig"), "architecture: expected 'resnet', got 'orig'"),
        (set_argument("D", "epilogue_kwargs", "mbstd_num_channels", value=2), "mbstd_num_channels: expected 1, got 2"),
        (set_argument("D", "channel_max", value=8), "channel_max: G_ema has 4, D has 8"),
        (set_argument("G_ema", "img_resolution", value=16), "img_resolution: G_ema has 16, D has 8"),
        (set_argument("G_ema", "w_dim", value=7), "G_ema.mapping: w_dim: expected 7, got 5"),
        (set_argument("G_ema", "mapping_kwargs", "num_layers", value=2), "mapping: num_layers: expected 2, got 1"),
        (set_argument("D", "epilogue_kwargs", "mbstd_group_size", value=8), "b4.mbstd: group_size: expected 8, got 4"),
        (set_state("G_ema", "", "_init_args", (6, 0)), "expected constructor arguments given by keyword"),
        (set_state("G_ema", "synthesis.b8.conv0", "conv_clamp", 256), "b8.conv0: conv_clamp: expected None, got 256"),
        (set_state("D", "b8.conv1", "activation", "relu"), "D.b8.conv1: activation: expected 'lrelu', got 'relu'"),
        (set_state("G_ema", "mapping.fc0", "bias_gain", 0.1), "mapping.fc0: bias_gain: expected 0.01, got 0.1"),
        (set_state("D", "b8", "_modules", None), "D.b8: _modules: expected a dict"),
        (set_state("D", "b8", "_modules", {"a.b": None}), "expected the name of a layer or tensor, got 'a.b'"),
        (set_state("D", "b8", "_buffers", {"x": 1}), "D.b8.x: expected a tensor, got 1"),
        (drop("G_ema", "synthesis.b4", "_parameters", "const"), "1 tensors are missing, the first is synthesis.b4.con"),
        (drop("D", "b8.conv0", "_buffers", "resample_filter"), "missing, the first is b8.conv0.resample_filter"),
        (drop("G_ema", "synthesis", "_modules", "b8"), "19 tensors are missing"),
        (set_tensor("G_ema", "mapping.fc0", "_parameters", "weight", poisoned), "fc0.weight: expected finite numbers"),
        (set_tensor("D", "b4.fc", "_parameters", "bias", torch.Tensor.half), "fc.bias: expected float32, got float16"),
        (set_tensor("D", "b4.fc", "_parameters", "bias", lambda t: t[:-1].clone()), "the file has [3]"),
        (set_tensor("D", "b8", "_buffers", "resample_filter", lambda t: t.flip(0) * 1.01), "the filter of [1, 3, 3, 1"),
        (lambda data: data.pop("D"), "expected a dict with G, D, G_ema"),
        (lambda data: data.update(optimizer=None), "unknown key 'optimizer'"),
        (lambda data: data.update(G_ema=data["D"]), "G_ema: expected a Generator, got 'Discriminator'"),
        (lambda data: data["G"].meta.update(version=5), "_reconstruct_persistent_obj: expected version 6, got 5"),
        (lambda data: data["G_ema"].child("synthesis").meta.update(class_name="SynthesisInput"), "'SynthesisInput' is"),
        (lambda data: data["G_ema"].state.update(extra=Path("x")), "is not of a StyleGAN2-ADA file"),
    ],
)
def test_other_networks_are_refused_by_name(file, edit, words):
    write_official_pickle(file, TINY, edit=edit)
    message = refusal(file)
    assert words in message, message
