"""Every key of an attack, its parts and its reconstructions reaches the artifact: see test_settings_travel.py."""

import shutil

import pytest
from pipeline import Pipeline

from smoothsweep.core.priors.registry import save_discriminator, save_prior
from smoothsweep.core.priors.settings import StyleGAN2Config
from smoothsweep.core.priors.stylegan2 import StyleGAN2, StyleGAN2Discriminator
from smoothsweep.tasks.files import load_tensors, save_tensors
from tests.tasks.settings_tables import (
    ATTACK,
    BREP_MI,
    CANDIDATES,
    IF_GMI,
    MID,
    POOL,
    POOL_SETTINGS,
    RANDOM_LATENTS,
    RLB_MI,
    STARTS,
)
from tests.tasks.travelling import made, training

COMMON = {"seed": [9, 1], "classes": [1], "image_size": 32, "protocol": "paper"}
SELECTED = {
    **COMMON,
    "selected": 3,
    "selection_repeats": 4,
    "pool": POOL_SETTINGS,
    "selection_crop_scale": [0.5, 0.9],
    "selection_crop_ratio": [0.8, 1.2],
}
LATENTS = {**COMMON, "truncation_psi": 0.5, "truncation_cutoff": 8, "image_crop": 28}


@pytest.fixture(scope="session")
def hunted(paper: Pipeline, tmp_path_factory):
    """(configurations, inputs) of pool, candidates, temperature and attack in which every key has an effect.

    A StyleGAN2 of several w vectors with its discriminator, and a target with a noisy bottleneck.
    """
    folder = tmp_path_factory.mktemp("hunted")
    network = StyleGAN2Config(resolution=32, z_dim=8, w_dim=8, mapping_layers=1, channel_base=64, channel_max=8)
    generator = StyleGAN2(network, seed=1)
    generator.synthesis.b32.torgb.weight.data.mul_(30)  # beyond [-1, 1], where clipping shows
    save_prior(generator, folder / "prior")
    save_discriminator(StyleGAN2Discriminator(network, seed=2), folder / "prior")
    target = training(defense=MID, workers=1, protocol="paper", epochs=1)
    made("target", target, {"data": paper.folder("data")}, folder / "target")
    configs = {
        "pool": {"part": "pool", "settings": POOL_SETTINGS, "image_size": 32, "protocol": "paper"},
        "candidates": {"part": "candidates", "settings": {}, "image_size": 32, "protocol": "paper"},
        "temperature": {"part": "temperature", "settings": {"mean_confidence": 0.5}, "image_size": 32},
        "attack": {
            "kind": "ppa",
            "loss": "poincare",
            "candidates": 5,
            "steps": 2,
            "lr": 0.05,
            "betas": [0.1, 0.1],
            "crop_scale": [0.9, 1.0],
            "batch_size": 2,
            **SELECTED,
        },
    }
    inputs = {
        "pool": {"prior": folder / "prior"},
        "candidates": {"target": folder / "target", "pool": folder / "pool"},
        "temperature": {"target": folder / "target", "pool": folder / "pool"},
        "attack": {name: folder / name for name in ("prior", "pool", "target", "candidates", "temperature")},
    }
    for stage in ("pool", "candidates", "temperature"):
        made(stage, configs[stage], inputs[stage], folder / stage)
    return configs, inputs


@pytest.mark.parametrize(
    ("stage", "key"),
    [(stage, key) for stage, keys in (("pool", POOL), ("candidates", CANDIDATES), ("attack", ATTACK)) for key in keys],
)
def test_of_an_attack(stage, key, hunted, travels):
    configs, inputs = hunted
    change = {"pool": POOL, "candidates": CANDIDATES, "attack": ATTACK}[stage][key]
    base = {**configs[stage], **({"loss": "cross_entropy"} if key == "temperature" else {})}  # which it is read with
    travels(stage, base, {**base, **change}, inputs[stage])


@pytest.mark.parametrize("key", ["selected", "classes"])  # the rest reaches its parts and the reconstructions alone
def test_of_a_selection(key, hunted, travels):
    _, inputs = hunted
    base = {**COMMON, "kind": "selection_only", "selected": 3, "pool": POOL_SETTINGS}
    travels("attack", base, {**base, **ATTACK[key]}, inputs["attack"])


