"""Every field of every class of the sweep file has an effect: changed, something at its far end changes.

`CASES` names for each class a sweep that has it, where it stands there, and another value for each field, with what it
needs beside it. A class or a field that is not in it fails the test; so does a value that is refused. That a stage's
key changes the artifact is the matter of tests/tasks/test_settings_travel.py.
"""

import copy
import hashlib
import json
from typing import Any, get_args

import pytest
from tiny import searchable, tiny_sweep

from core.attacks.registry import ATTACKS
from sweeps.attacks import AnyAttack, schema_of
from sweeps.base import Model
from sweeps.defenses import LabelSmoothing
from sweeps.schema import SWEEPS
from sweeps.settings import dotted_value, set_dotted
from tests.orchestrator.far_ends import far_ends
from tests.orchestrator.search.made import ALPHA, KIND, SPACE


def BESIDE(control):
    attacks = [{"kind": "ppa", **tiny_sweep()["attack"]}, control]
    return TINY(grid={"attack": attacks}, baseline={})


SELECTION = {"kind": "selection_only", "selected": 2, "pool": {"size": 20}}
LOW = {"gan": {"batch_size": 16}, "students": {"batch_size": 16}}  # of sixty public images
REFUSED = "one value there is, or none that this sweep could have"


def classes_of(annotation: Any) -> set[type[Model]]:
    """The classes of settings in an annotation, and those in their fields."""
    if isinstance(annotation, type) and issubclass(annotation, Model):
        found = {annotation}
        for field in annotation.model_fields.values():
            found |= classes_of(field.annotation) | set().union(*map(classes_of, field.metadata), set())
        return found
    return set().union(*(classes_of(part) for part in get_args(annotation)), set())


def all_classes() -> dict[str, type[Model]]:
    """Every class a sweep file can hold, by name. Defenses come by a reader of their own."""
    found = set().union(*map(classes_of, SWEEPS.values())) | classes_of(LabelSmoothing)
    found |= set().union(*(classes_of(schema_of(kind)) for kind in ATTACKS))  # which come by a reader, too
    return {one.__name__: one for one in found - {AnyAttack}}  # the base of all attacks


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """Files and folders that the sweeps name; two of each, which differ."""
    folder = tmp_path_factory.mktemp("files")
    for which in "ab":
        (folder / which / "people").mkdir(parents=True)
        (folder / which / "people" / "list.txt").write_text(which)
        (folder / which / "weights.safetensors").write_text(which)
        (folder / which / "discriminator.safetensors").write_text(which)
        network = {"resolution": 32, "z_dim": 8, "w_dim": 8, "mapping_layers": 2, "channel_base": 64, "channel_max": 8,
                   "conv_clamp": None, "mbstd_group": None}  # fmt: skip
        card = {"version": 1, "kind": "stylegan2", "config": network}
        (folder / which / "prior.json").write_text(json.dumps(card))
        plain = {"resolution": 32, "z_dim": 4, "width": 2, "classes": 0}
        networks = {
            "gan/generator": ("plain_generator", plain), "gan/discriminator": ("critic", plain),
            "plg/generator": ("conditional_generator", {**plain, "classes": 4, "output": "unit"}),
        }  # fmt: skip
        for name, (kind, config) in networks.items():
            card = folder / which / f"{name}.network.json"
            card.parent.mkdir(exist_ok=True)
            card.write_text(json.dumps({"version": 1, "kind": kind, "config": config}))
            card.with_name("weights.safetensors").write_text(which)
        (folder / which / "faces.parquet").write_text(which)
        (folder / which / "others.parquet").write_text(f"others {which}")
        card = {"architecture": "resnet18" if which == "a" else "resnet34", "num_classes": 4, "image_size": 32,
                "transform_input": False, "data": None, "defense": None, "source": None}  # fmt: skip
        (folder / which / "target.json").write_text(json.dumps(card))
    return folder


