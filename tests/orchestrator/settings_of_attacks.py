"""Another value for each field of every attack's classes."""

from tiny import tiny_sweep

from tests.orchestrator.search.made import ALPHA
from tests.orchestrator.settings_of_sweeps import REFUSED, TINY, Cases

SELECTION = {"kind": "selection_only", "selected": 2, "pool": {"size": 20}}
LOW = {"gan": {"batch_size": 16}, "students": {"batch_size": 16}}  # of sixty public images
IF_GMI = {"kind": "if_gmi", "candidates": 4, "selected": 2, "stage_steps": [3, 3]}
IN_A_GAN = {  # the generator decides whether a prior is read: with the other one this sweep is refused
    "generator": REFUSED,
    "gan": ({"/prior": None, "generator": "general_gan", "gan": {"batch_size": 8}}, {"batch_size": 9}),
}
MID = {"/recipe.defense": {"kind": "mid", "beta": 0.01}, "/grid": {}, "/baseline": {}}


def BESIDE(control):
    attacks = [{"kind": "ppa", **tiny_sweep()["attack"]}, control]
    return TINY(grid={"attack": attacks}, baseline={})


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

OF_ATTACKS: Cases = {
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
    "IFGMI": (lambda: TINY(attack=IF_GMI, prior={"kind": "shipped"}, public=None), "attack", {
        "kind": REFUSED, "selected": 3, "seed": 3, "precision": "bf16", "readout": (MID, "mean"), "loot_size": 20,
        "pool": {"size": 30}, "candidates": 5, "stage_steps": [4, 4], "radii": [5.0, 5.0], "lr": 0.1,
        "betas": [0.5, 0.5], "loss": "logit", "crop_scale": [0.5, 0.6], "batch_size": 3, "rgb_skip": "dropped",
        "selection_repeats": 5, "selection_crop_scale": [0.3, 0.4], "selection_crop_ratio": [1.0, 1.1],
        "selection_hflip": 0.1, "selection_view_size": 24,
    }),
    "CMAES": (lambda: TINY(attack={"kind": "cma_es"}), "attack", {
        "kind": REFUSED, "selected": 2, "seed": 3, "precision": "bf16", "readout": (MID, "mean"), "loot_size": 20,
        "pool": {"size": 30}, "components": 5, "population": 9, "sigma": 0.1, "box": 3.0, "max_queries": 999,
    }),
    **{name: (lambda kind=kind: TINY(attack={"kind": kind}), "attack", SURROGATE)
       for name, kind in (("SurrogateLabels", "surrogate_labels"), ("SurrogateScores", "surrogate_scores"))},
    "SurrogateTraining": (lambda: TINY(attack={"kind": "surrogate_labels"}), "attack.surrogates", {
        "architectures": ["resnet_small"], "pretrained": False, "epochs": 3, "batch_size": 8, "lr": 0.3,
        "momentum": 0.5, "weight_decay": 0.1, "balance": 0.5, "shown": "changed", "seed": 3,
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
}  # fmt: skip
