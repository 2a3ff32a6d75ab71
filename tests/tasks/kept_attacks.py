"""The stages of attacks whose numbers are kept: of other attacks than the trial's, and of what they are made of."""

from pathlib import Path

from smoothsweep.core.attacks.registry import ATTACKS, PARTS
from smoothsweep.orchestrator.stages.stage import Stage
from tests.core.attacks.examples import example
from tests.pipeline import stages_of_a_trial

STYLEGAN2 = {"kind": "folder", "path": str(Path(__file__).parents[1] / "golden" / "tiny_stylegan2")}
ATTACKED = {name: example(name).KEPT for name in ATTACKS if example(name).KEPT is not None}


def pseudo_labels(pipeline, protocol, folder):
    inputs = {"public": pipeline.stage("attack.prior.public"), "target": pipeline.stage("target")}
    config = {"part": "plg_labels", "settings": {"top_n": 4}, "image_size": 32, "protocol": protocol}
    return Stage(name="plg_labels", config=config, inputs=inputs)


def conditional_gan(pipeline, protocol, folder):
    labels = pseudo_labels(pipeline, protocol, folder)
    settings = {
        "steps": 3,
        "critic_steps": 2,
        "batch_size": 6,
        "lr": 2e-4,
        "betas": [0.0, 0.9],
        "width": 2,
        "z_dim": 4,
        "inversion_weight": 0.2,
        "loss": "max_margin",
        "seed": 46,
    }
    config = {"part": "plg_gan", "settings": settings, "image_size": 32, "protocol": protocol}
    return Stage(name="plg_gan", config=config, inputs={**labels.inputs, "plg_labels": labels})


def pool_features(pipeline, protocol, folder):
    inputs = {"target": pipeline.stage("target"), "pool": pipeline.stage("attack.pool")}
    config = {"part": "pool_features", "settings": {}, "image_size": 32, "protocol": protocol}
    return Stage(name="pool_features", config=config, inputs=inputs)


def part(name, settings, *, asks=True):
    """A part of the low-resolution attacks."""

    def make(pipeline, protocol, folder):
        inputs = {"public": pipeline.stage("attack.prior.public")}
        inputs |= {"target": pipeline.stage("target")} if asks else {}
        config = {"part": name, "settings": settings, "image_size": 32}
        config |= {"protocol": protocol} if PARTS[name].told_protocol else {}
        return Stage(name=name, config=config, inputs=inputs)

    return make


def temperature(pipeline, protocol, folder):
    inputs = {"pool": pipeline.stage("attack.pool"), "target": pipeline.stage("target")}
    config = {"part": "temperature", "settings": {"mean_confidence": 0.5}, "image_size": 32}
    return Stage(name="temperature", config=config, inputs=inputs)


def surrogate_part(name):
    """A part of the attacks on surrogates; those before it are its inputs."""

    def make(pipeline, protocol, folder):
        settings = {"size": 12, "seed": 3, "truncation_psi": 0.7, "truncation_cutoff": None, "crop": 28}
        pictures = Stage(
            name="pictures",
            inputs={"prior": pipeline.stage("attack.prior")},
            config={"part": "pictures", "settings": settings, "image_size": 32},
        )
        if name == "pictures":
            return pictures
        asked = name if name != "surrogates" else "answered_scores"
        answers = Stage(
            name=asked,
            config={"part": asked, "settings": {}, "image_size": 32},
            inputs={"target": pipeline.stage("target"), "pictures": pictures},
        )
        if name == asked:
            return answers
        settings = {
            "architectures": ["resnet_small"],
            "pretrained": False,
            "epochs": 1,
            "batch_size": 6,
            "lr": 0.01,
            "learns": "scores",
        }
        return Stage(
            name=name,
            config={"part": name, "settings": settings, "image_size": 32},
            inputs={"pictures": pictures, asked: answers},
        )

    return make


def starts(pipeline, protocol, folder):
    settings = {
        "batch": 16,
        "max_batches": 2,
        "seed": 1,
        "clamp": 1.5,
        "per_label": 2,
        "truncation_psi": 1.0,
        "truncation_cutoff": None,
        "image_crop": None,
        "generator": "prior",
    }
    config = {"part": "starts", "settings": settings, "image_size": 32, "protocol": protocol}
    return Stage(
        name="starts",
        config=config,
        inputs={"prior": pipeline.stage("attack.prior"), "target": pipeline.stage("target")},
    )


def by_attack(kind):
    """The attack of another trial on the same target: a few steps of it, in which rounding parts nothing."""

    def make(pipeline, protocol, folder):
        prior = {"prior": STYLEGAN2, "public": None} if kind == "if_gmi" else {}
        return stages_of_a_trial(protocol, attack={"kind": kind, **ATTACKED[kind]}, **prior).attack

    return make
