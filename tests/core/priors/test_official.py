"""Official StyleGAN2 pickles: the same numbers come in, everything else is one line, and nothing of a file is run."""

import json
import os
import pickle
import struct
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from official_pickle import marker_source, official_modules, official_networks, write_official_pickle

from smoothsweep.core.errors import InputError
from smoothsweep.core.priors.official import MANIFEST, import_prior, write_imported_prior
from smoothsweep.core.priors.registry import load_discriminator, load_prior, save_prior
from smoothsweep.core.priors.settings import DISCRIMINATOR, StyleGAN2Config
from smoothsweep.core.priors.stylegan2 import StyleGAN2

GOLDEN = {
    name: torch.from_numpy(array)
    for name, array in np.load(Path(__file__).parents[2] / "golden" / "stylegan2.npz", allow_pickle=False).items()
}
SHAPE = {"resolution": 32, "z_dim": 64, "w_dim": 64, "mapping_layers": 2, "channel_base": 512, "channel_max": 32}
TINY = StyleGAN2Config(resolution=8, z_dim=6, w_dim=5, mapping_layers=1, channel_base=32, channel_max=4)
IMAGE, LOGIT = 2e-5, 1e-5


def golden_state(prefix):
    named = {name.removeprefix(prefix): value for name, value in GOLDEN.items() if name.startswith(prefix)}
    return {name: value for name, value in named.items() if not name.endswith("resample_filter")}


def close(actual, name, tolerance):
    torch.testing.assert_close(actual, GOLDEN[name], atol=tolerance, rtol=0)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "network.pkl"


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_imported_networks_compute_the_golden_numbers(file, protocol):
    states = {"generator": golden_state("G."), "discriminator": golden_state("D.")}
    write_official_pickle(file, StyleGAN2Config(**SHAPE), protocol=protocol, **states)
    imported = import_prior(file)
    w = imported.generator.map(GOLDEN["z"].double())
    close(w, "w_psi1", 5e-6)
    close(imported.generator.synthesize(w), "img_psi1", IMAGE)
    close(imported.generator.synthesize(GOLDEN["wplus"]), "img_wplus", IMAGE)
    close(imported.discriminator(GOLDEN["img_psi1"]), "logits_psi1", LOGIT)
    close(imported.discriminator(GOLDEN["img_psi1"][:2]), "logits_psi1_first2", LOGIT)
    assert imported.facts["protocol"] == protocol


def test_the_clamp_is_kept(file):
    config = StyleGAN2Config(**SHAPE, conv_clamp=GOLDEN["clamp"].item())
    write_official_pickle(file, config, generator=golden_state("G."), discriminator=golden_state("D."), num_fp16_res=4)
    imported = import_prior(file)
    close(imported.generator.synthesize(GOLDEN["w_psi1"]), "img_psi1_clamp", IMAGE)
    close(imported.discriminator(GOLDEN["img_psi1"]), "logits_psi1_clamp", LOGIT)
    assert imported.facts["networks"]["G_ema"]["arguments"]["synthesis_kwargs"]["num_fp16_res"] == 4
    assert imported.facts["networks"]["D"]["arguments"]["num_fp16_res"] == 4


@pytest.mark.parametrize(
    "options",
    [
        {"converted": True},
        {"container": dict, "protocol": 5},
        {"channels_last": True},
        {"frozen": ("b8.fromrgb", "b8.conv0", "b8.skip")},
    ],
    ids=str,
)
@pytest.mark.parametrize("group", [4, None])
def test_every_way_of_writing_gives_the_same_tensors(file, options, group):
    config = StyleGAN2Config(
        resolution=8, z_dim=6, w_dim=5, mapping_layers=2, channel_base=32, channel_max=4, mbstd_group=group
    )
    states = write_official_pickle(file, config, seed=5, **options)
    imported = import_prior(file)
    for network, key in ((imported.generator, "G_ema"), (imported.discriminator, "D")):
        assert network.config == config
        assert not network.training and not any(weight.requires_grad for weight in network.parameters())
        own = network.state_dict()
        assert own.keys() == states[key].keys()
        assert all(torch.equal(value, own[name]) for name, value in states[key].items())


