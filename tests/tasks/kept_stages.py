"""The stages whose numbers are kept: of attacks, of judges, of a tiny trial, and those that need no trial."""

from pathlib import Path

import torch

from smoothsweep.core.attacks.registry import ATTACKS, PARTS
from smoothsweep.core.data.images import to_unit
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.tasks.files import save_tensors
from tests import labelled_files, published_trees
from tests.core.attacks.examples import KEPT_GAN, KEPT_STUDENTS, example
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


def by_fidelity(pipeline, protocol, folder):
    network = {"network": "fid_inception", "protocol": protocol}
    data, reconstructions = pipeline.stage("judge_evaluator.real.data"), pipeline.stage("loot")
    real = Stage(name="embeddings", config={**network, "parts": ["train"]}, inputs={"data": data})
    return Stage(
        name="judge_fidelity", config={**network, "neighbours": 2}, inputs={"real": real, "loot": reconstructions}
    )


def by_general_features(pipeline, protocol, folder):
    data, reconstructions = (pipeline.stage(name) for name in ("judge_embedder.real.data", "loot"))
    network = {"network": "swag_vit_b_16"}
    real = Stage(name="embeddings", config=network, inputs={"data": data})
    return Stage(name="judge_general", config=network, inputs={"real": real, "loot": reconstructions})


def general_beside(name, role):
    """What stands beside the general judge: the embedder's own, in its features."""

    def make(pipeline, protocol, folder):
        own = pipeline.stage(name.removesuffix("_general"))
        general = by_general_features(pipeline, protocol, folder)
        strangers = own.inputs["strangers"]
        inputs = {
            "real": general.inputs["real"],
            "strangers": Stage(
                name="strangers", config={**general.config, "most": strangers.config["most"]}, inputs=strangers.inputs
            ),
            role: own.inputs[role],
        }
        closed = {"closed": "general"} if "closed" in own.config else {}
        return Stage(name=name, config={**general.config, "prefix": "general_", **closed}, inputs=inputs)

    return make


def of_features(pipeline, protocol, folder):
    data, target = pipeline.stage("data"), pipeline.stage("target")
    inputs = {"data": data, "network": target}
    features = Stage(name="embeddings", config={"network": "target", "parts": ["train"]}, inputs=inputs)
    config = {"classes": 100, "perplexity": 5.0, "seed": 0}
    return Stage(name="judge_features", config=config, inputs={"features": features, "data": data})


def by_robustness(pipeline, protocol, folder):
    settings = {"eps": 0.1, "step": 0.05, "steps": 2, "generations": 1, "strong_steps": 2, "images": 6}
    inputs = {"target": pipeline.stage("target"), "data": pipeline.stage("data")}
    return Stage(name="judge_robustness", config={"settings": settings}, inputs=inputs)


def shadow(pipeline, protocol, folder, number=0):
    config = {**pipeline.stage("target").config, "part": {"model": number, "share": 0.5, "seed": 0}}
    return Stage(name="shadow", config={**config, "seed": 7 + number}, inputs={"data": pipeline.stage("data")})


def by_membership(pipeline, protocol, folder):
    inputs = {"target": pipeline.stage("target"), "data": pipeline.stage("data")}
    inputs |= {f"shadow_{number:04d}": shadow(pipeline, protocol, folder, number) for number in range(4)}
    settings = {"shadows": 4, "copies": 2, "levels": 2}
    return Stage(name="judge_membership", config={"settings": settings}, inputs=inputs)


def poison(pipeline, protocol, folder):
    config = {"poison": {"kind": "blended", "share": 0.3, "target": 1}, "image_size": 32, "seeds": [0, 1]}
    return Stage(name="poison", config=config, inputs={"data": pipeline.stage("data")})


def backdoor(pipeline, protocol, folder):
    target, planted = pipeline.stage("target"), poison(pipeline, protocol, folder)
    poisoned = Stage(name="target", config=target.config, inputs={**target.inputs, "poison": planted})
    return Stage(name="backdoor", config={}, inputs={**target.inputs, "target": poisoned, "poison": planted})


def decoded(pipeline, protocol):
    """The reconstructions, under paper with the images as they were decoded."""
    reconstructions = pipeline.stage("loot")
    kept = {"decoded": 32} if protocol == "paper" else {}
    return Stage(name="loot", config={**reconstructions.config, **kept}, inputs=reconstructions.inputs)


def by_published_fid(name):
    def make(pipeline, protocol, folder):
        network = {"network": name, "side": 32}
        data = pipeline.stage("judge_evaluator.real.data")
        real = Stage(name="embeddings", config={**network, "parts": ["train"]}, inputs={"data": data})
        inputs = {"real": real, "loot": decoded(pipeline, protocol), "verdicts": pipeline.stage("judge_evaluator")}
        return Stage(name=f"judge_{name}", config=network, inputs=inputs)

    return make


def by_reporting_evaluator(pipeline, protocol, folder):
    """With the report of GMI's own evaluation, of any attack; under clean, which has none, with LOMMA's."""
    stage = pipeline.stage("judge_evaluator")
    inputs = {
        **stage.inputs,
        "loot": decoded(pipeline, protocol),
        "attack": pipeline.stage("attack"),
        "target": pipeline.stage("target"),
    }
    config = {**stage.config, "report": {"of": "gmi" if protocol == "paper" else "lomma", "classes": 2}}
    return Stage(name="judge_evaluator", config=config, inputs=inputs)


