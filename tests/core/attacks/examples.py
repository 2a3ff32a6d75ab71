"""What the tests expect of each attack of the table: a class for each, found by its name.

EXAMPLE: small settings, with which it leaks within seconds from a target of a few people. DECLARED: form (a word of the
field `form`, or any words) -> its settings, the attack's parts in order, what makes its images, how many classes are
inverted at once under protocol paper; NEEDED: what it has no default for; PRIOR: the prior that it needs. WRONG:
settings that are refused for more than a bound of theirs, and the sentence. KEPT: tiny settings whose numbers are kept
in tests/tasks/stage_numbers.json. TOO_LITTLE: access with which it fails. DEAR: it takes many seconds, and is tried
under the paper's protocol by the slow tests alone. SWEPT: class of settings in a sweep file -> what the tiny sweep
(`tests/tiny.py`) is changed by to have them (dotted keys; `control`: the attack beside Plug & Play), where they stand,
another value for each field, made by `swept` (beside it, where it needs them, changes; `/key` of the whole sweep).
QUERIES: how many images EXAMPLE shows the target for one class; or queries(found).

What is not the rule, where it is not: DRAWS False: it draws nothing, and every seed gives the same. OPTIMISES False: it
leaks what it began with. LEAST_LEAK: the share of images that a judge takes for the person, where half is too much to
ask; MOST_SEEDS: over how many seeds at most that is a mean. SHORT: settings for a class alone and among others, where
EXAMPLE takes many seconds. IN_ONE_DIRECTION False: it is refused from latents of a single direction, of eigenfaces.
SHIPPED_PRIOR: the generator that it needs, of those that come with smoothsweep.
"""

from dataclasses import MISSING, fields
from typing import get_type_hints

from smoothsweep.core.attacks.brep_mi import BREPMI, StartSearch
from smoothsweep.core.attacks.cma_es import CMAES
from smoothsweep.core.attacks.if_gmi import IFGMI
from smoothsweep.core.attacks.lowres import GMI, KED, LommaGMI, LommaKED
from smoothsweep.core.attacks.plg_mi import PLGMI
from smoothsweep.core.attacks.ppa.attack import PlugAndPlay
from smoothsweep.core.attacks.ppa.config import Averaging, Pool, Restarts
from smoothsweep.core.attacks.random_latents import RandomLatents, SelectionOnly
from smoothsweep.core.attacks.registry import ATTACKS
from smoothsweep.core.attacks.rlb_mi import RLBMI
from smoothsweep.core.attacks.surrogates import SurrogateLabels, SurrogateScores
from smoothsweep.core.attacks.training_settings import ConditionalTraining, Distillation, GanTraining, SurrogateTraining
from tests.nonsense import another

