"""Membership inference: can an attacker tell which images the target was trained on?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from annotated_types import Ge, Le

from smoothsweep.core.bounds import Count, OpenFraction, Seed
from smoothsweep.core.checks import require
from smoothsweep.core.judges.base import Judge, Planned, StageBuilder, StageWork
from smoothsweep.core.membership.base import LabelQueries, check_shadows
from smoothsweep.core.membership.registry import MEMBERSHIP_ATTACKS, VERSION, title_of
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.core.plugins import plugin_versions

NO_SHADOWS = "judges.membership.shadows is 0: no shadow model was trained"
TOO_FEW = "fewer other images than one over the false positive rate: no threshold shows it"

MOST_SHADOWS = 256
Shadows = Annotated[int, Ge(0), Le(MOST_SHADOWS)]


def shadow_name(number: int) -> str:
    """What the judge's stage calls a shadow model among its inputs."""
    return f"shadow_{number:04d}"


def _leak(key: str, label: str, description: str, null: str | None = None) -> Metric:
    return Metric(
        key=key, label=label, unit="percent", better="low", group="membership", description=description, null=null
    )


def _of_attack(name: str) -> tuple[Metric, Metric]:
    """One attack's AUC, and its true positives at 1 % false ones."""
    attack = MEMBERSHIP_ATTACKS[name]
    null = NO_SHADOWS if "shadow_phi" in attack.needs else None
    title, what = title_of(name), f"({attack.title}; sees {attack.access}{' and shadow models' if null else ''})"
    return (
        _leak(
            f"membership_{name}_auc",
            f"membership AUC, {title}",
            f"Membership attack `{name}` {what}: probability that a training image scores higher than a test image.",
            null,
        ),
        _leak(
            f"membership_{name}_tpr_fpr1",
            f"members found at 1 % FPR, {title}",
            f"Membership attack `{name}` {what}: fraction of training images above the threshold that 1 % of test "
            "images exceed.",
            f"{null}, or {TOO_FEW}" if null else TOO_FEW,
        ),
    )


COLUMNS: tuple[Metric, ...] = (
    _leak(
        "membership_auc",
        "membership AUC",
        "Probability that a training image scores higher than a test image of the same people, under RMIA where shadow "
        "models are trained, else under the threshold on the margin. 50 % is chance.",
    ),
    _leak(
        "membership_tpr_fpr1",
        "members found at 1 % FPR",
        "Fraction of training images that the same attack finds at the threshold that 1 % of test images exceed. 1 % "
        "is chance.",
        TOO_FEW,
    ),
    _leak(
        "membership_tpr_fpr01",
        "members found at 0.1 % FPR",
        "The same at a false positive rate of 0.1 %, which takes 1,000 test images.",
        TOO_FEW,
    ),
    _leak(
        "membership_auc_labels",
        "membership AUC, labels alone",
        "Probability that the label of a training image survives more shifts than that of a test image. What scores "
        "lose and labels keep is hidden, not removed.",
    ),
    _leak(
        "membership_auc_persons",
        "membership AUC, persons",
        "How sure an attacker with several photographs of a person can be that they were used: AUC of scores averaged "
        "over groups of a person's training images against groups of as many test images.",
        "a person has no training or no test image",
    ),
    _leak(
        "membership_auc_within",
        "membership AUC, within persons",
        "Mean over persons of the AUC among the own images of each: recipes are compared by it over seeds and persons.",
        "no person has both training and test images",
    ),
    Metric(
        key="membership_fpr_held",
        label="false positives at a stated 5 %",
        description="False positive rate on held-back test images of a threshold that has 5 % on the others. Far from "
        "5 %, stated rates cannot be trusted.",
        null="too few test images to hold half of them back",
    ),
    Metric(
        key="membership_least_fpr",
        label="smallest false positive rate",
        description="One over the number of test images: no smaller false positive rate can be shown.",
    ),
    Metric(
        key="membership_shift",
        label="training told from test without the model",
        description="AUC of a classifier that tells training from test images by their pixels alone and never asks the "
        "target. Away from 50 %, the two differ in more than membership, and the membership numbers mean nothing.",
    ),
    Metric(
        key="membership_copies",
        label="test images that are copies",
        unit="plain",
        bounds=(0.0, float("inf")),
        description="Test images that are copies of a training image of the same person; they are left out.",
    ),
    *(metric for name in MEMBERSHIP_ATTACKS for metric in _of_attack(name)),
)