@pytest.mark.parametrize("key", IF_GMI)
def test_of_if_gmi(key, hunted, travels):
    _, inputs = hunted
    base = {
        "kind": "if_gmi",
        "loss": "poincare",
        "candidates": 5,
        "stage_steps": [2, 2],
        "lr": 0.05,
        "betas": [0.1, 0.1],
        "crop_scale": [0.9, 1.0],
        "batch_size": 2,
        **SELECTED,
    }
    travels("attack", base, {**base, **IF_GMI[key]}, inputs["attack"])


@pytest.mark.parametrize(
    "key", sorted(RANDOM_LATENTS.keys() - {"image_crop", "precision"})
)  # of the reconstructions alone
def test_of_random_latents(key, hunted, travels, private):
    _, inputs = hunted
    base = {**LATENTS, "kind": "random_latents", "selected": 3}
    given = {"data": private, "prior": inputs["attack"]["prior"]}
    travels("attack", base, {**base, **RANDOM_LATENTS[key]}, given)


@pytest.mark.parametrize("key", RLB_MI)
def test_of_rlb_mi(key, begun, travels):
    _, inputs, _ = begun
    base = {**LATENTS, "kind": "rlb_mi", "selected": 2}
    base |= {"episodes": 18, "steps": 2, "minibatch": 10, "hidden": 8, "lr": 0.1}
    travels("attack", base, {**base, **RLB_MI[key]}, {name: inputs[name] for name in ("prior", "target")})


@pytest.fixture(scope="session")
def begun(hunted, tmp_path_factory):
    """(configuration of the starts, inputs of a walk, the label that was hit most).

    The target has learnt too little to give the prior's images more than one label: its bias is moved, so that it does.
    """
    folder, configs, inputs = tmp_path_factory.mktemp("begun"), *hunted
    shutil.copytree(inputs["attack"]["target"], folder / "target")
    weights = load_tensors(folder / "target" / "weights.safetensors")
    made("candidates", configs["candidates"], inputs["candidates"], folder / "asked")
    answers = load_tensors(folder / "asked" / "confidences.safetensors")["confidences"].log()
    scale = 20 / answers.std(0).mean()
    save_tensors(
        folder / "target" / "weights.safetensors",
        {
            **weights,
            "head.weight": scale * weights["head.weight"],
            "head.bias": scale * (weights["head.bias"] - answers.mean(0)),
        },
    )
    settings = {
        "batch": 32,
        "max_batches": 2,
        "seed": 11,
        "clamp": 1.5,
        "per_label": 16,
        "truncation_psi": 0.5,
        "truncation_cutoff": 8,
        "image_crop": 28,
        "generator": "prior",
    }
    config = {"part": "starts", "settings": settings, "image_size": 32, "protocol": "paper"}
    given = {"prior": inputs["attack"]["prior"], "target": folder / "target"}
    made("starts", config, given, folder / "starts")
    hits = (load_tensors(folder / "starts" / "batches.safetensors")["batches"] > 0).sum(1)
    assert (hits > 4).sum() > 1
    return config, {**given, "starts": folder / "starts"}, hits.argmax()


@pytest.mark.parametrize("key", STARTS)
def test_of_the_starts(key, begun, travels):
    config, inputs, _ = begun
    settings = {**config["settings"], **STARTS[key].get("settings", {})}
    changed = {**config, **STARTS[key], "settings": settings}
    travels("starts", config, changed, {name: inputs[name] for name in ("prior", "target")})


@pytest.mark.parametrize("key", BREP_MI)
def test_of_brep_mi(key, begun, travels):
    _, inputs, label = begun
    base = {**LATENTS, "kind": "brep_mi", "selected": 4, "classes": [int(label)]}
    base |= {"probes": 8, "patience": 4, "max_passes": 8, "radius": 0.4, "inside": 0.2}
    base |= {"result": "robust"} if key == "robust_views" else {}
    travels("attack", base, {**base, **BREP_MI[key]}, inputs)


@pytest.mark.parametrize(
    ("given", "change"),
    [
        ({"protocol": "clean"}, {"protocol": "paper", "sizes": [0]}),
        ({"protocol": "clean"}, {"crop": 24}),
        ({"protocol": "clean"}, {"side": 16}),
        ({"protocol": "paper", "sizes": [0]}, {"sizes": [0, 20]}),
    ],
    ids=["protocol", "crop", "side", "sizes"],
)
def test_of_the_reconstructions(given, change, clean, travels):
    base = {"crop": 28, **given}
    travels("loot", base, {**base, **change}, clean.inputs("loot"))
