"""The stages whose numbers are kept: those of a tiny trial, those beside it, and those that need no trial."""

import torch

from smoothsweep.core.data.images import to_unit
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.tasks.files import save_tensors
from tests import labelled_files, published_trees
from tests.core.attacks.examples import KEPT_GAN, KEPT_STUDENTS
from tests.tasks.kept_attacks import (
    ATTACKED,
    by_attack,
    conditional_gan,
    part,
    pool_features,
    pseudo_labels,
    starts,
    surrogate_part,
    temperature,
)
from tests.tasks.kept_judges import (
    backdoor,
    by_fidelity,
    by_general_features,
    by_membership,
    by_published_fid,
    by_reporting_evaluator,
    by_robustness,
    general_beside,
    gradients,
    of_features,
    poison,
    shadow,
)

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