@pytest.fixture(scope="session")
def ends(tmp_path_factory):
    """The far ends of a sweep; of one that many fields are changed from they are looked for once."""
    known: dict[str, Any] = {}

    def find(raw):
        key = json.dumps(raw, sort_keys=True)
        if key not in known:
            known[key] = far_ends(raw, tmp_path_factory.mktemp("store"))
        return known[key]

    return find


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


HALVING = {
    "strategy": "halving", "recipes": 8, "space": SPACE, "objectives": {"test_acc": "max", "embedder_acc1": "min"},
    "rungs": [{"keep": 0.5, "set": {"attack.steps": 2}}], "audit": 1,
}  # fmt: skip
OPTUNA = {
    "strategy": "optuna", "recipes": 8, "space": SPACE, "objectives": {"test_acc": "max", "embedder_acc1": "min"},
    "sampler": "tpe", "in_flight": 2,
}  # fmt: skip
RANDOM = {key: value for key, value in OPTUNA.items() if key not in ("sampler", "in_flight")} | {"strategy": "random"}
START, END = "recipe.defense.schedule.start", "recipe.defense.schedule.end"
RAMPS = {
    ALPHA: SPACE[ALPHA], KIND: {"choices": ["ramp", "linear"]}, START: {"low": 0.0, "high": 0.6},
    END: {"low": 0.6, "high": 0.9},
}  # fmt: skip
CHOICES = {**HALVING, "space": {**RAMPS, END: {"choices": [0.7, 0.8]}}}
WIDE = {**HALVING, "space": {**RAMPS, END: {"low": 0.3, "high": 0.9}}}
WHOLE = {**HALVING, "space": {**RAMPS, "recipe.weight_decay": {"low": 0, "high": 3}}}
TINY, SEARCH = tiny_sweep, lambda **changes: searchable("made", HALVING, **{"seeds": [1], **changes})
LABELLED = {"kind": "labelled", "path": "$a/faces.parquet"}
PUBLISHED = {"kind": "celeba", "path": "$a/people"}
IN_A_GAN = {  # the generator decides whether a prior is read: with the other one this sweep is refused
    "generator": REFUSED,
    "gan": ({"/prior": None, "generator": "general_gan", "gan": {"batch_size": 8}}, {"batch_size": 9}),
}
UNLABELLED = {"kind": "unlabelled", "path": "$a/others.parquet"}
TRAINED = {"kind": "stylegan2"}
SEEN = {"attack": {**tiny_sweep()["attack"], "pool": {"size": 20, "crop": 32}}}
EVALUATOR, KNOWLEDGE = (tiny_sweep()["judges"][name] for name in ("evaluator", "knowledge"))
DATA = {"data": LABELLED, "public": UNLABELLED}
PUBLISHED_FID = {"fid_plg": {"weights": "$a/weights.safetensors"}}
MID = {"/recipe.defense": {"kind": "mid", "beta": 0.01}, "/grid": {}, "/baseline": {}}

TRAINING = {
    "architecture": "resnet50", "pretrained": True, "image_size": 48, "transform_input": REFUSED, "epochs": 3,
    "batch_size": 12, "optimizer": "adam", "lr": 0.01, "betas": ({"optimizer": "adam"}, [0.5, 0.9]),
    "momentum": ({"optimizer": "sgd"}, 0.5), "weight_decay": 0.1, "lr_schedule": "multistep",
    "lr_milestones": ({"lr_schedule": "multistep"}, [0.3]), "lr_factor": ({"lr_schedule": "multistep"}, 0.3),
    "lr_min": ({"lr_schedule": "cosine"}, 0.0005), "precision": "bf16", "augmentation": {"flip": 0.1},
}  # fmt: skip
RAMP, POINTS = {"kind": "ramp"}, {"schedule": {"kind": "piecewise", "points": [[0, 0.1], [1, 0.3]]}}


def LOW_RESOLUTION(kind):
    gan = {"kind": kind, "gan": LOW["gan"]}
    return TINY(attack={**gan, "students": LOW["students"]} if kind.startswith("lomma") else gan, prior=None)


