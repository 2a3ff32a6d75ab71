"""Sweeps that together have every kind of stage, and the stages of a sweep."""

import json

import torch
from safetensors.torch import save_file

from smoothsweep.core.attacks.registry import ATTACKS
from smoothsweep.core.judges.table import measured
from smoothsweep.orchestrator.planning.trial import inversion_stages
from smoothsweep.orchestrator.stages.stage import with_ancestors
from smoothsweep.sweeps.schema import InversionSweep
from tests.core.attacks.examples import needed, prior_of
from tests.every_stage import imported_folder
from tests.planned_cases import NETWORK
from tests.tiny import tiny_sweep


def stages_of(**changes):
    settings = InversionSweep.model_validate(tiny_sweep(**{"grid": {}, "baseline": {}, **changes}))
    return with_ancestors(list(inversion_stages(settings, 1)))


def sweeps(folder):
    """Name -> changes of the tiny sweep; together they have every kind of stage, and every file that one may read."""
    files = {
        name: folder / name
        for name in ("faces.parquet", "others.parquet", "embedder.bin", "general.bin", "fid.safetensors")
    }
    for path in files.values():
        path.write_text(path.name)
    (folder / "celeba").mkdir()
    (folder / "celeba" / "list.txt").write_text("as it was")
    (folder / "prior").mkdir()
    (folder / "prior" / "prior.json").write_text(json.dumps({"version": 1, "kind": "stylegan2", "config": NETWORK}))
    for name in ("weights", "discriminator"):
        save_file({"a": torch.zeros(2)}, folder / "prior" / f"{name}.safetensors")
    brought = {
        name: imported_folder(folder / name, {"a": torch.zeros(2)}, architecture=architecture, num_classes=4)
        for name, architecture in (("target", "resnet_small"), ("evaluator", "vgg_small"))
    }
    prior = {"prior": {"kind": "folder", "path": str(folder / "prior")}, "public": None}
    tiny = tiny_sweep()
    many = {**tiny["public"], "identities": 64}
    return {
        "tiny": {},
        "paper": {"protocol": "paper"},
        "reconstruction_size": {"attack": {**tiny["attack"], "reconstruction_size": 20, "precision": "bf16"}},
        "rows": {"resources": {"attack_rows": 3, "attack_compile": True}},
        "labelled": {
            "data": {"kind": "labelled", "path": str(files["faces.parquet"])},
            "public": {"kind": "unlabelled", "path": str(files["others.parquet"])},
        },
        "published": {"data": {"kind": "celeba", "path": str(folder / "celeba"), "samples_per_class": 2}},
        "imported": {
            "recipe": {"imported": brought["target"]},
            "judges": {**tiny["judges"], "evaluator": {"imported": brought["evaluator"]}},
        },
        "folder": {**prior, "attack": {**tiny["attack"], "discriminator_weight": 0.1}},
        "judges": {
            "judges": {
                "embedder": {"name": "facenet", "weights": str(files["embedder.bin"]), "verify": None},
                "general": {"weights": str(files["general.bin"]), "verify": None},
                "fidelity": {"weights": str(files["fid.safetensors"]), "neighbours": 1},
            }
        },
        "defended": {
            "recipe": {**tiny["recipe"], "defense": {"kind": "mid", "beta": 0.01}},
            "attack": {**tiny["attack"], "readout": "mean"},
        },
        "judged": {"judges": {name: dict(judge.example) for name, judge in measured().items()}},
        "measured": {
            "attack": None,
            "prior": None,
            "public": None,
            "recipe": {**tiny["recipe"], "poison": {"kind": "badnets"}},
            "judges": {"features": {"perplexity": 5.0}, "robustness": {}},
        },
        "members": {"attack": None, "prior": None, "public": None, "judges": {"membership": {"shadows": 4}}},
        "tempered": {"attack": {**tiny["attack"], "loss": "cross_entropy", "temperature": {"mean_confidence": 0.5}}},
        **{
            kind: {
                "attack": {"kind": kind, "selected": 2, **needed(kind)},
                "public": many,
                **({"prior": prior_of(kind)} if prior_of(kind) else {}),
            }
            for kind in ATTACKS
        },
    }
