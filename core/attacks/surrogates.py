"""Attacks on surrogates as rows of the attack family: a target that says labels alone, or scores without gradients.

The idea is LOKT's (Nguyen et al., NeurIPS 2023; ngoc-nguyen-0/LOKT_neurips2023): networks learn the target's answers to
generated pictures, a white-box attack inverts the networks, and what it finds transfers. Its own generator asks the
target 12.7 million times; here the pictures are those of the sweep's prior, `pool.size` of them, as in SMILE (arXiv
2503.16266), which has scores. The white-box attack is Plug & Play, averaged over the networks, without a query. What it
found is selected by the target's answers under random views: the only queries of a class, `finalists` times `views`.

The pictures are of no target, the answers are all that the target is asked for before classes are inverted, and the
networks are made from these two alone (distillation.py beside this file).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from smoothsweep.core.attacks.ppa.config import CandidateConfig, Loss, OptimiseConfig, Pool, SelectConfig
from smoothsweep.core.attacks.shared.base import (
    Aggregate,
    Attack,
    AttackInputs,
    MadePart,
    Part,
    PartContext,
    Reconstructions,
)
from smoothsweep.core.attacks.training_settings import SurrogateTraining
from smoothsweep.core.bounds import Count, Latents
from smoothsweep.core.checks import present, require
from smoothsweep.core.models.architectures import check_image_size

if TYPE_CHECKING:
    from torch import Tensor

    from smoothsweep.core.attacks.shared.view import LabelView, ScoreView, View

PICTURES, SURROGATES = "pictures", "surrogates"
ANSWERS: dict[str, str] = {"labels": "answered_labels", "scores": "answered_scores"}
"""Access -> the part that has the target's answers of that kind."""

ROWS = 64  # pictures at once


@dataclass(frozen=True, kw_only=True)
class SurrogateAttack(CandidateConfig, OptimiseConfig, Attack):
    """The best `selected` of a class by the target's own answers.

    The other settings are Plug & Play's on the surrogates, described with its stages.

    Attributes:
        pool: The pictures that the target is asked about in advance, its size the budget in queries.
        surrogates: How networks learn the answers.
        finalists: Candidates that the surrogates recognise best in `views` random views, and which the target is then
            asked about in as many.
        views: Random views of each finalist.
    """

    learns: ClassVar[Literal["labels", "scores"]]
    facts: ClassVar[Mapping[str, Aggregate]] = {
        "hits": "mean",
        "never_hit": "sum",
        "loss_first": "mean",
        "loss_last": "mean",
        "num_frozen": "sum",
    }

    selected: Latents = 10
    pool: Pool = field(default_factory=lambda: Pool(size=10_000, truncation_psi=0.7))
    surrogates: SurrogateTraining = field(default_factory=SurrogateTraining)
    candidates: Count = 100
    steps: Count = 50
    loss: Loss = "max_margin"
    finalists: Count = 20
    views: Count = 8

    def __post_init__(self) -> None:
        for declaring in (Attack, CandidateConfig, OptimiseConfig):
            declaring.__post_init__(self)
        most = {
            "candidates": (self.pool.size, "pool.size"),
            "finalists": (self.candidates, "candidates"),
            "selected": (self.finalists, "finalists"),
        }
        for name, (bound, of) in most.items():
            value = getattr(self, name)
            require(value <= bound, f"attack.{name}", f"at most {of} ({bound})", value)
        for name in ("temperature", "discriminator_weight", "feature_weight"):
            inputs = getattr(self, name)
            require(not inputs, f"attack.{name}", "no value with surrogates, which do without", inputs)
        self.surrogates.steps(self.pool.size)

    @property
    def variant(self) -> str | None:
        return None if self.loss == "max_margin" else self.loss

    @property
    def parts(self) -> tuple[Part, ...]:
        answers = ANSWERS[self.learns]
        training = {**asdict(self.surrogates), "learns": self.learns}
        return (
            Part(name=PICTURES, needs=("prior",), settings=asdict(self.pool)),
            Part(name=answers, needs=("target", PICTURES)),
            Part(name=SURROGATES, needs=(PICTURES, answers), settings=training),
        )

    def most_queries(self, protocol: str) -> int:
        return self.finalists * self.views

    @property
    def most_queries_once(self) -> int:
        return self.pool.size

    @property
    def crop(self) -> int | None:
        return self.pool.crop

    @property
    def pretrained(self) -> tuple[str, ...]:
        return self.surrogates.architectures if self.surrogates.pretrained else ()

    def check(self, *, image_size: int, prior_kind: str | None, has_public: bool) -> None:
        super().check(image_size=image_size, prior_kind=prior_kind, has_public=has_public)
        for name in self.surrogates.architectures:
            check_image_size(name, image_size)

    def check_classes(self, count: int) -> None:
        check_budget(self.pool.size, count)

    def invert(self, view: LabelView, inputs: AttackInputs, target_class: int, *, seed: int) -> Reconstructions:
        """Plug & Play on the surrogates, then the target's choice."""
        import torch.nn.functional as F

        from smoothsweep.core.attacks.optimisation.crops import Preprocess
        from smoothsweep.core.attacks.ppa.inversion import invert_classes
        from smoothsweep.core.attacks.ppa.selection import select_by_margin

        networks, answered = inputs.networks[SURROGATES], inputs.parts[ANSWERS[self.learns]]
        confidences = answered["answers"]
        if self.learns == "labels":  # those of the surrogates, with the target's labels first
            confidences = inputs.parts[SURROGATES]["confidences"]
            confidences = confidences + F.one_hot(answered["answers"], confidences.shape[1])
        names = [f"surrogate{number}" for number in range(len(self.surrogates.architectures))]
        (found,) = invert_classes(
            present(inputs.prior, "prior"),
            view.execution.ensemble([networks[name] for name in names]),
            confidences,
            inputs.parts[PICTURES]["w"],
            [target_class],
            candidates=self,
            descent=self,
            selection=SelectConfig(selected=self.finalists, selection_repeats=self.views),
            transform=Preprocess(size=view.image_size, crop=self.pool.crop),
            seed=seed,
            protocol=present(inputs.protocol, "protocol"),
            run=view.execution,
            keep=select_by_margin,
        )
        finalists = present(found.w, "finalists")
        order, scores = self._chosen(finalists, view, inputs, target_class, seed=seed)
        hits = float(answered["hits"][target_class])
        return Reconstructions(
            w=finalists[order],
            scores=scores,
            rows={"pool_index": found.rows["pool_index"][order]},
            curves=found.curves,
            facts={
                "hits": hits,
                "never_hit": float(hits == 0),
                **{name: found.facts[name] for name in ("loss_first", "loss_last", "num_frozen")},
            },
        )

    def _chosen(
        self, w: Tensor, view: Any, inputs: AttackInputs, target_class: int, *, seed: int
    ) -> tuple[Tensor, Tensor]:
        """Which of the finalists [M, ...] the target recognises best over the views, and their scores; of equals the
        one that the surrogates recognise better. Pictures are sent, so they are clipped."""
        import torch

        from smoothsweep.core.attacks.latent_images import LatentImages
        from smoothsweep.core.attacks.optimisation.crops import DRAW_CROPS, apply_crops
        from smoothsweep.core.attacks.ppa.pool import best_first
        from smoothsweep.core.attacks.rlb_search import log_margin
        from smoothsweep.core.seeds import generator

        side, draw = view.image_size, DRAW_CROPS[present(inputs.protocol, "protocol")]
        pictures = LatentImages(present(inputs.prior, "prior"), view, image_crop=self.pool.crop).of(w)
        ranking, total = torch.zeros(2, len(w), dtype=torch.float64)
        for number in range(self.views):
            source = generator(seed, target_class, "answer", number)
            shown = apply_crops(pictures, draw(SelectConfig().selection_crop_rule, len(w), side, side, source), side)
            if self.learns == "labels":
                right = (view.labels(shown) == target_class).double()
                ranking, total = ranking + right, total + right
            else:
                scores = view.scores(shown)
                ranking = ranking + log_margin(scores, target_class).double()
                total = total + scores[:, target_class].double()
        order = best_first(ranking)[: self.selected]
        return order, (total / self.views).float()[order]


