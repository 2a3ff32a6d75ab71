"""Which columns of which table of results each figure shows. tools/result_figures.py draws them."""

from __future__ import annotations

from dataclasses import dataclass

LEAK = "leak: recognised by the independent judge, %"
REDUCTION = "reduction against plain training, points"
ACCURACY = "test accuracy, %"


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One axis with its series.

    Attributes:
        columns: titles of the columns that are drawn, one series each.
        axis: the name and the unit of the axis.
        names: of the series, in the legend; the titles where empty.
        parts: names of the series where one cell holds several numbers; `columns` is then one title.
        low: the beginning of the axis, None: from the numbers.
        high: the end of the axis, None: from the numbers.
    """

    columns: tuple[str, ...]
    axis: str = LEAK
    names: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    low: float | None = 0.0
    high: float | None = 100.0


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure of a page.

    Attributes:
        page: the file below docs/ that shows it above its table.
        labels: titles of the columns that name a row.
        panels: below one another.
        without: labels of rows that are not drawn.
    """

    page: str
    labels: tuple[str, ...]
    panels: tuple[Panel, ...]
    without: tuple[str, ...] = ()


def _points(*columns: str, names: tuple[str, ...] = ()) -> Panel:
    return Panel(columns=columns, axis=REDUCTION, names=names, low=None, high=None)


def _own(axis: str, *columns: str, names: tuple[str, ...] = ()) -> Panel:
    """A panel whose axis begins and ends with its numbers."""
    return Panel(columns=columns, axis=axis, names=names, low=None, high=None)


def _inside(name: str, page: str, factors: tuple[str, ...]) -> dict[str, Figure]:
    """The figures of a page about the stages of the attack; `factors` of the adversarial images."""
    four = ("0", "0.1", "−0.05", "−0.8")
    page = f"results/{page}.md"
    names = ("plain training", "smoothing 0.1", "smoothing −0.05", "smoothing −0.8")
    cosine = "loss (the paper's figure)"
    images = "training images (the paper's figure)"
    stage = "stage (the paper's table)"
    targets = ("the target itself", "the target of 0.1", "the target of −0.05", "the target of −0.8")
    changed = Panel(columns=factors, axis="images whose answer changes, %")
    variants = "the attack on −0.8"
    return {
        f"{name}_stages": Figure(page=page, labels=(stage,), panels=(Panel(columns=targets),)),
        f"{name}_cosine": Figure(
            page=page,
            labels=(cosine,),
            panels=(Panel(columns=four, names=names, axis="cosine between consecutive gradients", high=1.0),),
        ),
        f"{name}_distances": Figure(
            page=page,
            labels=("distance",),
            panels=(Panel(columns=four, names=names, axis="median, parts of the largest distance", high=1.0),),
        ),
        f"{name}_variants": Figure(page=page, labels=(variants,), panels=(Panel(columns=("leak",)),)),
        f"{name}_factors": Figure(
            page=page, labels=(images,), panels=(Panel(columns=("0.2", "0.1", "0", "−0.05", "−0.8")),)
        ),
        f"{name}_adversarial": Figure(page=page, labels=("attack",), panels=(changed,)),
        f"{name}_backdoors": Figure(
            page=page,
            labels=("backdoor",),
            panels=(Panel(columns=four, names=names, axis="success of the trigger, %"),),
        ),
    }


FOUR = ("0.1", "plain", "−0.05", "−0.2")
FOUR_NAMES = ("smoothing 0.1", "plain training", "smoothing −0.05", "smoothing −0.2")
PORTFOLIO = ("Poincaré", "cross entropy", "adapted", "adapted, averaged", "surrogate taught by labels")
PORTFOLIO += ("selection alone (control)",)
STRONGEST = ("reduction, points: strongest of all", "reduction, points: strongest published")
STRONGEST_NAMES = ("under the strongest of all", "strongest published")
BY_LOSS = (Panel(columns=("independent judge",)), _own(ACCURACY, "test accuracy"))
EACH = ("plain", "−0.8", "−3")
BESIDE = ("recipe", "plain training")