def test_facts_and_the_text_in_the_file_that_is_not_run(file, tmp_path):
    marker = tmp_path / "marker"
    write_official_pickle(file, TINY, source=marker_source(marker))
    facts = import_prior(file).facts
    assert not marker.exists()
    assert (facts["file"], facts["bytes"]) == ("network.pkl", file.stat().st_size)
    generator, discriminator = facts["networks"]["G_ema"], facts["networks"]["D"]
    assert generator["class_name"] == "Generator" and discriminator["class_name"] == "Discriminator"
    assert generator["tensors"] == len(StyleGAN2(TINY).state_dict())
    assert len(generator["source_sha256"]) == 1 and len(generator["source_sha256"][0]) == 64
    with official_modules(), open(file, "rb") as handle:
        pickle.load(handle)  # a harmless marker of our own: plain unpickling does run it
    assert marker.exists()


def test_defaults_are_the_official_ones(file):
    config = StyleGAN2Config(resolution=8, z_dim=3, w_dim=2, mapping_layers=8, channel_base=32768, channel_max=512)

    def bare(data):
        for network, names in (("G_ema", ("mapping_kwargs", "synthesis_kwargs")), ("D", ("epilogue_kwargs",))):
            for name in names:
                data[network].state["_init_kwargs"].pop(name, None)
        for name in ("channel_base", "channel_max", "num_fp16_res", "conv_clamp", "block_kwargs"):
            del data["D"].state["_init_kwargs"][name]

    write_official_pickle(file, config, edit=bare)
    assert import_prior(file).generator.config == config


def refusal(path):
    with pytest.raises(InputError) as caught:
        import_prior(path)
    message = str(caught.value)
    assert message.isprintable() and str(path) in message and len(message) < 800
    return message


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"<!DOCTYPE html><html></html>", "a web page"),
        (b"PK\x03\x04", "a zip archive"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
        (b"\x93NUMPY", "expected a StyleGAN2-ADA pickle"),
        (pickle.dumps({}, 3), "expected a dict with G, D, G_ema, got a dict"),
        (pickle.dumps({"G": 1, "D": 2, "G_ema": 3}, 3), "G: expected a Generator, got 'int'"),
        (pickle.dumps({}, 3) + b"x", "bytes follow the pickle"),
        (b"\x80\x04", "expected a StyleGAN2-ADA pickle"),
        (b"\x80\x02cdnnlib.tflib.network\nNetwork\nq\x00)\x81.", "a TensorFlow StyleGAN2 pickle"),
        (b"\x80\x04\x8c\x14dnnlib.tflib.network\x94\x8c\x07Network\x94\x93)\x81.", "a TensorFlow StyleGAN2 pickle"),
        (b"\x80\x02c_codecs\nencode\n.", "write the file again with protocol 3"),
    ],
)
def test_other_files_are_refused(file, content, words):
    file.write_bytes(content)
    assert words in refusal(file)