PEOPLE, SIZE = 4, 32
POOL = {"size": 40, "truncation_psi": 1.0, "truncation_cutoff": None}
PLG_GAN = {
    "steps": 30,
    "batch_size": 12,
    "width": 8,
    "z_dim": 8,
    "lr": 0.006,
    "inversion_weight": 1.0,
    "critic_steps": 1,
}
LOW_GAN = {"width": 8, "epochs": 10, "batch_size": 8, "critic_steps": 1, "lr": 0.004, "z_dim": 32}
LOW_RESOLUTION = {"gan": LOW_GAN, "steps": 16, "selected": 3, "reference_batch": 2}
DISTRIBUTION = {"gan": {**LOW_GAN, "epochs": 7, "lr": 0.005}, "steps": 24, "lr": 0.1, "start_log_variance": -3.0}
STUDENTS = {"architectures": ["vgg_small"], "pretrained": False, "epochs": 2, "batch_size": 16}
SURROGATE = {
    "pool": {**POOL, "size": 160},
    "candidates": 8,
    "steps": 20,
    "lr": 0.05,
    "finalists": 4,
    "views": 4,
    "selected": 4,
    "surrogates": {"architectures": ["resnet_small"], "pretrained": False, "epochs": 6, "batch_size": 8},
}
KEPT_POOL = {"size": 16, "truncation_psi": 1.0, "truncation_cutoff": None}
KEPT_GAN = {"width": 2, "epochs": 1, "batch_size": 6, "critic_steps": 2, "z_dim": 4}
KEPT_STUDENTS = {"architectures": ["resnet_small"], "pretrained": False, "epochs": 2, "batch_size": 8}
KEPT_SEARCHED = {"gan": KEPT_GAN, "steps": 2, "selected": 2}
KEPT_SURROGATE = {
    "pool": KEPT_POOL,
    "candidates": 2,
    "steps": 2,
    "finalists": 2,
    "views": 2,
    "selected": 2,
    "surrogates": KEPT_STUDENTS,
}
REFUSED = "one value there is, or none that this sweep could have"
"""In SWEPT, of a field."""
SWEPT_GAN = {"batch_size": 16}
NOISY = {"/recipe.defense": {"kind": "mid", "beta": 0.01}, "/grid": {}, "/baseline": {}}
SWEPT_ALL = {
    "kind": REFUSED,
    "selected": 3,
    "seed": 3,
    "precision": "bf16",
    "reconstruction_size": 20,
    "readout": (NOISY, "mean"),
}
"""What every attack on a target has."""
IN_A_GAN = {  # the generator decides whether a prior is read: with the other one this sweep is refused
    "generator": REFUSED,
    "gan": ({"/prior": None, "generator": "general_gan", "gan": {"batch_size": 8}}, {"batch_size": 9}),
}
USUAL = {**SWEPT_ALL, "truncation_cutoff": 2, "image_crop": 30, "workers": REFUSED}
"""Of SWEPT, by the name of a field."""
DESCENT = {
    "betas": [0.5, 0.5],
    "crop_scale": [0.5, 0.6],
    "crop_ratio": [0.9, 1.1],
    "lr_milestones": [1],
    "lr_gamma": ({"lr_milestones": [1]}, 0.5),
    "average": {"views": 2},
    "restarts": {"count": 2},
}
STUDENTS_SWEPT = {
    "gan": {**SWEPT_GAN, "width": 4},
    "form": ({"form": "L_logit", "students": {}}, "baseline"),
    "students": {**SWEPT_GAN, "epochs": 3},
}
SURROGATE_SWEPT = {
    **DESCENT,
    "surrogates": {"epochs": 3},
    **dict.fromkeys(("discriminator_weight", "temperature", "feature_weight"), REFUSED),
}


def swept(declared, **others):
    """Another value for each field, as SWEPT has them: `others`, the usual one of that name, or one by its type."""
    hints, found = get_type_hints(declared, include_extras=True), {"kind": REFUSED} if "title" in dir(declared) else {}
    for field in fields(declared):
        default = field.default if field.default_factory is MISSING else field.default_factory()
        known = {**USUAL, **others}
        found[field.name] = known[field.name] if field.name in known else another(hints[field.name], default)
    return found


POOLED, GENERAL, SPECIFIC = ("pool", "candidates"), ("general_gan",), ("specific_gan",)
"""Parts of many attacks, in order."""


def needed(name):
    """What an attack has no default for, or one that is too much for a test."""
    return getattr(example(name), "NEEDED", {})


def prior_of(name):
    """The prior of a sweep that an attack needs; None where any does."""
    return getattr(example(name), "PRIOR", None)


def example(name):
    """The class of an attack's expectations. Fails with what to write where there is none."""
    found = globals().get(name)
    assert isinstance(found, type), f"write class {name} in tests/core/attacks/examples.py (see its head)"
    return found