SEARCHED = {
    "kind": REFUSED, "selected": 3, "seed": 3, "precision": "bf16", "loot_size": 20, "steps": 5, "lr": 0.1,
    "readout": ({"/recipe.defense": {"kind": "mid", "beta": 0.01}, "/grid": {}, "/baseline": {}}, "mean"),
    "identity_weight": 5.0, "reference_batch": 7, "gan": {**LOW["gan"], "width": 4},
}  # fmt: skip
STUDENTS = {
    "form": ({"form": "L_logit", "students": {}}, "baseline"), "feature_weight": 2.0,
    "students": {**LOW["students"], "epochs": 3},
}  # fmt: skip

SURROGATE = {
    "kind": REFUSED, "selected": 3, "seed": 3, "precision": "bf16", "loot_size": 20, "readout": (MID, "mean"),
    "pool": {"size": 9000, "truncation_psi": 0.7}, "surrogates": {"epochs": 3}, "finalists": 15, "views": 3,
    "candidates": 50, "single_w": False, "steps": 5, "lr": 0.1, "betas": [0.5, 0.5], "weight_decay": 0.1,
    "loss": "logit", "crop_scale": [0.5, 0.6], "crop_ratio": [0.9, 1.1], "batch_size": 3, "clip": True,
    "lr_milestones": [1], "lr_gamma": ({"lr_milestones": [1]}, 0.5), "discriminator_weight": REFUSED,
    "temperature": REFUSED, "feature_weight": REFUSED, "average": {"views": 2}, "restarts": {"count": 2},
}  # fmt: skip