@dataclass(frozen=True, kw_only=True)
class SurrogateLabels(SurrogateAttack):
    """An attack from labels alone: begins with pictures that the target gave the class, then those that surrogates do;
    scores are shares of the views that the target gives the class."""

    title = "surrogate distilled from labels"
    cites = ("nguyen2023label", "li2025head")
    access = "labels"
    learns: ClassVar[Literal["labels", "scores"]] = "labels"


@dataclass(frozen=True, kw_only=True)
class SurrogateScores(SurrogateAttack):
    """An attack from scores: begins with pictures the target is surest of, ends with those of largest log margin."""

    title = "surrogate distilled from scores"
    cites = ("li2025head",)
    access = "scores"
    learns: ClassVar[Literal["labels", "scores"]] = "scores"


def check_budget(pool_size: int, classes: int) -> None:
    """Raise InputError for fewer pictures than the target has classes."""
    require(pool_size >= classes, "attack.pool.size", f"at least a query for each of the {classes} classes", pool_size)


def make_pictures(settings: Mapping[str, Any], inputs: AttackInputs, view: View, part_context: PartContext) -> MadePart:
    """w [Q, num_ws, w_dim]; images uint8 [Q, 3, image_size, image_size], as they are sent to the target."""
    from smoothsweep.core.attacks.optimisation.crops import Preprocess
    from smoothsweep.core.attacks.ppa.pool import decode_pool
    from smoothsweep.core.data.images import to_uint8

    pool, prior = Pool(**settings), present(inputs.prior, "prior")
    shape = Preprocess(size=view.image_size, crop=pool.crop)
    w, images = decode_pool(prior, pool, lambda decoded: to_uint8(shape(decoded.clamp(-1, 1))), view.execution)
    return MadePart(tensors={"w": w, "images": images})


def make_answers(
    settings: Mapping[str, Any], inputs: AttackInputs, view: LabelView | ScoreView, part_context: PartContext
) -> MadePart:
    """answers, a query each: int64 [Q], or where the view shows scores probabilities float32 [Q, C]; hits int64 [C],
    how often each class was answered."""
    import torch

    from smoothsweep.core.attacks.shared.view import ScoreView
    from smoothsweep.core.errors import InputError

    pictures = inputs.parts[PICTURES]["images"]
    check_budget(len(pictures), view.num_classes)
    ask = view.scores if isinstance(view, ScoreView) else view.labels
    answers = torch.cat([ask(rows.float() / 127.5 - 1) for rows in pictures.split(ROWS)])
    if answers.ndim == 1 and bool((answers < 0).any()):
        nobody = int((answers < 0).sum())
        raise InputError(
            f"target: expected a class for each of {len(answers)} pictures, got none for {nobody}, which it accepts as "
            "nobody: surrogates cannot learn that; attack it by brep_mi"
        )
    decided = answers if answers.ndim == 1 else answers.argmax(1)
    hits = decided.bincount(minlength=view.num_classes)
    never = float((hits == 0).sum())
    return MadePart(tensors={"answers": answers, "hits": hits}, facts={"classes_never_hit": never})
