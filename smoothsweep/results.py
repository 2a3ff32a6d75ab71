"""What the library's functions give: reconstructions, judges and their verdicts, audits, and their comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image
from torch import Tensor

from smoothsweep.core.attacks.registry import PARTS
from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.accuracy import result_slots, topk_hits
from smoothsweep.core.metrics.intervals import exposures
from smoothsweep.core.metrics.leak_comparisons import compare_leaks
from smoothsweep.core.models.classifiers import Classifier
from smoothsweep.core.readers.tables import read_rows
from smoothsweep.orchestrator.commands.audit.pages import StoredAudit
from smoothsweep.orchestrator.planning.trial import InversionStages, inversion_stages
from smoothsweep.orchestrator.result.audit import Audit as AuditResult
from smoothsweep.orchestrator.result.audit import MembershipAudit
from smoothsweep.orchestrator.result.estimates import LEVEL, Comparison
from smoothsweep.orchestrator.result.sweep_result import comparison_columns
from smoothsweep.orchestrator.stages.stage import with_ancestors
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.expand import as_inversion
from smoothsweep.sweeps.parts import AnyAttack
from smoothsweep.tasks.files import load_tensors


@dataclass(frozen=True, kw_only=True)
class AttackResult:
    """The reconstructions of one attack, in the order of the classes, the best of a class first.

    Attributes:
        name: The name of the attack, with the settings that distinguish it from others of its kind.
        seed: Seed of the attack.
        pixels: uint8 [M, 3, R, R].
        labels: The attacked classes, int64 [M].
        scores: The model's confidences, float [M]; None where the attack did not query them.
        latents: [M, ...]; None of an attack that searches in none.
        queries: Images that the model received per class, with a share of parts that serve all classes.
        seconds: Duration per class, with a share of such parts.
    """

    name: str
    seed: int
    pixels: Tensor
    labels: Tensor
    scores: Tensor | None
    latents: Tensor | None
    queries: float
    seconds: float

    @property
    def table(self) -> pd.DataFrame:
        """One row per image: class, rank (0: best of its class), score (the model's confidence, NaN: not queried)."""
        score = np.full(len(self.labels), np.nan) if self.scores is None else self.scores.double().numpy()
        return pd.DataFrame({"class": self.labels.numpy(), "rank": result_slots(self.labels).numpy(), "score": score})

    def images(self, target_class: int) -> np.ndarray:
        """The images of a class, uint8 [k, R, R, 3], best first. Raises InputError for one that was not attacked."""
        images = self.pixels[self.labels == target_class]
        if not len(images):
            raise InputError(f"class: expected one that was attacked, got {target_class}")
        return np.ascontiguousarray(images.permute(0, 2, 3, 1).numpy())

    def pictures(self, target_class: int) -> list[Image.Image]:
        """The images of a class as PIL images, best first. Raises InputError for one that was not attacked."""
        return [Image.fromarray(pixels) for pixels in self.images(target_class)]


def attack_name(attack: AnyAttack) -> str:
    """The kind of an attack, with the settings that distinguish it from others of its kind."""
    return " ".join(filter(None, (attack.kind, attack.built.variant)))


def stored_attack(store: Store, stages: InversionStages, attack: AnyAttack, seed: int) -> AttackResult:
    """The reconstructions that a store holds."""
    made, images = stages.inverted.inputs["attack"], load_tensors(store.path(stages.inverted) / "images.safetensors")
    tensors = load_tensors(store.path(made) / "reconstructions.safetensors")
    parts = [stage for stage in with_ancestors([made]) if stage.name in PARTS]
    once = sum(store.metrics(part).get("queries") or 0.0 for part in parts if "target" in part.inputs)
    classes = len(tensors["labels"].unique())
    return AttackResult(
        name=attack_name(attack),
        seed=seed,
        pixels=images["images"],
        labels=tensors["labels"],
        scores=tensors.get("scores"),
        latents=tensors.get("w"),
        queries=float(read_rows(store.path(made) / "rows.parquet")["queries"].mean()) + once / classes,
        seconds=sum(float(store.manifest(stage)["seconds"]) for stage in (made, *parts)) / classes,
    )


@dataclass(frozen=True, kw_only=True)
class Judge:
    """A judge of reconstructions.

    Attributes:
        metric: Its column in the results of a sweep.
        names: Names of the classes, by label.
        sensitivity: Its accuracy on real test images.
        logits: Maps images uint8 [M, 3, R, R] to float32 [M, C].
        settings: `judges` of a sweep file, of an embedder.
        network: The classifier that judges, None of an embedder.
        image_size: Side of its images in pixels.
    """

    metric: str
    names: tuple[str, ...]
    sensitivity: float
    logits: Callable[[Tensor], Tensor]
    settings: Mapping[str, Any] = field(default_factory=dict)
    network: Classifier | None = None
    image_size: int = 0


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A judge's verdict on reconstructions.

    Attributes:
        images: One row per image: class, name, rank, predicted, hit.
        leak: Fraction of hits, in [0, 1].
        real: The same judge's accuracy on real test images.
    """

    images: pd.DataFrame
    leak: float
    real: float

    @property
    def people(self) -> pd.DataFrame:
        """One row per class, the most probable member of the five most exposed first.

        Columns: class, name, share (fraction of hits), rate with low and high (share shrunk towards the mean of all,
        95 %), among_five (probability of being among the five most exposed).
        """
        hits = self.images.groupby(["class", "name"], sort=True)["hit"].agg(["mean", "size"]).reset_index()
        exposure = exposures(hits[["mean"]].to_numpy().T, hits["size"].to_numpy(), level=LEVEL)
        shown = {name: getattr(exposure, name) for name in ("share", "rate", "low", "high")}
        found = hits[["class", "name"]].assign(**shown, among_five=exposure.among_top)
        order = found.round({"among_five": 9, "rate": 9})
        order = order.sort_values(["among_five", "rate", "class"], ascending=[False, False, True]).index
        return found.loc[order].reset_index(drop=True)


def judge(reconstructions: AttackResult, by: Judge) -> Verdict:
    """Whom a judge takes reconstructions for. Raises InputError for those of a class that the judge does not know."""
    labels = reconstructions.labels
    if int(labels.max()) >= len(by.names):
        raise InputError(f"judge: expected classes below {len(by.names)}, which it knows, got {int(labels.max())}")
    logits = by.logits(reconstructions.pixels)
    hits = topk_hits(logits, labels, 1)
    rows = {
        "class": labels.numpy(),
        "name": [by.names[label] for label in labels.tolist()],
        "rank": result_slots(labels).numpy(),
        "predicted": logits.argmax(1).numpy(),
        "hit": hits.numpy(),
    }
    return Verdict(images=pd.DataFrame(rows), leak=hits.double().mean().item(), real=by.sensitivity)


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What the audit of one model found.

    Attributes:
        result: All of it, as pages of the command show it.
        reconstructions: The strongest attack's, of the first seed.
        by: The judge.
        names: Page's name of an attack -> its kind and variant.
        shares: Attack -> its share of hits [seeds, classes], controls left out.
        seeds: Seeds of the attacks.
        published: The attacks that follow gradients as published, for `smoothsweep.compare`.
    """

    result: AuditResult
    reconstructions: AttackResult
    by: Judge
    names: Mapping[str, str]
    shares: Mapping[str, np.ndarray]
    seeds: tuple[int, ...]
    published: tuple[str, ...]

    @cached_property
    def attacks(self) -> pd.DataFrame:
        """A row per attack, the strongest first, then the controls: attack, words (what a page calls it), access,
        control, leak with low and high (95 %, over seeds and people; NaN without an interval), seeds, queries and
        seconds per person."""
        table = pd.DataFrame([*self.result.reached])
        table = table.assign(words=table["attack"], attack=table["attack"].map(dict(self.names)))
        table["queries"] = table["queries"].astype(float).fillna(0.0)
        return table[[*["attack", "words", "access", "control", "leak", "low", "high", "seeds", "queries", "seconds"]]]

    @cached_property
    def people(self) -> pd.DataFrame:
        """A row per person attacked, first who is most probably among the five most exposed: class, name, share (of
        the strongest attack's images that the judge takes for them), rate with low and high (the share shrunk towards
        the mean of all, 95 %), among_five (that probability), control (the share of the control's images that the judge
        takes for this very person), verified (the share of the strongest attack's that a face recogniser accepts at
        1 % false accepts, NaN where it was not measured)."""
        columns = ["label", "name", "share", "rate", "low", "high", "among_top", "control", "verified"]
        table = pd.DataFrame([*self.result.people], columns=columns).astype({"control": float, "verified": float})
        return table.rename(columns={"label": "class", "among_top": "among_five"})

    @cached_property
    def standing(self) -> pd.DataFrame:
        """The strongest attack by every way of judging it: metric, leak with low and high, chance, control, reach of
        the prior, ceiling (NaN: not measured)."""
        rows = [
            {"metric": one.metric, "leak": one.leak.value, "low": one.leak.low, "high": one.leak.high}
            | {name: one.numbers[name].value for name in ("chance", "control", "reach", "ceiling")}
            for one in self.result.standing
        ]
        table = pd.DataFrame(rows, columns=["metric", "leak", "low", "high", "chance", "control", "reach", "ceiling"])
        return table.astype({name: float for name in table.columns if name != "metric"})

    @property
    def membership(self) -> MembershipAudit | None:
        """How well an attacker tells training from test images, None where that was not asked for."""
        return self.result.membership

    @property
    def beyond(self) -> Comparison:
        """The strongest attack minus the best control, paired by person and seed."""
        return self.result.beyond

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on public images that may not fit."""
        return self.result.told

    @property
    def judge(self) -> str:
        """The judge's metric as a sweep names it."""
        return self.result.judge

    @property
    def real(self) -> float | None:
        """How often the judge is right about real test images."""
        return self.result.ceiling

    @property
    def test_acc(self) -> float:
        """The model's test accuracy."""
        return self.result.test_acc

    def __str__(self) -> str:
        """The finding, its limits, and membership, a sentence a line."""
        said = self.result.said
        return "\n".join((*said["answer"], *said["membership"], *said["unknown"]))


def stored_audit(stored: StoredAudit, store: Store, by: Judge) -> Audit:
    """The result of an audit that a store holds, judged by this judge."""
    found, cells = stored.audit, stored.summary.cells
    settings = {trial.id: as_inversion(trial.settings).inverted_by for trial in stored.trials}
    names = {row: attack_name(settings[cells[row]["trials"][0]]) for row in found.rows}
    attacks = [row for row in found.rows if not cells[row]["control"]]
    first = stored.strongest[0]
    stages = inversion_stages(as_inversion(first.settings), first.seed)
    return Audit(
        result=found,
        reconstructions=stored_attack(store, stages, settings[first.id], first.seed),
        by=by,
        names={one["attack"]: names[row] for row, one in zip(found.rows, found.reached, strict=True)},
        shares={
            names[row]: np.stack([one.by_class.sort_index() for one in samples if one.by_class is not None])
            for row in attacks
            for samples in [stored.summary.samples[row][found.judge].values()]
        },
        seeds=tuple(dict.fromkeys(trial.seed for trial in stored.trials)),
        published=tuple(names[row] for row in attacks if cells[row]["published"]),
    )


def compare(audits: Mapping[str, Audit]) -> pd.DataFrame:
    """Models beside the first one, each under the attack that works best against it.

    audits: by a name of each model; of the same people, seeds and attacks, by the same judge. A row per model: model,
    test_acc, attack, leak with low and high, and for all but the first: reduction (the first's leak minus this one's,
    paired by person and seed: positive leaks less), reduction_low and reduction_high (95 %, for all models at once, the
    choice of the strongest attack paid for), verdict ("reduces", "hides", "leaks more" or "inconclusive") and
    seeds_needed (how many might settle an inconclusive one; NaN where that is not known). Each model is one training:
    a verdict holds of these models; recipes are compared by sweeps, which train each with several seeds. The quick
    attacks alone take what a defense hides for a reduction: audit with attacks="adapted".

    Raises InputError, one line, for fewer than two audits or such as cannot be paired.
    """
    names = list(audits)
    if len(names) < 2:
        raise InputError(f"compare: expected at least two audits, got {len(names)}")
    first = audits[names[0]]
    for name, audit in audits.items():
        if audit.by is not first.by:
            raise InputError(f"compare: {name}: expected the judge of the first audit (by=first.by), got another one")
        for what, mine, other in (
            ("people", *(sorted(one.people["class"]) for one in (audit, first))),
            ("seeds", list(audit.seeds), list(first.seeds)),
            ("attacks", *(sorted(one.attacks["attack"]) for one in (audit, first))),
        ):
            if mine != other:
                raise InputError(f"compare: {name}: expected the {what} of the first audit, {other}, got {mine}")
    leaks = {name: audit.shares for name, audit in audits.items()}
    comparisons = compare_leaks(
        leaks, baseline=names[0], published=first.published, level=LEVEL, span=1.0, every_pair=False
    ).verdicts
    if not all(audit.result.can_tell for audit in audits.values()):
        comparisons = {}  # no leak can be told by this judge
    told = ["reduction", "reduction_low", "reduction_high", "verdict", "seeds_needed"]
    rows: list[dict[str, Any]] = []
    for name, audit in audits.items():
        gap = comparison_columns(comparisons.get(name), names[0])
        best = audit.attacks.iloc[0][["attack", "leak", "low", "high"]]
        rows.append({"model": name, "test_acc": audit.test_acc, **best, **{key: gap[key] for key in told}})
    table = pd.DataFrame(rows).fillna({"verdict": ""})
    return table.astype({name: float for name in told if name != "verdict"})