class brep_mi:
    DEAR = True
    EXAMPLE = {
        "selected": 2,
        "starts": {"batch": 64, "max_batches": 10},
        "probes": 16,
        "patience": 25,
        "max_passes": 80,
    }
    TOO_LITTLE = ("none",)
    DECLARED = {
        "": ({}, ("starts",), "prior", 1),
        "own generator": ({"generator": "general_gan"}, (*GENERAL, "starts"), "general_gan", 1),
    }
    WRONG = [({"robust_views": 8}, "attack.robust_views: expected the default where result is not robust, got 8")]
    KEPT = {"selected": 1, "starts": {"batch": 16, "max_batches": 2}, "probes": 8, "patience": 3, "max_passes": 3}
    SWEPT = {
        "BREPMI": (
            {"attack": {"kind": "brep_mi"}},
            "attack",
            swept(BREPMI, expansion=1.5, robust_views=({"result": "robust"}, 8), **IN_A_GAN),
        ),
        "StartSearch": ({"attack": {"kind": "brep_mi"}}, "attack.starts", swept(StartSearch)),
    }

    def queries(found):
        """What it asks the target of one class with EXAMPLE."""
        return 17 * 2 * found.facts.get("passes", 0)


class cma_es:
    EXAMPLE = {"pool": POOL, "components": 16, "population": 8, "max_queries": 320, "selected": 4}
    TOO_LITTLE = ("labels",)
    IN_ONE_DIRECTION = False  # it needs two
    DECLARED = {"": ({}, POOLED, "prior", 1)}
    WRONG = [
        ({"max_queries": 24}, "attack.max_queries: expected at least 25, a generation for each of 1 selected"),
        ({"selected": 5, "max_queries": 124}, "attack.max_queries: expected at least 125"),
    ]
    KEPT = {"pool": KEPT_POOL, "components": 4, "population": 4, "max_queries": 12, "selected": 1}
    SWEPT = {"CMAES": ({"attack": {"kind": "cma_es"}}, "attack", swept(CMAES, selected=2))}

    def queries(found):
        """What it asks the target of one class with EXAMPLE."""
        return 4 * (1 + 8 * found.facts.get("generations", 0))


class gmi:
    DEAR = True
    EXAMPLE = LOW_RESOLUTION
    DECLARED = {"": ({}, GENERAL, "general_gan", 1)}
    WRONG = [
        ({"restarts": 3}, "does not read 'restarts'"),
        ({"gan": {"workers": 2}}, "attack.gan.workers: expected 1, which trains the parts of an attack, got 2"),
    ]
    KEPT = KEPT_SEARCHED
    SWEPT = {
        "GMI": (
            {"attack": {"kind": "gmi", "gan": SWEPT_GAN}, "prior": None},
            "attack",
            swept(GMI, gan={**SWEPT_GAN, "width": 4}),
        ),
        "GanTraining": (
            {"attack": {"kind": "gmi", "gan": SWEPT_GAN}, "prior": None},
            "attack.gan",
            swept(
                GanTraining,
                batch_size=8,
                betas=[0.1, 0.2],
                imported=({"/attack.gan": {"imported": "$b/gan"}, "/public": None}, "$a/gan"),
            ),
        ),
    }
    QUERIES = (16 + 1) * 3


