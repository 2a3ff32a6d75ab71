"""What the low-resolution attacks' own evaluations report of the evaluator's verdicts, under protocol `paper`.

config["report"] of the stage `judge_evaluator`: `of`, whose evaluation (gmi, lomma or plg), and `classes`, how many it
takes together. GMI's and KED-MI's rows of published tables were made by LOMMA's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from smoothsweep.core.attacks.optimisation.descent import target_logits
from smoothsweep.core.data.images import aligned_corners, stretched
from smoothsweep.core.judges.base import RECONSTRUCTIONS
from smoothsweep.core.metrics.accuracy import gmi_report, result_slots, spread_over_restarts, topk_hits
from smoothsweep.tasks.context import Config, Inputs, Metrics
from smoothsweep.tasks.files import load_tensors
from smoothsweep.tasks.manifests import config_of
from smoothsweep.tasks.reconstructions import decoded_reconstructions
from smoothsweep.tasks.training import load_classifier

ROWS = 256


@dataclass(frozen=True, kw_only=True)
class Verdicts:
    """The evaluator's: logits [N, C] of reconstructions, its labels [N], and how features [N, D] are taken."""

    logits: Tensor
    labels: Tensor
    embed: Callable[[Tensor], Tensor]


def reported(config: Config, inputs: Inputs, verdicts: Verdicts, device: str) -> Metrics:
    """The columns that this attack's report has beside the usual ones; none where the stage has no report."""
    if "report" not in config:
        return {}
    labels, of = verdicts.labels, config["report"]["of"]
    spread = spread_over_restarts(
        topk_hits(verdicts.logits, labels, 1),
        labels,
        _restarts(inputs, labels),
        classes=config["report"]["classes"],
        of="variance" if of == "plg" else "deviation",
    )
    metrics: Metrics = {"attack_acc1_std_batches": spread}
    if of == "gmi":
        report = gmi_report(_logits_of_target(inputs, device), verdicts.logits.argmax(1), labels)
        metrics |= {"gmi_acc": report.acc, "gmi_acc_any": report.acc_any}
    return metrics


def saved_pictures(config: Config, inputs: Inputs, verdicts: Verdicts, image_size: int) -> Tensor | None:
    """Features [N, D] of reconstructions as PLG-MI's evaluation stretches and reads them for its k-NN distance.

    None where the stage's report is another's: then the features are those of the verdicts.
    """
    if config.get("report", {}).get("of") != "plg":
        return None
    images = decoded_reconstructions(inputs[RECONSTRUCTIONS])["images"]
    pictures = [stretched((part.float() + 1) / 2).float().mul(2 / 255).sub(1) for part in images.split(ROWS)]
    return torch.cat([verdicts.embed(aligned_corners(part, image_size)) for part in pictures])


def _restarts(inputs: Inputs, labels: Tensor) -> Tensor:
    """The restart or draw of every row: as the attack numbered them, or in their order."""
    tensors = load_tensors(inputs["attack"] / "reconstructions.safetensors")
    return next((tensors[name] for name in ("restart", "draw") if name in tensors), result_slots(labels))


@torch.no_grad()
def _logits_of_target(inputs: Inputs, device: str) -> Tensor:
    """float32 [N]: the target's logit of the attacked class, of the reconstructions as the attack decoded it."""
    target = load_classifier(inputs["target"], config_of(inputs["target"]), device)
    reconstructions = decoded_reconstructions(inputs[RECONSTRUCTIONS])
    logits = [
        target_logits(target, part.to(device), None).float().cpu() for part in reconstructions["images"].split(ROWS)
    ]
    return torch.cat(logits).gather(1, reconstructions["labels"].unsqueeze(1)).squeeze(1)