def test_what_is_no_file_is_refused(tmp_path):
    assert "No such file" in refusal(tmp_path / "absent.pkl")
    assert "expected a regular file" in refusal(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert "expected a regular file" in refusal(tmp_path / "pipe")


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
        (set_argument("G_ema", "z_dim", value=None), "z_dim: expected a valid integer"),
        (both("img_resolution", "img_resolution", 24), "resolution: expected a power of two"),
        (both("synthesis_kwargs.channel_max", "channel_max", 3), "torgb.weight: expected shape [3, 3, 1, 1], got"),
        (set_argument("G_ema", "synthesis_kwargs", "use_noise", value=False), "use_noise: expected True, got False"),
        (both("synthesis_kwargs.conv_clamp", "conv_clamp", -1), "conv_clamp: expected"),
        (set_argument("G_ema", "synthesis_kwargs", "conv_clamp", value=256), "conv_clamp: G_ema has 256, D has None"),
        (set_argument("G_ema", "synthesis_kwargs", "magic", value=1), "unknown constructor argument 'magic'"),
        (
            set_argument("G_ema", "synthesis_kwargs", "resample_filter", value=[1, 2, 1]),
            "expected [1, 3, 3, 1], got [1, 2, 1]",
        ),
        (set_argument("G_ema", "mapping_kwargs", "lr_multiplier", value=0.1), "lr_multiplier: expected 0.01, got 0.1"),
        (set_argument("G_ema", "mapping_kwargs", "layer_features", value=7), "layer_features: expected None or w_dim"),
        (set_argument("G_ema", "mapping_kwargs", value=[]), "mapping_kwargs: expected a dict, got []"),
        (set_argument("G_ema", "channel_base", value=16384), "unknown constructor argument 'channel_base'"),
        (set_argument("D", "channel_max", value=8), "channel_max: G_ema has 4, D has 8"),
        (set_argument("G_ema", "w_dim", value=7), "G_ema.mapping: w_dim: expected 7, got 5"),
        (set_argument("D", "epilogue_kwargs", "mbstd_group_size", value=8), "b4.mbstd: group_size: expected 8, got 4"),
        (set_state("G_ema", "", "_init_args", (6, 0)), "expected constructor arguments given by keyword"),
        (set_state("D", "b8.conv1", "activation", "relu"), "D.b8.conv1: activation: expected 'lrelu', got 'relu'"),
        (set_state("G_ema", "mapping.fc0", "bias_gain", 0.1), "mapping.fc0: bias_gain: expected 0.01, got 0.1"),
        (set_state("D", "b8", "_modules", None), "D.b8: _modules: expected a dict"),
        (set_state("D", "b8", "_buffers", {"x": 1}), "D.b8.x: expected one tensor, got 1"),
        (
            drop("G_ema", "synthesis.b4", "_parameters", "const"),
            "1 tensors are missing, the first is synthesis.b4.const",
        ),
        (
            set_tensor("G_ema", "mapping.fc0", "_parameters", "weight", poisoned),
            "mapping.fc0.weight: expected finite numbers",
        ),
        (
            set_tensor("D", "b4.fc", "_parameters", "bias", torch.Tensor.double),
            "b4.fc.bias: expected float32 or float16, got torch.float64",
        ),
        (
            set_tensor("D", "b4.fc", "_parameters", "bias", lambda t: t[:-1].clone()),
            "b4.fc.bias: expected shape [4], got [3]",
        ),
        (set_tensor("D", "b8", "_buffers", "resample_filter", lambda t: t.flip(0) * 1.01), "the filter of [1, 3, 3, 1"),
        (lambda data: data.pop("D"), "expected a dict with G, D, G_ema"),
        (lambda data: data.update(optimizer=None), "unknown key 'optimizer'"),
        (lambda data: data.update(G_ema=data["D"]), "G_ema: expected a Generator, got 'Discriminator'"),
        (lambda data: data["G_ema"].meta.update(version=5), "expected a class of version 6, got 5"),
        (lambda data: data["G_ema"].child("synthesis").meta.update(class_name="SynthesisInput"), "'SynthesisInput' is"),
        (
            lambda data: data["G_ema"].state.update(extra=Path("x")),
            "a file that names pathlib.PosixPath, which was not run",
        ),
    ],
)
def test_other_networks_are_refused_by_name(file, edit, words):
    write_official_pickle(file, TINY, edit=edit)
    message = refusal(file)
    assert words in message, message


@cache
def valid(protocol):
    """A valid file of each protocol, some 60 kB."""
    with official_modules():
        return pickle.dumps(official_networks(TINY, source=marker_source("executed"))[0], protocol)


@settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))
@given(st.sampled_from([3, 4, 5]), st.floats(0, 1, exclude_max=True), st.integers(0, 40), st.binary(max_size=12))
def test_changed_files_give_complete_networks_or_one_line(file, protocol, where, removed, inserted):
    content = valid(protocol)
    start = int(where * len(content))
    file.write_bytes(content[:start] + inserted + content[start + removed :])
    try:
        imported = import_prior(file)
    except InputError as error:
        assert str(error).isprintable() and len(str(error)) < 800
    else:
        assert imported.generator.config == TINY
        for network in (imported.generator, imported.discriminator):
            assert all(value.isfinite().all() for value in network.state_dict().values())


class Evil:
    """Pickles as a call: the simplest attack on a reader that unpickles."""

    def __init__(self, call, *arguments):
        self.call, self.arguments = call, arguments

    def __reduce__(self):
        return self.call, self.arguments


@pytest.mark.parametrize("protocol", [3, 4, 5])
@pytest.mark.parametrize("where", ["top", "key", "state", "arguments", "parameters", "hook"])
def test_calls_hidden_anywhere_are_refused(file, tmp_path, protocol, where):
    marker = tmp_path / "marker"
    evil = Evil(exec, marker_source(marker))

    def edit(data):
        generator = data["G_ema"].state
        {
            "top": lambda: data.update(augment_pipe=evil),
            "key": lambda: data.update(G=evil),
            "state": lambda: generator.update(anything=evil),
            "arguments": lambda: generator["_init_kwargs"].update(z_dim=evil),
            "parameters": lambda: data["D"].child("b4.fc").state["_parameters"].update(weight=evil),
            "hook": lambda: generator["_forward_hooks"].update({1: evil}),
        }[where]()

    write_official_pickle(file, TINY, protocol=protocol, edit=edit)
    assert "builtins.exec" in refusal(file) and not marker.exists()