class if_gmi:
    EXAMPLE = {"pool": POOL, "candidates": 4, "stage_steps": [5, 3], "lr": 0.12, "selected": 2, "selection_repeats": 2}
    SHIPPED_PRIOR = "stylegan2_synthetic64"  # it moves what a StyleGAN2 has inside
    TOO_LITTLE = ("scores",)
    IN_ONE_DIRECTION = False  # and from eigenfaces at all
    NEEDED = {"stage_steps": [2, 2]}  # by itself more than the stages of small priors
    PRIOR = {"kind": "shipped"}  # the prior of a sweep that it does not go without
    DECLARED = {"": ({}, POOLED, "prior", 1)}
    WRONG = [
        ({"stage_steps": []}, r"attack.stage_steps: expected at least one stage, got \(\)"),
        ({"stage_steps": [5, 0]}, "attack.stage_steps: expected "),
        ({"stage_steps": [5] * 9}, "attack.radii: expected one for each of the 9 stages of stage_st"),
        ({"stage_steps": [5, 5], "radii": [9.0]}, "attack.radii: expected one for each of the 2 stages of stage"),
        ({"stage_steps": [5], "radii": [9.0, 9.0]}, "attack.radii: expected one for each of the 1 stages of sta"),
        ({"candidates": 5, "selected": 6}, r"attack.selected: expected at most candidates \(5\), got 6"),
        ({"stage_steps": [5], "rgb_skip": "kept"}, "attack.rgb_skip: expected no value with a single stage"),
        ({"rgb_skip": "half"}, "attack.rgb_skip: expected "),
        ({"loss": "hinge"}, "attack.loss: expected one of poincare, cross_entropy, max_margin, logit, got"),
        ({"steps": 3}, "does not read 'steps'"),
    ]
    KEPT = {
        "pool": KEPT_POOL,
        "candidates": 2,
        "stage_steps": [1, 1],
        "lr": 0.05,
        "selected": 2,
        "selection_repeats": 2,
    }
    SWEPT = {
        "IFGMI": (
            {
                "attack": {"kind": "if_gmi", "candidates": 4, "selected": 2, "stage_steps": [3, 3]},
                "prior": {"kind": "shipped"},
                "public": None,
            },
            "attack",
            swept(
                IFGMI,
                candidates=5,
                stage_steps=[4, 4],
                radii=[5.0, 5.0],
                betas=[0.5, 0.5],
                crop_scale=[0.5, 0.6],
                rgb_skip="dropped",
                pool={"size": 30},
                selection_crop_scale=[0.3, 0.4],
                selection_crop_ratio=[1.0, 1.1],
                selection_view_size=24,
            ),
        )
    }
    QUERIES = 4 * (5 + 3 + 2 * 2)


class ked:
    DEAR = True
    EXAMPLE = {**LOW_RESOLUTION, **DISTRIBUTION}
    DECLARED = {"": ({}, SPECIFIC, "specific_gan", 60)}
    WRONG = [({"start_log_variance": 21.0}, "attack.start_log_variance")]
    KEPT = KEPT_SEARCHED
    SWEPT = {
        "KED": (
            {"attack": {"kind": "ked", "gan": SWEPT_GAN}, "prior": None},
            "attack",
            swept(KED, gan={**SWEPT_GAN, "width": 4}),
        )
    }
    QUERIES = 24 + 3


class lomma_gmi:
    EXAMPLE = {**LOW_RESOLUTION, "students": STUDENTS}
    DECLARED = {
        "ours": ({"form": "ours"}, (*GENERAL, "students", "public_features"), "general_gan", 1),
        "L_logit": ({"form": "L_logit"}, (*GENERAL, "public_features"), "general_gan", 1),
        "L_aug": ({"form": "L_aug"}, (*GENERAL, "students"), "general_gan", 1),
        "baseline": ({"form": "baseline"}, GENERAL, "general_gan", 1),
    }
    WRONG = [
        ({"form": "L_aug", "feature_weight": 2.0}, "attack.feature_weight: expected no value with form L_aug"),
        ({"form": "L_logit", "students": STUDENTS}, "attack.students: expected no value with form L_logit"),
        ({"students": {"architectures": []}}, "attack.students.architectures: expected at least one"),
    ]
    KEPT = {**KEPT_SEARCHED, "students": KEPT_STUDENTS}
    SWEPT = {
        "LommaGMI": (
            {"attack": {"kind": "lomma_gmi", "gan": SWEPT_GAN, "students": SWEPT_GAN}, "prior": None},
            "attack",
            swept(LommaGMI, **STUDENTS_SWEPT),
        )
    }
    QUERIES = (16 + 1) * 3