CASES: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "InversionSweep": (lambda: TINY(), "", {
        "experiment": REFUSED, "name": "other", "protocol": "paper", "seeds": [1, 2], "data": LABELLED,
        "public": {**tiny_sweep()["public"], "seed": 5}, "recipe": ({"grid": {}, "baseline": {}}, {"imported": "$a"}),
        "prior": {"kind": "eigenfaces", "components": 5}, "attack": {"steps": 3}, "judges": {}, "classes": [0, 2],
        "grid": {ALPHA: [0.0, -0.1]}, "cells": ({"grid": {}, "baseline": {}}, [{ALPHA: 0.0}, {ALPHA: 0.1}]),
        "baseline": {ALPHA: -0.2}, "budget": {"minutes": 5}, "reaudit": {"seeds": [7]}, "min_test_acc": 0.9,
        "tracking": {"models": "all"}, "resources": {"cpus_per_task": 3},
        "paper": {"table": 1, "dataset": "facescrub"},
        "search": ({"grid": {}, "baseline": {}, "judges": {"embedder": {"name": "synthetic"}}}, HALVING),
    }),
    "ToySweep": (lambda: {"experiment": "toy", "name": "toy", "grid": {"alpha": [0.0, 0.05]}}, "", {
        "experiment": REFUSED, "name": "other", "alpha": ({"grid": {}}, 0.05), "grid": {"alpha": [0.0]},
        "cells": ({"grid": {}}, [{"alpha": 0.1}, {"alpha": 0.2}]), "baseline": {"alpha": 0.0},
        "resources": {"trial_slots": 9},
    }),
    "Resources": (TINY, "resources", {
        "cpus_per_task": 3, "gpus_per_training": 2.0, "gpus_per_task": 0.25, "classes_per_task": 5, "trial_slots": 7,
        "attack_rows": 3, "attack_compile": True, "attack_cuda_graphs": True, "training_timeout_minutes": 7.0,
        "attack_timeout_minutes": 7.0,
    }),
    "PaperTable": (lambda: TINY(paper={"table": 1, "dataset": "facescrub"}), "paper",
                   {"table": "2", "dataset": "celeba"}),
    "Tracking": (TINY, "tracking", {"models": "all"}),
    "SyntheticData": (TINY, "data", {
        "kind": REFUSED, "identities": 5, "train_per_class": 9, "test_per_class": 5, "size": 48, "spread": 0.9,
        "seed": 3, "samples_per_class": 2,
    }),
    "LabelledData": (lambda: TINY(**DATA), "data", {
        "kind": REFUSED, "path": "$b/faces.parquet", "size": 48, "crop": "stretch", "test_fraction": 0.3,
        "split_seed": 3, "largest_classes": 3, "samples_per_class": 2, "on_corrupt": "skip",
    }),
    "PublishedData": (lambda: TINY(data=PUBLISHED), "data", {
        "kind": "celeba64", "path": "$b/people", "classes": 3, "split_seed": 3, "samples_per_class": 2,
        "on_corrupt": "skip", "pictures": "aligned",
    }),
    "SyntheticPublic": (TINY, "public", {
        "kind": REFUSED, "identities": 61, "per_identity": 2, "size": 48, "spread": 0.9, "seed": 3,
    }),
    "UnlabelledPublic": (lambda: TINY(**DATA), "public", {
        "kind": REFUSED, "path": "$b/others.parquet", "size": 48, "limit": 20, "seed": 3,
    }),
    "PublishedPublic": (lambda: TINY(public={"kind": "celeba64", "path": "$a/people", "size": 32}), "public", {
        "kind": REFUSED, "path": "$b/people", "size": 48,
    }),
    "Recipe": (TINY, "recipe", {
        **TRAINING, "optimizer": "sgd", "lr_schedule": "cosine", "pretrained": ({"architecture": "resnet18"}, True),
        "defense": ({"/grid": {}, "/baseline": {}}, {"alpha": 0.1}), "workers": 2, "checkpoint_every": 3,
        "stop_at_test_acc": 0.5, "poison": {"kind": "badnets"},
    }),
    "Poison": (lambda: TINY(recipe={**tiny_sweep()["recipe"], "poison": {"kind": "badnets"}}), "recipe.poison", {
        "kind": "blended", "share": 0.3, "target": 2, "size": 5, "strength": ({"kind": "blended"}, 0.3),
        "placed": "before_augmentation", "seed": 3,
    }),
    "Robustness": (lambda: TINY(judges={"robustness": {}}), "judges.robustness", {
        "eps": 0.1, "step": 0.01, "steps": 3, "generations": 3, "population": 20, "strong_steps": 3,
        "strong_restarts": 2, "images": 5, "seed": 3,
    }),
    "Augmentation": (TINY, "recipe.augmentation", {
        "crop_scale": [0.5, 0.6], "crop_ratio": [0.5, 0.6], "brightness": 0.5, "contrast": 0.5, "saturation": 0.5,
        "hue": 0.3, "flip": 0.1,
    }),
    "OtherTrial": (lambda: TINY(recipe={**tiny_sweep()["recipe"], "stop_at_test_acc": {"trial": {ALPHA: 0.1}}}),
                   "recipe.stop_at_test_acc", {"trial": {ALPHA: 0.2}}),
    "ImportedClassifier": (lambda: TINY(recipe={"imported": "$a"}, grid={}, baseline={}), "recipe",
                           {"imported": "$b"}),
    "Evaluator": (TINY, "judges.evaluator", {
        **TRAINING, "optimizer": "sgd", "lr_schedule": "cosine", "pretrained": ({"architecture": "resnet18"}, True),
        "seed": 5, "checkpoint_every": 3,
    }),
    "Knowledge": (TINY, "judges.knowledge", {
        **TRAINING, "pretrained": ({"architecture": "resnet18"}, True), "seed": 5, "checkpoint_every": 3,
    }),
    "Gradients": (lambda: TINY(judges={"gradients": {"steps": 3}}), "judges.gradients", {
        "per_class": 3, "seed": 3, "truncation_psi": 0.4, "truncation_cutoff": 2, "crop": 30, "steps": 4, "lr": 0.1,
        "betas": [0.5, 0.5], "crop_scale": [0.5, 0.6], "average": {"views": 2},
    }),
    "Embedder": (lambda: TINY(judges={"embedder": {"name": "facenet", "weights": "$a/weights.safetensors"}}),
                 "judges.embedder", {"name": "mobilefacenet_a", "weights": "$b/weights.safetensors"}),
    "Fidelity": (lambda: TINY(judges={"fidelity": {"weights": "$a/weights.safetensors", "neighbours": 1}},
                              attack={**tiny_sweep()["attack"], "selected": 4}),
                 "judges.fidelity", {"weights": "$b/weights.safetensors", "sha256": sha("b"), "neighbours": 2}),
    "Features": (lambda: TINY(judges={"features": {"perplexity": 5.0}}), "judges.features", {
        "classes": 3, "perplexity": 6.0, "seed": 3,
    }),
    "PublishedFid": (lambda: TINY(judges={**PUBLISHED_FID, "evaluator": EVALUATOR}), "judges.fid_plg", {
        "weights": "$b/weights.safetensors", "sha256": sha("b"),
    }),
    "Judges": (TINY, "judges", {
        "features": {"perplexity": 5.0}, "gradients": {"steps": 3},
        "evaluator": {**EVALUATOR, "seed": 3}, "embedder": None, "knowledge": None,
        "fidelity": {"weights": "$a/weights.safetensors", "neighbours": 1}, "robustness": {"eps": 0.1},
        "fid_lomma": PUBLISHED_FID["fid_plg"], **PUBLISHED_FID,
    }),
    "EigenfacesFit": (TINY, "prior", {"kind": REFUSED, "components": 5, "seed": 3}),
    "ShippedPrior": (lambda: TINY(prior={"kind": "shipped"}, public=None), "prior",
                     {"kind": REFUSED, "name": REFUSED}),
    "PriorFolder": (lambda: TINY(prior={"kind": "folder", "path": "$a"}, public=None), "prior",
                    {"kind": REFUSED, "path": "$b"}),
    "StyleGAN2Training": (lambda: TINY(prior=TRAINED), "prior", {
        "kind": REFUSED, "z_dim": 64, "w_dim": 64, "mapping_layers": 2, "channel_base": 1024, "channel_max": 64,
        "kimg": 1.0, "batch_size": 8, "lr": 0.01, "r1_gamma": 5.0, "augmentation": "none", "workers": 2, "seed": 3,
    }),
    "Pool": (TINY, "attack.pool", {
        "size": 21, "seed": 3, "truncation_psi": 0.4, "truncation_cutoff": 2, "crop": 30,
    }),
    "PlugAndPlay": (TINY, "attack", {
        "kind": REFUSED, "weight_decay": 0.1, "crop_ratio": [0.9, 1.1], "lr_milestones": [1],
        "lr_gamma": ({"lr_milestones": [1]}, 0.5), "single_w": False, "selection_hflip": 0.1, "selection_view_size": 24,
        "sample": {"kind": "random"}, "select": ({"selection_repeats": 100}, {"kind": "top_confidence"}),
        "optimise": ({"steps": 50, "lr": 0.005, "batch_size": 25}, {"kind": "none"}),
        "loss": "cross_entropy", "pool": {"size": 30}, "candidates": 5, "steps": 5, "lr": 0.1,
        "betas": [0.5, 0.5], "crop_scale": [0.5, 0.6], "batch_size": 3, "clip": True,
        "discriminator_weight": ({"/prior": {"kind": "folder", "path": "$a"}, "/public": None}, 0.1),
        "selected": 3, "selection_repeats": 5, "selection_crop_scale": [0.3, 0.4], "selection_crop_ratio": [1.0, 1.1],
        "seed": 3, "precision": "bf16", "loot_size": 20,
        "readout": (MID, "mean"), "temperature": ({"loss": "cross_entropy"}, {"mean_confidence": 0.6}),
        "average": {"views": 2}, "restarts": {"count": 2}, "feature_weight": 0.5,
        "sampling_target": ({"/grid": {}, "/baseline": {}}, {"trial": {ALPHA: 0.1}}),
        "selection_target": ({"/grid": {}, "/baseline": {}}, {"trial": {ALPHA: 0.1}}),
    }),
    "Averaging": (lambda: TINY(attack={**tiny_sweep()["attack"], "average": {}}), "attack.average", {
        "views": 3, "kind": "noise", "crop_scale": [0.5, 0.6], "crop_ratio": [1.0, 1.1], "hflip": 0.1, "degrees": 2.0,
        "noise": ({"kind": "noise"}, 0.1),
    }),
    "Restarts": (lambda: TINY(attack={**tiny_sweep()["attack"], "restarts": {}}), "attack.restarts",
                 {"count": 3, "spread": 0.1}),
    "Tempering": (lambda: TINY(attack={**tiny_sweep()["attack"], "loss": "cross_entropy", "temperature": {}}),
                  "attack.temperature", {"mean_confidence": 0.6}),
    "CMAES": (lambda: TINY(attack={"kind": "cma_es"}), "attack", {
        "kind": REFUSED, "selected": 2, "seed": 3, "precision": "bf16", "readout": (MID, "mean"), "loot_size": 20,
        "pool": {"size": 30}, "components": 5, "population": 9, "sigma": 0.1, "box": 3.0, "max_queries": 999,
    }),
    **{name: (lambda kind=kind: TINY(attack={"kind": kind}), "attack", SURROGATE)
       for name, kind in (("SurrogateLabels", "surrogate_labels"), ("SurrogateScores", "surrogate_scores"))},
    "SurrogateTraining": (lambda: TINY(attack={"kind": "surrogate_labels"}), "attack.surrogates", {
        "architectures": ["resnet_small"], "pretrained": False, "epochs": 3, "batch_size": 8, "lr": 0.3,
        "momentum": 0.5, "weight_decay": 0.1, "balance": 0.5, "seed": 3,
    }),
    "GMI": (lambda: LOW_RESOLUTION("gmi"), "attack", {**SEARCHED, "momentum": 0.5, "bound": 2.0}),
    "KED": (lambda: LOW_RESOLUTION("ked"), "attack", {**SEARCHED, "start_log_variance": 0.0}),
    "LommaGMI": (lambda: LOW_RESOLUTION("lomma_gmi"), "attack",
                 {**SEARCHED, **STUDENTS, "momentum": 0.5, "bound": 2.0}),
    "LommaKED": (lambda: LOW_RESOLUTION("lomma_ked"), "attack", {**SEARCHED, **STUDENTS, "start_log_variance": 0.0}),
    "GanTraining": (lambda: LOW_RESOLUTION("gmi"), "attack.gan", {
        "width": 4, "epochs": 3, "batch_size": 8, "critic_steps": 2, "lr": 0.1, "betas": [0.1, 0.2], "z_dim": 7,
        "seed": 3, "imported": ({"/attack.gan": {"imported": "$b/gan"}, "/public": None}, "$a/gan"), "workers": 2,
    }),
    "Distillation": (lambda: LOW_RESOLUTION("lomma_ked"), "attack.students", {
        "architectures": ["resnet_small"], "pretrained": False, "epochs": 3, "batch_size": 8, "lr": 0.1,
        "momentum": 0.5, "weight_decay": 0.1, "temperature": 2.0, "seed": 3, "workers": 2,
    }),
    "Sample": (TINY, "attack.sample", {"kind": "random"}),
    "Optimise": (lambda: TINY(attack={**tiny_sweep()["attack"], "steps": 50, "lr": 0.005, "batch_size": 25}),
                 "attack.optimise", {"kind": "none"}),
    "Select": (lambda: TINY(attack={**tiny_sweep()["attack"], "selection_repeats": 100}),
               "attack.select", {"kind": "top_confidence"}),
    "SelectionOnly": (lambda: BESIDE(SELECTION), "control", {
        "kind": REFUSED, "pool": {"size": 30}, "selected": 3, "seed": 3, "precision": "bf16", "loot_size": 20,
        "readout": ({"/recipe.defense": {"kind": "mid", "beta": 0.01}}, "mean"),
    }),
    "RandomLatents": (lambda: BESIDE({"kind": "random_latents", "selected": 2}), "control", {
        "kind": REFUSED, "selected": 3, "seed": 3, "precision": "bf16", "loot_size": 20, "readout": REFUSED,
        "truncation_psi": 0.9, "truncation_cutoff": 2, "image_crop": 30,
    }),
    "RLBMI": (lambda: TINY(attack={"kind": "rlb_mi"}), "attack", {
        "kind": REFUSED, "selected": 3, "seed": 3, "precision": "bf16", "loot_size": 20, "readout": (MID, "mean"),
        "truncation_psi": 0.9, "truncation_cutoff": 2, "image_crop": 30, "episodes": 300, "steps": 2, "diversity": 0.5,
        "at_once": 2, "agent": "textbook", "logarithm": "floored", "hidden": 8, "lr": 0.1, "gamma": ({"steps": 2}, 0.5),
        "tau": ({"steps": 2}, 0.5), "minibatch": 128, **IN_A_GAN,
    }),
    "BREPMI": (lambda: TINY(attack={"kind": "brep_mi"}), "attack", {
        "kind": REFUSED, "selected": 3, "seed": 3, "precision": "bf16", "loot_size": 20, "readout": (MID, "mean"),
        "truncation_psi": 0.9, "truncation_cutoff": 2, "image_crop": 30, "starts": {"seed": 3}, "clamp": 1.0,
        "probes": 16, "inside": 0.5, "radius": 1.0, "expansion": 1.5, "patience": 10, "max_passes": 10,
        "repulsion_only": False, "result": "end", "robust_views": ({"result": "robust"}, 8), **IN_A_GAN,
    }),
    "StartSearch": (lambda: TINY(attack={"kind": "brep_mi"}), "attack.starts",
                    {"batch": 64, "max_batches": 3, "seed": 3}),
    "PLGMI": (lambda: TINY(attack={"kind": "plg_mi"}, prior=None), "attack", {
        "kind": REFUSED, "selected": 3, "seed": 3, "precision": "bf16", "loot_size": 20, "readout": (MID, "mean"),
        "top_n": 3, "gan": {"steps": 5}, "steps": 5, "lr": 0.2, "loss": "cross_entropy",
    }),
    "ConditionalTraining": (lambda: TINY(attack={"kind": "plg_mi"}, prior=None), "attack.gan", {
        "steps": 5, "critic_steps": 2, "batch_size": 8, "lr": 0.01, "betas": [0.5, 0.9], "inversion_weight": 1.0,
        "loss": "poincare", "z_dim": 8, "width": 4, "seed": 3,
        "imported": ({"/attack.gan": {"imported": "$b/plg"}, "/public": None}, "$a/plg"), "workers": 2,
    }),
    "LabelSmoothing": (lambda: TINY(grid={}, baseline={}), "recipe.defense",
                       {"kind": REFUSED, "alpha": 0.3, "schedule": ({"alpha": 0.3}, RAMP)}),
    "Smoothing": (lambda: TINY(grid={}, baseline={}, recipe={**tiny_sweep()["recipe"], "defense": {
                      "kind": "dropout", "p": 0.1}}), "recipe.defense.smoothing",
                  {"alpha": 0.3, "schedule": ({"alpha": 0.3}, RAMP)}),
    "OtherDefense": (lambda: TINY(grid={}, baseline={}, recipe={**tiny_sweep()["recipe"], "defense": {
                         "kind": "dropout", "p": 0.1}}), "recipe.defense",
                     {"kind": REFUSED, "smoothing": {"alpha": 0.2}}),
    "Schedule": (lambda: TINY(grid={}, baseline={}, recipe={**tiny_sweep()["recipe"], "defense": {
                     "alpha": 0.3, "schedule": RAMP}}), "recipe.defense.schedule", {
        "kind": "linear", "start": 0.1, "end": 0.9, "back": 0.9, "at": ({"kind": "step"}, 0.1),
        "scaled": ({"kind": "reference"}, True), "points": ({"/recipe.defense": POINTS}, [[0, 0.2], [1, 0.3]]),
    }),
    "Search": (SEARCH, "search", {
        "strategy": ({"/search": {**RANDOM, "recipes": 4}}, "optuna"),
        "sampler": ({"/search": OPTUNA}, "gp"), "recipes": 5, "seed": 4,
        "in_flight": ({"/search": OPTUNA}, 1), "space": {ALPHA: {"low": -0.5, "high": 0.3}},
        "objectives": {"embedder_acc1": "min"}, "constraints": {"embedder_acc1": {"at_most": 0.3}},
        "rungs": [{"keep": 0.3, "set": {"attack.steps": 2}}], "audit": 3,
    }),
    "Range": (lambda: SEARCH(search={**HALVING, "space": RAMPS}), f"search.space[{END}]", {
        "choices": ({"/search": CHOICES}, [0.7, 0.9]), "low": 0.7, "high": 0.8, "step": 0.1, "log": True,
        "integer": ({"/search": WHOLE}, True, "search.space[recipe.weight_decay]"), "when": {KIND: ["ramp"]},
        "above": ({"/search": WIDE}, START),
    }),
    "Constraint": (lambda: SEARCH(search={**HALVING, "constraints": {"test_acc": {"at_least": 0.5}}}),
                   "search.constraints.test_acc", {"at_least": 0.93, "at_most": 0.9}),
    "Rung": (SEARCH, "search.rungs.0", {"keep": 0.25, "set": {"attack.steps": 3}}),
    "Budget": (lambda: TINY(budget={"device_hours": 1.0}), "budget", {"device_hours": 0.1, "minutes": 5.0}),
    "Reaudit": (lambda: SEARCH(reaudit={"seeds": [7]}, budget={"device_hours": 1.5}), "reaudit",
                {"seeds": [8], "recipes": 2, "share": 0.9}),
}  # fmt: skip


