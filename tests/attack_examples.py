"""Small settings of every attack of the table, for targets of a few people: they leak within seconds."""

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
EXAMPLES = {
    "ppa": {"pool": POOL, "candidates": 8, "steps": 20, "lr": 0.05, "selected": 4, "selection_repeats": 6},
    "if_gmi": {"pool": POOL, "candidates": 4, "stage_steps": [5, 3], "lr": 0.12, "selected": 2, "selection_repeats": 2},
    "plg_mi": {"top_n": 8, "gan": PLG_GAN, "steps": 8, "selected": 4},
    "rlb_mi": {
        "agent": "textbook",
        "episodes": 480,
        "minibatch": 32,
        "hidden": 32,
        "lr": 0.01,
        "at_once": 8,
        "selected": 2,
    },
    "brep_mi": {
        "selected": 2,
        "starts": {"batch": 64, "max_batches": 10},
        "probes": 16,
        "patience": 25,
        "max_passes": 80,
    },
    "cma_es": {"pool": POOL, "components": 16, "population": 8, "max_queries": 320, "selected": 4},
    "surrogate_scores": SURROGATE,
    "surrogate_labels": SURROGATE,
    "gmi": LOW_RESOLUTION,
    "ked": {**LOW_RESOLUTION, **DISTRIBUTION},
    "lomma_gmi": {**LOW_RESOLUTION, "students": STUDENTS},
    "lomma_ked": {**LOW_RESOLUTION, **DISTRIBUTION, "students": STUDENTS},
    "selection_only": {"pool": POOL, "selected": 4},
    "random_latents": {"selected": 4, "truncation_psi": 1.0, "truncation_cutoff": None},
}