class lomma_ked:
    DEAR = True
    EXAMPLE = {**LOW_RESOLUTION, **DISTRIBUTION, "students": STUDENTS}
    DECLARED = {
        "ours": ({"form": "ours"}, (*SPECIFIC, "students", "public_features"), "specific_gan", 60),
        "L_logit": ({"form": "L_logit"}, (*SPECIFIC, "public_features"), "specific_gan", 60),
        "L_aug": ({"form": "L_aug"}, (*SPECIFIC, "students"), "specific_gan", 60),
        "baseline": ({"form": "baseline"}, SPECIFIC, "specific_gan", 60),
    }
    WRONG = [
        (
            {"students": {"architectures": ["efficientnet_b9"]}},
            "attack.students.architectures: expected one of .*efficientnet_b2.*, got 'efficientnet_b9'",
        )
    ]
    KEPT = {**KEPT_SEARCHED, "students": KEPT_STUDENTS}
    SWEPT = {
        "LommaKED": (
            {"attack": {"kind": "lomma_ked", "gan": SWEPT_GAN, "students": SWEPT_GAN}, "prior": None},
            "attack",
            swept(LommaKED, **STUDENTS_SWEPT),
        ),
        "Distillation": (
            {"attack": {"kind": "lomma_ked", "gan": SWEPT_GAN, "students": SWEPT_GAN}, "prior": None},
            "attack.students",
            swept(Distillation, architectures=["resnet_small"], batch_size=8),
        ),
    }
    QUERIES = 24 + 3


class plg_mi:
    DEAR = True
    EXAMPLE = {"top_n": 8, "gan": PLG_GAN, "steps": 8, "selected": 4}
    TOO_LITTLE = ("labels",)
    DECLARED = {"": ({}, ("plg_labels", "plg_gan"), "plg_gan", 1)}
    WRONG = [({"gan": {"imported": "gan"}, "top_n": 4}, "attack.top_n: expected no value with an imported GAN, which")]
    KEPT = {"top_n": 4, "gan": {"steps": 3, "batch_size": 6, "width": 2, "z_dim": 4}, "steps": 2, "selected": 2}
    SWEPT = {
        "PLGMI": ({"attack": {"kind": "plg_mi"}, "prior": None}, "attack", swept(PLGMI, top_n=3, gan={"steps": 5})),
        "ConditionalTraining": (
            {"attack": {"kind": "plg_mi"}, "prior": None},
            "attack.gan",
            swept(
                ConditionalTraining,
                betas=[0.5, 0.9],
                imported=({"/attack.gan": {"imported": "$b/plg"}, "/public": None}, "$a/plg"),
            ),
        ),
    }
    QUERIES = (2 * 8 + 1) * 4