def resolved(value: Any, files: Any) -> Any:
    """$a and $b are the folders of `files`."""
    if isinstance(value, str):
        return value.replace("$", f"{files}/", 1) if value.startswith("$") else value
    if isinstance(value, dict):
        return {key: resolved(one, files) for key, one in value.items()}
    return [resolved(one, files) for one in value] if isinstance(value, list) else value


def place(raw: dict[str, Any], where: str, key: str, value: Any) -> None:
    """Set `key` of what stands at `where`; '/a.b' is a key of the whole sweep."""
    if key.startswith("/"):
        return set_dotted(raw, key[1:], value, where="case")
    if where == "control":  # an attack beside Plug & Play, without which controls are refused
        raw["grid"]["attack"][1][key] = value
    elif "[" in where:  # a key with dots in it
        where, _, dotted = where.rstrip("]").partition("[")
        dotted_value(raw, where)[0][dotted][key] = value
    elif where.endswith(".0"):
        dotted_value(raw, where.removesuffix(".0"))[0][0][key] = value
    else:
        set_dotted(raw, f"{where}.{key}" if where else key, value, where="case")
    return None


@pytest.mark.parametrize(
    ("name", "field"),
    [(name, field) for name, (_, _, fields) in CASES.items() for field in fields if fields[field] != REFUSED],
)
def test_a_changed_field_changes_something(name, field, files, ends):
    make, where, fields = CASES[name]
    given, value, *elsewhere = fields[field] if isinstance(fields[field], tuple) else ({}, fields[field])
    where = elsewhere[0] if elsewhere else where
    raw = copy.deepcopy(make())
    for key, one in given.items():
        place(raw, where, key, copy.deepcopy(one))
    changed = copy.deepcopy(raw)
    place(changed, where, field, copy.deepcopy(value))
    before, after = ends(resolved(raw, files)), ends(resolved(changed, files))
    assert not isinstance(before, str), before
    assert not isinstance(after, str), after
    assert before != after


def test_every_field_of_every_class_is_in_the_table():
    classes = all_classes()
    assert set(CASES) == set(classes)
    for name, (_, _, fields) in CASES.items():
        assert set(fields) == set(classes[name].model_fields), name