FIGURES: dict[str, Figure] = {
    "verdicts": Figure(page="results.md", labels=("recipe",), panels=(_points("reduction, points"),)),
    "observed": Figure(
        page="results.md",
        labels=("observed",),
        panels=(
            Panel(columns=("drawn people",), axis="drawn people: hit rate, %", parts=BESIDE),
            Panel(columns=("real faces (LFW)",), axis="real faces (LFW): hit rate, %", parts=BESIDE),
        ),
    ),
    "quickstart": Figure(
        page="results/quickstart.md",
        labels=("recipe",),
        panels=(Panel(columns=("cross entropy", "logit")), _points("reduction", "hidden")),
    ),
    "factors": Figure(page="results/factors.md", labels=("alpha", "attack loss"), panels=BY_LOSS),
    "lfw": Figure(page="results/lfw.md", labels=("alpha", "attack loss"), panels=BY_LOSS),
    "membership": Figure(
        page="results/membership.md",
        labels=("recipe",),
        panels=(
            Panel(columns=("by the margin (scores)", "by labels over views"), axis="membership AUC within persons, %"),
        ),
    ),
    "search": Figure(
        page="results/search.md", labels=("recipe",), panels=(Panel(columns=("Poincaré", "cross entropy")),)
    ),
    "attacks": Figure(
        page="results/attacks.md",
        labels=("attack (sees)",),
        panels=(Panel(columns=FOUR, names=FOUR_NAMES),),
        without=("test accuracy",),
    ),
    "attacks_evaluator": Figure(
        page="results/attacks.md",
        labels=("attack",),
        panels=(Panel(columns=FOUR, names=FOUR_NAMES, axis="recognised by the paper's evaluation model, %"),),
    ),
    "attacks_lfw": Figure(
        page="results/attacks-real-faces.md",
        labels=("attack",),
        panels=(Panel(columns=FOUR, names=FOUR_NAMES),),
        without=("test accuracy",),
    ),
    "recipes": Figure(
        page="results/recipes.md",
        labels=("recipe",),
        panels=(_points(*STRONGEST, names=STRONGEST_NAMES), Panel(columns=PORTFOLIO)),
    ),
    "recipes_lfw": Figure(
        page="results/recipes-real-faces.md",
        labels=("recipe",),
        panels=(_points(*STRONGEST, names=STRONGEST_NAMES), Panel(columns=PORTFOLIO)),
    ),
    "answers": Figure(
        page="results/answers.md",
        labels=("recipe",),
        panels=(
            Panel(
                columns=(
                    "surrogate taught by labels",
                    "surrogate taught by scores",
                    "CMA-ES on scores",
                    "selection alone (control)",
                )
            ),
        ),
    ),
    "cost_averaged": Figure(
        page="results/portfolio-cost.md",
        labels=("averaged: views x steps",),
        panels=(Panel(columns=("plain / −0.8 / −3",), parts=EACH),),
    ),
    "cost_surrogate": Figure(
        page="results/portfolio-cost.md",
        labels=("surrogate: shown, epochs, batch",),
        panels=(Panel(columns=("plain / −0.8 / −3",), parts=EACH),),
    ),
    **_inside("inside", "inside-the-attack", ("0", "−0.05", "−0.8", "0.1")),
    **_inside("inside_lfw", "inside-the-attack-real-faces", ("0", "−0.05", "−0.8")),
    "defenses": Figure(
        page="results/defenses.md",
        labels=("recipe",),
        panels=(_points("reduction, points"), _own(ACCURACY, "test accuracy")),
    ),
    "defenses_lfw": Figure(
        page="results/defenses-real-faces.md",
        labels=("recipe",),
        panels=(Panel(columns=("worse of the two",)), _own(ACCURACY, "test accuracy")),
    ),
}