def gradients(pipeline, protocol, folder):
    settings = {
        "per_class": 3,
        "seed": 2,
        "truncation_psi": 0.7,
        "crop": 28,
        "steps": 4,
        "lr": 0.05,
        "betas": [0.1, 0.1],
        "crop_scale": [0.9, 1.0],
    }
    config = {"settings": settings, "classes": "all", "image_size": 32, "protocol": protocol}
    inputs = {"target": pipeline.stage("target"), "prior": pipeline.stage("attack.prior")}
    return Stage(name="judge_gradients", config=config, inputs=inputs)


IN_A_TRIAL = {  # case -> where the pipeline has it
    "data": "data",
    "public": "attack.prior.public",
    "prior": "attack.prior",
    "pool": "attack.pool",
    "target": "target",
    "target, a judge's": "judge_evaluator.evaluator",
    "candidates": "attack.candidates",
    "attack": "attack",
    "loot": "loot",
    "embeddings, evaluator's": "judge_evaluator.real",
    "embeddings, embedder's": "judge_embedder.real",
    "judge_evaluator": "judge_evaluator",
    "judge_embedder": "judge_embedder",
    "strangers": "judge_verification.strangers",
    "projected": "judge_prior_reach.projected",
    "judge_verification": "judge_verification",
    "judge_prior_reach": "judge_prior_reach",
}


def imported(pipeline, protocol, folder):
    """The pipeline's target, which has learnt nothing in its few steps, with a head fitted to the test images."""
    model, test = build_classifier("resnet_small", 3, protocol=protocol), pipeline.tensors("data", "test")
    model.load_state_dict(pipeline.tensors("target", "weights"))
    with torch.no_grad():
        features = model.eval().embed(to_unit(test["images"])).double()
        mean, wanted = features.mean(0), torch.eye(3, dtype=torch.float64)[test["labels"]]
        gram = (features - mean) @ (features - mean).T
        ridge = 1e-3 * gram.trace() * torch.eye(len(gram), dtype=torch.float64)
        weight = wanted.T @ torch.linalg.solve(gram + ridge, features - mean)
        model.head.weight.copy_(weight)
        model.head.bias.copy_(-weight @ mean)
    save_tensors(folder / "brought" / "weights.safetensors", model.state_dict())
    config = {
        "architecture": "resnet_small",
        "num_classes": 3,
        "image_size": 32,
        "transform_input": False,
        "seed": 0,
        "protocol": protocol,
        "content": "the pipeline's target",
    }
    data = pipeline.stage("data")
    return Stage(name="imported", config=config, hints={"path": str(folder / "brought")}, inputs={"data": data})


def slowly(pipeline, protocol, folder):
    """The surrogate at a fiftieth of the trial's learning rate: so few images make much of rounding."""
    stage = pipeline.stage("knowledge")
    return Stage(name="knowledge", config={**stage.config, "lr": 0.02 * stage.config["lr"]}, inputs=stage.inputs)


def labelled(folder):
    labels = [label for label, count in enumerate((5, 9, 6, 8)) for _ in range(count)]
    table = labelled_files.parquet(
        folder / "faces.parquet", image=[labelled_files.png(i, 10, 12) for i in range(len(labels))], label=labels
    )
    config = {
        "kind": "labelled",
        "size": 8,
        "crop": "centre",
        "test_fraction": 0.2,
        "split_seed": 42,
        "largest_classes": 3,
        "samples_per_class": 4,
        "on_corrupt": "refuse",
    }
    return Stage(name="data", config=config, hints={"path": str(table)})


def published(folder):
    people = (("actors", "Cy_Roe", 7), ("actors", "Aa_Bee", 12), ("actresses", "Zed_Ann", 9))
    tree = published_trees.facescrub(folder / "facescrub", people, size=16)
    config = {
        "kind": "facescrub",
        "size": 12,
        "classes": 3,
        "split_seed": 42,
        "samples_per_class": 4,
        "on_corrupt": "refuse",
    }
    return Stage(name="data", config=config, hints={"path": str(tree)})


def unlabelled(folder):
    pictures = {f"{i}.png": labelled_files.png(i, 10, 12) for i in range(9)}
    path = labelled_files.folders(folder / "public", pictures)
    return Stage(
        name="public", config={"kind": "unlabelled", "size": 8, "limit": 5, "seed": 3}, hints={"path": str(path)}
    )


OTHER_STAGES = {
    "data, labelled": labelled,
    "data, published": published,
    "public, unlabelled": unlabelled,
    "toy": lambda folder: Stage(name="toy", config={"alpha": -0.05}),
}
ALONE = {
    "imported": imported,
    "starts": starts,
    "judge_fidelity": by_fidelity,
    "knowledge": slowly,
    "judge_features": of_features,
    "judge_general": by_general_features,
    "judge_verification_general": general_beside("judge_verification_general", "loot"),
    "judge_prior_reach_general": general_beside("judge_prior_reach_general", "projected"),
    "plg_labels": pseudo_labels,
    "plg_gan": conditional_gan,
    "general_gan": part("general_gan", KEPT_GAN, asks=False),
    "specific_gan": part("specific_gan", KEPT_GAN),
    "students": part("students", KEPT_STUDENTS),
    "public_features": part("public_features", {}),
    "temperature": temperature,
    "judge_robustness": by_robustness,
    "shadow": shadow,
    "judge_membership": by_membership,
    "poison": poison,
    "backdoor": backdoor,
    "pool_features": pool_features,
    "judge_gradients": gradients,
    "judge_fid_lomma": by_published_fid("fid_lomma"),
    "judge_fid_plg": by_published_fid("fid_plg"),
    "judge_evaluator, reporting": by_reporting_evaluator,
    **{f"attack, {kind}": by_attack(kind) for kind in ATTACKED},
    **{name: surrogate_part(name) for name in ("pictures", "answered_labels", "answered_scores", "surrogates")},
}
