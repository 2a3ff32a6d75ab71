"""Every setting of a stage changes its numbers."""

import shutil
from dataclasses import fields

import numpy as np
import pytest
import torch
from PIL import Image
from pipeline import Pipeline

from smoothsweep.core.defenses.registry import DEFENSES
from smoothsweep.core.judges.knowledge import Knowledge
from smoothsweep.core.priors.eigenfaces import EXACT_UP_TO
from smoothsweep.core.priors.registry import save_discriminator, save_prior
from smoothsweep.core.priors.settings import StyleGAN2Config
from smoothsweep.core.priors.stylegan2 import StyleGAN2, StyleGAN2Discriminator
from smoothsweep.sweeps.parts import (
    PRIOR_MODELS,
    LabelledData,
    PublishedPublic,
    SyntheticData,
    SyntheticPublic,
    UnlabelledPublic,
    attack_model,
    judge_model,
)
from smoothsweep.sweeps.training import Augmentation, Poison, Recipe
from smoothsweep.tasks.files import load_tensors, save_tensors
from tests.core.defenses.examples import example, told
from tests.tasks.settings_tables import (
    ATTACK,
    AUGMENTATION,
    BREP_MI,
    CANDIDATES,
    EIGENFACES,
    IF_GMI,
    LABELLED,
    MID,
    PLAIN,
    PLG_GAN,
    PLG_GAN_SETTINGS,
    PLG_MI,
    POISON,
    POOL,
    POOL_SETTINGS,
    PRIVATE,
    PUBLIC,
    RANDOM_LATENTS,
    RLB_MI,
    STARTS,
    TARGET,
    TRAINING,
    UNLABELLED,
    made,
    outcome,
    training,
)

OF_ITS_GENERATOR = {"generator", "gan"}  # tests/core/attacks/test_black_box.py


@pytest.mark.parametrize("key", TARGET)
def test_of_a_target(key, private, travels):
    given, change = TARGET[key]
    base = {**training(defense=PLAIN, workers=1), **given}
    travels("target", base, {**base, **change}, {"data": private})


@pytest.mark.parametrize("key", AUGMENTATION)
def test_of_an_augmentation(key, private, travels):
    base = training(defense=PLAIN, workers=1, epochs=1)
    changed = {**base, "augmentation": {**base["augmentation"], key: AUGMENTATION[key]}}
    travels("target", base, changed, {"data": private})


@pytest.mark.parametrize(
    ("kind", "field"), [(kind, field) for kind in DEFENSES for field in list(example(kind).TRAVEL)[-1:]]
)
def test_of_a_defense(kind, field, private, travels):
    """The last of each: what a step makes of every one is kept in tests/core/defenses/numbers.json."""
    given, value = example(kind).TRAVEL[field]
    parameters = {**told(kind, "NEEDED", {}), **given}
    plain = {**PLAIN, "alpha": told(kind, "ALPHA", 0.0)}
    base, changed = (
        training(defense={**plain, "kind": kind, "parameters": chosen}, workers=1, batch_size=8)
        for chosen in (parameters, {**parameters, field: value})
    )
    travels("target", base, changed, {"data": private})


def test_every_field_of_every_defense_is_in_its_table():
    found = {kind: {field.name for field in fields(defense)} for kind, defense in DEFENSES.items()}
    assert found == {kind: set(example(kind).TRAVEL) for kind in DEFENSES}


@pytest.mark.parametrize("key", ["architecture", "image_size", "epochs", "batch_size", "optimizer", "lr", "seed"])
def test_of_a_surrogate(key, clean, travels):
    """Trained by the loop that is asked of the others in targets."""
    given, change = TRAINING[key]
    base = {**training(), **given}
    travels("knowledge", base, {**base, **change}, clean.inputs("knowledge"))


@pytest.mark.parametrize("key", POISON)
def test_of_a_poison(key, private, travels):
    base = {"poison": {"kind": "badnets", "share": 0.3, "target": 1}, "image_size": 32, "seeds": [0, 1]}
    given, value = POISON[key]
    changed = {"seeds": value} if key == "seeds" else {"poison": {**base["poison"], **given, key: value}}
    base = {**base, "poison": {**base["poison"], **given}}
    travels("poison", base, {**base, **changed}, {"data": private})