class ppa:
    EXAMPLE = {"pool": POOL, "candidates": 8, "steps": 20, "lr": 0.05, "selected": 4, "selection_repeats": 6}
    TOO_LITTLE = ("scores", "labels")
    NEEDED = {"steps": 2}  # what it has no default for
    DECLARED = {
        "": ({}, POOLED, "prior", 1),
        "tempered": (
            {"loss": "cross_entropy", "temperature": {"mean_confidence": 0.5}},
            (*POOLED, "temperature"),
            "prior",
            1,
        ),
        "pulled": ({"feature_weight": 0.5}, (*POOLED, "pool_features"), "prior", 1),
    }
    WRONG = [
        ({"stepz": 3}, "does not read 'stepz'"),
        ({"steps": 0}, "attack.steps: expected a whole number of at least 1, got 0"),
        ({"candidates": 5, "selected": 6}, r"attack.selected: expected at most candidates \(5\), got 6"),
        ({"select": {"kind": "by_eye"}}, "attack.select.kind: expected one of augmented_confidence"),
        ({"select": {"kind": "top_confidence"}, "selection_repeats": 3}, "which does not read it"),
        ({"optimise": {"kind": "none"}, "lr": 0.1}, "attack.lr: expected no value with optimise none"),
        ({"loss": "hinge"}, "attack.loss: expected one of poincare, cross_entropy, max_margin, logit, got 'hinge'"),
        ({"average": {"kind": "blur"}}, "attack.average.kind: expected one of transforms, noise, got 'blur'"),
        ({"average": {"noise": 0.1}}, "attack.average.noise: expected no value with kind transforms"),
        ({"average": {"kind": "noise", "degrees": 3.0}}, "attack.average.degrees: expected no value with kind"),
        ({"temperature": {}}, "attack.temperature: expected no value with loss poincare"),
        ({"optimise": {"kind": "none"}, "average": {}}, "attack.average: expected no value with optimise none"),
        ({"precision": "fp8"}, "attack.precision"),
    ]
    KEPT = None  # the trial's own attack: "attack, clean" and "attack, paper"
    ANOTHER_TARGET = ({"/grid": {}, "/baseline": {}}, {"trial": {"recipe.defense.alpha": 0.1}})
    SWEPT = {
        "Pool": ({}, "attack.pool", swept(Pool, size=21, crop=30)),
        "PlugAndPlay": (
            {},
            "attack",
            swept(
                PlugAndPlay,
                **DESCENT,
                sample={"kind": "random"},
                select=({"selection_repeats": 100}, {"kind": "top_confidence"}),
                optimise=({"steps": 50, "lr": 0.005, "batch_size": 25}, {"kind": "none"}),
                loss="cross_entropy",
                pool={"size": 30},
                candidates=5,
                steps=5,
                feature_weight=0.5,
                discriminator_weight=({"/prior": {"kind": "folder", "path": "$a"}, "/public": None}, 0.1),
                selection_repeats=5,
                selection_crop_scale=[0.3, 0.4],
                selection_crop_ratio=[1.0, 1.1],
                selection_view_size=24,
                temperature=({"loss": "cross_entropy"}, {"mean_confidence": 0.6}),
            )
            | {"sampling_target": ANOTHER_TARGET, "selection_target": ANOTHER_TARGET},
        ),
        "Averaging": (
            {"attack.average": {}},
            "attack.average",
            swept(Averaging, crop_scale=[0.5, 0.6], crop_ratio=[1.0, 1.1], kind="noise", noise=({"kind": "noise"}, 0.1))
            | {"degrees": 2.0},
        ),
        "Restarts": ({"attack.restarts": {}}, "attack.restarts", swept(Restarts)),
        "TemperatureScaling": (
            {"attack.loss": "cross_entropy", "attack.temperature": {}},
            "attack.temperature",
            {"mean_confidence": 0.6},
        ),
        "Sample": ({}, "attack.sample", {"kind": "random"}),
        "Optimise": (
            {"attack.steps": 50, "attack.lr": 0.005, "attack.batch_size": 25},
            "attack.optimise",
            {"kind": "none"},
        ),
        "Select": ({"attack.selection_repeats": 100}, "attack.select", {"kind": "top_confidence"}),
    }
    QUERIES = 8 * 20 + 8 * 6


class random_latents:
    EXAMPLE = {"selected": 4, "truncation_psi": 1.0, "truncation_cutoff": None}
    DECLARED = {"": ({}, (), "prior", 1)}
    WRONG = [({"readout": "mean"}, "attack.readout: expected none")]
    KEPT = {"selected": 2, "truncation_psi": 1.0, "truncation_cutoff": None}
    SWEPT = {
        "RandomLatents": (
            {"control": {"kind": "random_latents", "selected": 2}},
            "control",
            swept(RandomLatents, readout=REFUSED),
        )
    }
    QUERIES = 0


