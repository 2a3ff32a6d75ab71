import ast
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from official_pickle import marker_source, official_modules, write_official_pickle

from smoothsweep.core.pickles import opcodes
from smoothsweep.core.priors.base import Prior
from smoothsweep.core.priors.official import importer
from smoothsweep.core.priors.official.importer import import_prior
from smoothsweep.core.priors.official.layout import FILTER, discriminator_shapes, generator_shapes
from smoothsweep.core.priors.stylegan2 import StyleGAN2
from smoothsweep.core.priors.stylegan2_discriminator import StyleGAN2Discriminator
from smoothsweep.core.priors.stylegan2_settings import StyleGAN2Config

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