def test_a_reference_ends_a_training_as_a_number_does(private, tmp_path):
    goal = 0.01
    shutil.copytree(private, tmp_path / "other")
    (tmp_path / "other/manifest.json").write_text(f'{{"config": {{}}, "metrics": {{"test_acc": {goal}}}}}')
    base = training(defense=PLAIN, workers=1)
    by_number = outcome("target", {**base, "stop_at_test_acc": goal}, {"data": private}, tmp_path / "number")
    inputs = {"data": private, "reference": tmp_path / "other"}
    assert outcome("target", base, inputs, tmp_path / "reference") == by_number


@pytest.mark.parametrize(
    ("model", "table", "elsewhere"),
    [
        # workers: a group under Ray Train (tests/tasks/test_training.py); checkpoint_every: a hint
        # poison: of its own stage, below
        (Recipe, TARGET, {"augmentation", "workers", "checkpoint_every", "poison"}),
        (Poison, POISON, {"placed", "seed"}),  # placed: tests/core/analysis/test_toy.py; seed: among `seeds`
        (judge_model(Knowledge), TRAINING, {"augmentation", "checkpoint_every"}),
        (Augmentation, AUGMENTATION, set()),
        (attack_model("ppa").model_fields["pool"].annotation, POOL, set()),
        # reconstruction_size: of the stage of reconstructions; the others: tests/tasks/test_attack.py
        (
            attack_model("ppa"),
            ATTACK,
            {"kind", "reconstruction_size", "sampling_target", "selection_target", "feature_weight"},
        ),
        (attack_model("if_gmi"), IF_GMI, {"kind", "reconstruction_size"}),
        (attack_model("selection_only"), ATTACK, {"kind", "reconstruction_size"}),
        (
            attack_model("random_latents"),
            RANDOM_LATENTS,
            {"kind", "reconstruction_size", "readout"},
        ),  # which it refuses
        # logarithm: where probabilities underflow (tests/core/attacks/test_rlb_mi.py); starts: of its part's stage
        (attack_model("rlb_mi"), RLB_MI, {"kind", "reconstruction_size", "logarithm", *OF_ITS_GENERATOR}),
        (attack_model("brep_mi"), BREP_MI, {"kind", "reconstruction_size", "starts", *OF_ITS_GENERATOR}),
        (attack_model("brep_mi").model_fields["starts"].annotation, STARTS, set()),
        (attack_model("plg_mi"), PLG_MI, {"kind", "reconstruction_size", "readout", "precision", "top_n", "gan"}),
        (attack_model("plg_mi").model_fields["gan"].annotation, PLG_GAN, {"imported", "workers"}),
        (SyntheticData, PRIVATE, {"kind"}),
        (LabelledData, LABELLED, {"kind", "path"}),
        (SyntheticPublic, PUBLIC, {"kind"}),
        (UnlabelledPublic, UNLABELLED, {"kind", "path"}),
        (PublishedPublic, {}, {"kind", "path", "size"}),  # size: tests/core/data/test_celeba.py
        (PRIOR_MODELS["eigenfaces"], EIGENFACES, {"kind"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_every_field_of_the_sweep_file_is_in_its_table(model, table, elsewhere):
    assert set(model.model_fields) - elsewhere <= set(table)


@pytest.mark.parametrize(
    ("stage", "table"), [("target", TARGET), ("attack", ATTACK), ("attack.pool", POOL), ("knowledge", TRAINING)]
)
def test_every_key_of_a_stage_is_in_its_table(stage, table, pipeline):
    constant = {"kind", "augmentation", "workers", "part", "settings"}
    constant |= {"protocol"}  # the surrogate's says how it is cut off
    assert set(pipeline.stage(stage).config) - constant <= set(table)


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
    base |= {"episodes": 8, "steps": 2, "minibatch": 6, "hidden": 8, "lr": 0.1}
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


@pytest.fixture(scope="session")
def plg(clean, tmp_path_factory):
    """(configuration, inputs) of the GAN of PLG-MI and of the attack with it."""
    folder, common = tmp_path_factory.mktemp("plg"), {"image_size": 32, "protocol": "clean"}
    given = {"public": clean.folder("attack.prior.public"), "target": clean.folder("target")}
    made("plg_labels", {"part": "plg_labels", "settings": {"top_n": 4}, **common}, given, folder / "plg_labels")
    given |= {"plg_labels": folder / "plg_labels"}
    gan = {"part": "plg_gan", "settings": PLG_GAN_SETTINGS, **common}
    made("plg_gan", gan, given, folder / "plg_gan")
    attack = {"kind": "plg_mi", "steps": 2, "lr": 0.1, "loss": "max_margin", "selected": 3, "seed": [9, 1], **common}
    return {
        "plg_gan": (gan, given),
        "attack": ({**attack, "classes": [1]}, {"target": given["target"], "plg_gan": folder / "plg_gan"}),
    }


@pytest.mark.parametrize(
    ("stage", "key"), [*(("plg_gan", key) for key in PLG_GAN), *(("attack", key) for key in PLG_MI)]
)
def test_of_plg_mi(stage, key, plg, travels):
    base, given = plg[stage]
    travels(stage, base, {**base, **(PLG_GAN if stage == "plg_gan" else PLG_MI)[key]}, given)


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


@pytest.mark.parametrize("key", PRIVATE)
def test_of_synthetic_people(key, travels):
    base = {
        "kind": "synthetic",
        "identities": 3,
        "train_per_class": 2,
        "test_per_class": 1,
        "size": 16,
        "spread": 0.4,
        "seed": 0,
    }
    travels("data", base, {**base, **PRIVATE[key]}, {})


@pytest.mark.parametrize("key", PUBLIC)
def test_of_synthetic_public_people(key, travels):
    base = {"kind": "synthetic", "identities": 3, "per_identity": 1, "size": 16, "spread": 0.6, "seed": 0}
    travels("public", base, {**base, **PUBLIC[key]}, {})


@pytest.fixture(scope="session")
def people(tmp_path_factory):
    """Three people with pictures that are not square; one picture is none, one uses 12 bits."""
    folder = tmp_path_factory.mktemp("people")
    for person, count in (("a", 6), ("b", 8), ("c", 7)):
        (folder / person).mkdir()
        for number in range(count):
            pixels = np.random.default_rng([ord(person), number]).integers(0, 256, (40, 30, 3))
            Image.fromarray(pixels.astype("uint8")).save(folder / person / f"{number}.png")
    deep = np.random.default_rng(0).integers(0, 1 << 12, (40, 30)).astype("uint16")
    Image.fromarray(deep).save(folder / "b" / "deep.png")
    (folder / "a" / "broken.png").write_bytes(b"no picture")
    return folder


@pytest.mark.parametrize("key", LABELLED)
def test_of_labelled_pictures(key, people, travels):
    base = {
        "kind": "labelled",
        "path": str(people),
        "size": 16,
        "crop": "centre",
        "test_fraction": 0.25,
        "split_seed": 1,
        "bits": 16,
        "on_corrupt": "skip",
    }
    travels("data", base, {**base, **LABELLED[key]}, {})


@pytest.mark.parametrize("key", UNLABELLED)
def test_of_unlabelled_pictures(key, people, travels):
    base = {"kind": "unlabelled", "path": str(people / "b"), "size": 16, "bits": 16, "seed": 1}
    given = {"limit": 4} if key == "seed" else {}  # which are left out
    travels("public", {**base, **given}, {**base, **given, **UNLABELLED[key]}, {})


@pytest.fixture(scope="session")
def noise(tmp_path_factory):
    """So many images of so many pixels that components come from a seeded sketch."""
    folder = tmp_path_factory.mktemp("public")
    random = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (EXACT_UP_TO + 1, 3, 19, 19), generator=random, dtype=torch.uint8)
    save_tensors(folder / "images.safetensors", {"images": images})
    return {"public": folder}


@pytest.mark.parametrize("key", EIGENFACES)
def test_of_eigenfaces(key, noise, travels):
    base = {"kind": "eigenfaces", "components": 4, "seed": 0}
    travels("prior", base, {**base, **EIGENFACES[key]}, noise)