class rlb_mi:
    DEAR = True
    EXAMPLE = {
        "agent": "textbook",
        "episodes": 480,
        "minibatch": 32,
        "hidden": 32,
        "lr": 0.01,
        "at_once": 8,
        "selected": 2,
    }
    SHORT = {"episodes": 96}
    """Where it does not matter how much is found; three times the replay's minibatch, so that the agent learns."""
    LEAST_LEAK, MOST_SEEDS = 0.35, 8
    """An agent of 480 queries lies near the usual bar, on either side of it by processor."""
    TOO_LITTLE = ("labels",)
    DECLARED = {"": ({}, (), "prior", 1), "own generator": ({"generator": "general_gan"}, GENERAL, "general_gan", 1)}
    WRONG = [
        ({"episodes": 256}, "attack.episodes: expected at least 257, or nothing is ever learnt, got 256"),
        ({"gamma": 0.9}, "attack.gamma: expected the default where steps is 1, got 0.9"),
        ({"at_once": 256}, "attack.at_once: expected fewer episodes than a minibatch has, got 256"),
        ({"selected": 300}, "attack.selected: expected at most 255, found before learning begins, got 300"),
    ]
    KEPT = {"agent": "textbook", "episodes": 6, "minibatch": 4, "hidden": 8, "at_once": 2, "selected": 2}
    SWEPT = {
        "RLBMI": (
            {"attack": {"kind": "rlb_mi"}},
            "attack",
            swept(RLBMI, gamma=({"steps": 2}, 0.5), tau=({"steps": 2}, 0.5), **IN_A_GAN),
        )
    }
    QUERIES = 2 * 480


class selection_only:
    EXAMPLE = {"pool": POOL, "selected": 4}
    DRAWS = False  # its images are the pool's, whatever the seed
    OPTIMISES = False  # it leaks what it began with
    LEAST_LEAK = 0.25  # chance: it chooses among pictures of nobody here
    DECLARED = {"": ({}, POOLED, "prior", 1)}
    WRONG = [
        ({"selected": 41, "pool": POOL}, r"attack.selected: expected at most pool.size \(40\)"),
        ({"steps": 3}, "does not read 'steps'"),
    ]
    KEPT = {"pool": KEPT_POOL, "selected": 2}
    SWEPT = {
        "SelectionOnly": (
            {"control": {"kind": "selection_only", "selected": 2, "pool": {"size": 20}}},
            "control",
            swept(
                SelectionOnly, pool={"size": 30}, readout=({"/recipe.defense": {"kind": "mid", "beta": 0.01}}, "mean")
            ),
        )
    }
    QUERIES = 0


class surrogate_labels:
    DEAR = True
    EXAMPLE = SURROGATE
    TOO_LITTLE = ("none",)
    DECLARED = {"": ({}, ("pictures", "answered_labels", "surrogates"), "prior", 1)}
    WRONG = [
        ({"finalists": 101}, r"attack.finalists: expected at most candidates \(100\), got 101"),
        ({"selected": 21}, r"attack.selected: expected at most finalists \(20\), got 21"),
        ({"pool": {"size": 50}, "candidates": 20}, r"attack.pool.size: expected at least attack.surr"),
        ({"surrogates": {"architectures": []}}, "attack.surrogates.architectures: expected at least"),
        ({"discriminator_weight": 0.1}, "attack.discriminator_weight: expected no value with surrog"),
        ({"feature_weight": 1.0}, "attack.feature_weight: expected no value with surrogates"),
    ]
    KEPT = KEPT_SURROGATE
    SWEPT = {
        "SurrogateLabels": (
            {"attack": {"kind": "surrogate_labels"}},
            "attack",
            swept(SurrogateLabels, **SURROGATE_SWEPT),
        ),
        "SurrogateTraining": (
            {"attack": {"kind": "surrogate_labels"}},
            "attack.surrogates",
            swept(SurrogateTraining, architectures=["resnet_small"]),
        ),
    }
    QUERIES = 4 * 4


class surrogate_scores:
    DEAR = True
    EXAMPLE = SURROGATE
    TOO_LITTLE = ("labels",)
    DECLARED = {"": ({}, ("pictures", "answered_scores", "surrogates"), "prior", 1)}
    WRONG = [({"loss": "cross_entropy", "temperature": {}}, "attack.temperature: expected no value with")]
    KEPT = KEPT_SURROGATE
    SWEPT = {
        "SurrogateScores": (
            {"attack": {"kind": "surrogate_scores"}},
            "attack",
            swept(SurrogateScores, **SURROGATE_SWEPT),
        )
    }
    QUERIES = 4 * 4


EXAMPLES = {name: example(name).EXAMPLE for name in ATTACKS}