@dataclass(frozen=True, kw_only=True)
class Membership(Judge):
    """Can an attacker tell which images the target was trained on? Training images are members, test images of the same
    people are not. It needs no inversion.

    Attributes:
        shadows: Shadow models of every recipe, each trained on a seeded part of all images and shared by all seeds and
            membership attacks of the sweep; an even number of 4 or more, or 0 for attacks that need none.
        share: Fraction of every class's images that a shadow model is trained on.
        copies: Shifted copies of an image that label attacks ask about.
        levels: Levels of noise that they ask about.
        images: Ask label attacks about this many training and as many test images, drawn by `seed`; null: all.
        seed: Seed of the parts, copies and noise.
        trained_on_data: Whether the training images of an imported target are those of `data`; without that its
            membership is not measured.
        shadow_recipe: How shadow models are trained, for all recipes of the sweep; null: as each target is. An imported
            target, whose training cannot be repeated, has shadow models with it alone.
    """

    cites = tuple(dict.fromkeys(key for attack in MEMBERSHIP_ATTACKS.values() for key in attack.cites))
    work = StageWork(
        version=VERSION,
        run="smoothsweep.tasks.judging:judge_membership",
        labelled=("target", "data", *map(shadow_name, range(MOST_SHADOWS))),
        check="smoothsweep.tasks.settings:check_membership",
        check_reads=("data",),
        not_finite=("scores.parquet",),
    )
    columns = COLUMNS
    needs_attack = False
    sees = "scores"
    needs = "labels"
    recipes = ("shadow_recipe",)
    example: ClassVar[Mapping[str, Any]] = {"copies": 2, "levels": 2}
    wrong: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"shadows": 3},
        {"share": 1.0},
        {"copies": 0},
        {"shadow_recipe": {}},
        {"shadows": 4, "shadow_recipe": {"epochs": 0}},
    )

    shadows: Shadows = 0
    share: OpenFraction = 0.5
    copies: Count = 6
    levels: Count = 6
    images: Count | None = None
    seed: Seed = 0
    trained_on_data: bool = False
    shadow_recipe: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        check_shadows(self.shadows, "judges.membership.shadows")
        if (recipe := self.shadow_recipe) is not None:  # one that shadow models would have, of nothing but the images
            key = "judges.membership.shadow_recipe"
            require(self.shadows > 0, key, "none without shadow models", "one with judges.membership.shadows 0")
            require(recipe.get("poison") is None, f"{key}.poison", "none", "one")
            goal = recipe.get("stop_at_test_acc")
            require(not isinstance(goal, Mapping), f"{key}.stop_at_test_acc", "a number", "another trial's")

    def check(self, sweep: Any) -> None:
        """Raise InputError for targets whose training images are not known, or whose recipe cannot be repeated."""
        recipe = sweep.recipe
        if not hasattr(recipe, "defense"):
            known = "trained_on_data: true, if the imported target was trained on the training images of data"
            require(self.trained_on_data, "judges.membership", known, False)
            may = self.shadows == 0 or self.shadow_recipe is not None
            expected = "0 for an imported target without shadow_recipe"
            require(may, "judges.membership.shadows", expected, self.shadows)
            return
        poison = getattr(recipe, "poison", None)
        kind = None if poison is None else poison.kind
        require(kind is None, "judges.membership", "a recipe without poison, which changes the members", kind)
        goal = recipe.stop_at_test_acc
        alone = goal is None or isinstance(goal, float) or self.shadow_recipe is not None
        require(
            self.shadows == 0 or alone, "judges.membership.shadows", "0 with stop_at_test_acc of a trial", self.shadows
        )

    @property
    def label_queries(self) -> LabelQueries:
        return LabelQueries(copies=self.copies, levels=self.levels, images=self.images, seed=self.seed)

    def most_pictures(self, members: int, others: int, *, scores: bool) -> int:
        """How many pictures a target is shown at most, of so many training and test images.

        scores: whether it gives them; each image and its mirror image is then shown, beside what labels are asked of.
        """
        drawn = sum(min(kind, self.images or kind) for kind in (members, others))
        return (self.copies + self.levels) * drawn + (2 * (members + others) if scores else 0)

    def plan(self, builder: StageBuilder, name: str) -> Planned:
        inputs = {"target": "target", "data": "target.data"}
        inputs |= {shadow_name(number): shadow_name(number) for number in range(self.shadows)}
        settings = builder.stated({"shadow_recipe"})  # which its inputs say
        return Planned(
            config={"settings": settings, **plugin_versions("membership", MEMBERSHIP_ATTACKS)}, inputs=inputs
        )
