import ast
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from official_pickle import marker_source, official_modules, write_official_pickle

from smoothsweep.core.errors import InputError
from smoothsweep.core.pickles import opcodes
from smoothsweep.core.priors.base import Prior
from smoothsweep.core.priors.card import StyleGAN2Config
from smoothsweep.core.priors.official import importer
from smoothsweep.core.priors.official.importer import import_prior
from smoothsweep.core.priors.official.layout import FILTER, discriminator_shapes, generator_shapes
from smoothsweep.core.priors.stylegan2 import StyleGAN2
from smoothsweep.core.priors.stylegan2_discriminator import StyleGAN2Discriminator

GOLDEN = {
    name: torch.from_numpy(array)
    for name, array in np.load(Path(__file__).parents[3] / "golden" / "stylegan2.npz", allow_pickle=False).items()
}
SHAPE = {"resolution": 32, "z_dim": 64, "w_dim": 64, "mapping_layers": 2, "channel_base": 512, "channel_max": 32}
TINY = StyleGAN2Config(resolution=8, z_dim=6, w_dim=5, mapping_layers=1, channel_base=32, channel_max=4)
IMAGE, LOGIT = 2e-5, 1e-5


def golden_state(prefix):
    return {
        name.removeprefix(prefix): value
        for name, value in GOLDEN.items()
        if name.startswith(prefix) and not name.endswith(FILTER)
    }


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
    assert imported.facts.protocol == protocol


def test_the_clamp_is_kept(file):
    config = StyleGAN2Config(**SHAPE, conv_clamp=GOLDEN["clamp"].item())
    write_official_pickle(file, config, generator=golden_state("G."), discriminator=golden_state("D."), num_fp16_res=4)
    imported = import_prior(file)
    close(imported.generator.synthesize(GOLDEN["w_psi1"]), "img_psi1_clamp", IMAGE)
    close(imported.discriminator(GOLDEN["img_psi1"]), "logits_psi1_clamp", LOGIT)
    assert imported.facts.networks["G_ema"].arguments["synthesis_kwargs"]["num_fp16_res"] == 4
    assert imported.facts.networks["D"].arguments["num_fp16_res"] == 4


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
    assert isinstance(imported.generator, Prior)
    for network, key in ((imported.generator, "G_ema"), (imported.discriminator, "D")):
        assert network.config == config
        assert not network.training and not any(weight.requires_grad for weight in network.parameters())
        own = network.state_dict()
        assert own.keys() == states[key].keys()
        assert all(torch.equal(value, own[name]) for name, value in states[key].items())


def test_networks_no_longer_depend_on_the_file(file):
    states = write_official_pickle(file, TINY)
    imported = import_prior(file)
    file.write_bytes(b"")
    assert torch.equal(imported.generator.synthesis.b8.conv0.weight, states["G_ema"]["synthesis.b8.conv0.weight"])


def test_facts(file):
    write_official_pickle(file, TINY)
    facts = import_prior(file).facts
    digest = subprocess.run(["sha256sum", file], capture_output=True, text=True, check=True).stdout.split()[0]
    assert (facts.file, facts.bytes, facts.sha256) == ("network.pkl", file.stat().st_size, digest)
    generator, discriminator = facts.networks["G_ema"], facts.networks["D"]
    assert generator.class_name == "Generator" and discriminator.class_name == "Discriminator"
    assert generator.layer_classes["SynthesisLayer"] == 3
    assert discriminator.layer_classes["MinibatchStdLayer"] == 1
    assert (generator.filters_dropped, discriminator.filters_dropped) == (5, 6)
    assert generator.tensors == len(StyleGAN2(TINY).state_dict())
    assert discriminator.numbers == sum(p.numel() for p in StyleGAN2Discriminator(TINY).parameters())
    assert len(generator.source_sha256) == 1 and len(generator.source_sha256[0]) == 64
    assert "non-commercial" in facts.licence


def test_the_text_in_the_file_is_not_run(file, tmp_path):
    marker = tmp_path / "marker"
    write_official_pickle(file, TINY, source=marker_source(marker))
    import_prior(file)
    assert not marker.exists()
    with official_modules(), open(file, "rb") as handle:
        pickle.load(handle)  # the trap is real: the usual way does run it
    assert marker.exists()


def test_nothing_of_the_package_could_run_a_file():
    banned = {"pickle", "pickletools", "marshal", "shelve", "importlib", "runpy", "dill", "cloudpickle"}
    calls = {"eval", "exec", "compile", "__import__", "getattr", "setattr"}
    rooms = [Path(importer.__file__).parent, Path(opcodes.__file__).parent]
    sources = sorted(path for room in rooms for path in room.glob("*.py"))
    assert len(sources) > 10
    for path in sources:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = {alias.name for alias in node.names} | {getattr(node, "module", None)}
                assert not {str(name).split(".")[0] for name in names} & banned, path.name
            if isinstance(node, ast.Name):
                assert node.id not in calls, path.name
            if isinstance(node, ast.Attribute):
                assert ast.unparse(node) != "torch.load", path.name


@pytest.mark.parametrize(
    "config", [TINY, StyleGAN2Config(**SHAPE), StyleGAN2Config(resolution=64, channel_base=256, channel_max=8)]
)
def test_the_written_down_shapes_are_those_of_our_networks(config):
    for shapes, network in (
        (generator_shapes(config), StyleGAN2(config)),
        (discriminator_shapes(config), StyleGAN2Discriminator(config)),
    ):
        ours = {name: tuple(value.shape) for name, value in network.state_dict().items()}
        assert {name: shape for name, shape in shapes.items() if not name.endswith(FILTER)} == ours


def test_the_written_down_shapes_are_the_official_ones():
    config = StyleGAN2Config(**SHAPE)
    for prefix, shapes in (("G.", generator_shapes(config)), ("D.", discriminator_shapes(config))):
        official = {name[2:]: tuple(value.shape) for name, value in GOLDEN.items() if name.startswith(prefix)}
        assert shapes == official
    assert len(generator_shapes(StyleGAN2Config())) == 182 and len(discriminator_shapes(StyleGAN2Config())) == 82


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


def test_reading_loads_no_official_module(file, repository):
    write_official_pickle(file, TINY)
    code = (
        "import sys; from pathlib import Path; from smoothsweep.core.priors.official.importer import import_prior; "
        f"import_prior(Path({str(file)!r})); print(sorted(set(sys.modules) & {{'dnnlib', 'torch_utils', 'training'}}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=repository)
    assert done.stdout.strip() == "[]" and not (repository / "executed").exists()