def test_a_pickle_inside_a_storage_is_not_run(file, tmp_path):
    marker = tmp_path / "marker"
    nested = pickle.dumps(Evil(exec, marker_source(marker)), 2)
    for blob in (nested, pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(1001, 2) + nested):
        body = b"ctorch.storage\n_load_from_bytes\nB" + struct.pack("<I", len(blob)) + blob + b"\x85R."
        file.write_bytes(b"\x80\x03" + body)
        refusal(file)
        assert not marker.exists()


SETS = b"](" + (b"\x8f(" + b"".join(b"X\x04\x00\x00\x00%04d" % i for i in range(30)) + b"\x90") * 4000 + b"e."
BOMBS = {
    "deep tuples": b")" + b"\x85" * 140_000 + b".",
    "sets that grow": SETS,
    "one tuple of a gigabyte": b"(" + (b"(" + b"N" * 3000 + b"tq\x00" + b"h\x00" * 3000) * 40 + b"t.",
    "an array of numpy's": b"cnumpy\ndtype\nX\x0a\x00\x00\x00(9999999)f8\x85R.",
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_end_in_one_line(file, monkeypatch, name):
    monkeypatch.setenv("SMOOTHSWEEP_PROGRAM_GIB", "1")
    file.write_bytes(b"\x80\x04" + BOMBS[name])
    refusal(file)


def test_layers_that_share_layers_are_not_unfolded(file):
    def edit(data):
        for _ in range(5):
            for network in ("G_ema", "D"):
                modules = data[network].state["_modules"]
                modules.update({f"again{i}": data[network] for i in range(40)})

    write_official_pickle(file, TINY, edit=edit)
    assert "expected at most" in refusal(file)


def equal(first, second):
    theirs = second.state_dict()
    return all(torch.equal(value, theirs[name]) for name, value in first.state_dict().items())


def test_an_import_is_kept_once_and_never_written_over(file, tmp_path):
    write_official_pickle(file, TINY, num_fp16_res=1)
    imported, target = import_prior(file), tmp_path / "new" / "prior"
    write_imported_prior(imported, target)
    names = sorted(path.name for path in target.iterdir())
    assert names == ["discriminator.safetensors", "import.json", "prior.json", "weights.safetensors"]
    generator, discriminator = load_prior(target), load_discriminator(target)
    assert generator.config == discriminator.config == TINY
    assert equal(generator, imported.generator) and equal(discriminator, imported.discriminator)
    manifest = json.loads((target / MANIFEST).read_text())
    assert manifest == imported.facts and "non-commercial" in manifest["licence"]
    assert str(tmp_path) not in json.dumps(manifest)
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in target.iterdir()}
    write_imported_prior(imported, target)
    write_official_pickle(tmp_path / "other.pkl", TINY, seed=9)
    with pytest.raises(InputError, match="it already holds another import"):
        write_imported_prior(import_prior(tmp_path / "other.pkl"), target)
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in target.iterdir()} == before
    weights = (target / DISCRIMINATOR).read_bytes()
    (target / DISCRIMINATOR).write_bytes(weights[:-4] + b"\0\0\0\0")
    with pytest.raises(InputError, match="it already holds another import"):
        write_imported_prior(imported, target)
    (tmp_path / "mine").mkdir()
    with pytest.raises(InputError, match="expected a new directory or this very import"):
        write_imported_prior(imported, tmp_path / "mine")


def test_a_prior_without_discriminator(tmp_path):
    save_prior(StyleGAN2(TINY), tmp_path / "prior")
    with pytest.raises(InputError, match=r"discriminator\.safetensors: expected a safetensors file"):
        load_discriminator(tmp_path / "prior")
    eigenfaces = {"kind": "eigenfaces", "config": {"resolution": 8, "components": 4}}
    (tmp_path / "prior" / "prior.json").write_text(json.dumps(eigenfaces))
    with pytest.raises(InputError, match="kind: expected stylegan2 with a discriminator, got 'eigenfaces'"):
        load_discriminator(tmp_path / "prior")
