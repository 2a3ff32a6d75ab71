"""Which columns of which table of results each figure shows. tools/result_figures.py draws them."""

from __future__ import annotations

from dataclasses import dataclass

LEAK = "leak: matched by the independent judge, %"
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


FACTORS = ("alpha −0.2", "alpha −0.05", "alpha 0", "alpha 0.1")
FACTOR_NAMES = ("smoothing −0.2", "smoothing −0.05", "plain training", "smoothing 0.1")
PORTFOLIO = ("Poincaré", "cross entropy", "adapted", "adapted, averaged", "surrogate distilled from labels")
TOLD = ("reduction, points", "hidden, points")
TOLD_NAMES = ("reduction", "hidden beyond it")

TWO_LEAKS = Figure(
    page="results/membership.md",
    labels=("recipe",),
    panels=(
        _own("membership AUC within persons, %", "AUC, shadow models", "AUC, margin", "AUC, labels"),
        Panel(columns=("inversion",)),
    ),
)

FIGURES: dict[str, Figure] = {
    "verdicts": Figure(page="results.md", labels=("recipe",), panels=(_points("reduction, points"),)),
    "quickstart": Figure(
        page="results/quickstart.md",
        labels=("recipe",),
        panels=(Panel(columns=("cross entropy", "logit")), _points(*TOLD, names=TOLD_NAMES)),
    ),
    "membership_small": TWO_LEAKS,
    "membership_lfw": TWO_LEAKS,
    "membership_dp": TWO_LEAKS,
    "answers": Figure(
        page="results/answers.md",
        labels=("recipe",),
        panels=(
            _points("reduction, points"),
            Panel(columns=("CMA-ES", "surrogate distilled from scores", "surrogate distilled from labels")),
        ),
    ),
    "real_prior": Figure(
        page="results/real-prior.md",
        labels=("recipe",),
        panels=(
            Panel(
                columns=("FFHQ, cross entropy", "FFHQ, Poincaré", "FFHQ, logit"),
                axis="matched, FFHQ prior, %",
                names=("cross entropy", "Poincaré", "logit"),
            ),
            Panel(
                columns=("eigenfaces, cross entropy", "eigenfaces, Poincaré", "eigenfaces, logit"),
                axis="matched, eigenfaces, %",
                names=("cross entropy", "Poincaré", "logit"),
            ),
        ),
    ),
    "real_prior_verified": Figure(
        page="results/real-prior.md",
        labels=("attack",),
        panels=(
            Panel(
                columns=(
                    "plain training",
                    "smoothing 0.1",
                    "smoothing −0.05",
                    "smoothing −0.8, step at 0.1",
                    "smoothing −3, ramp start 0 end 0.4",
                ),
                axis="verified at 1 % false accepts, %",
            ),
        ),
    ),
    "membership": Figure(
        page="results/membership.md",
        labels=("recipe",),
        panels=(Panel(columns=("AUC by the margin (scores)",), axis="membership AUC within persons, %"),),
    ),
    "membership_labels": Figure(
        page="results/membership.md",
        labels=("recipe",),
        panels=(Panel(columns=("AUC by labels over views",), axis="membership AUC within persons, %"),),
    ),
    "attacks": Figure(
        page="results/attacks.md", labels=("attack",), panels=(Panel(columns=FACTORS, names=FACTOR_NAMES),)
    ),
    "attacks_verdicts": Figure(page="results/attacks.md", labels=("recipe",), panels=(_points("reduction, points"),)),
    "attacks_evaluator": Figure(
        page="results/attacks.md",
        labels=("attack",),
        panels=(Panel(columns=FACTORS, names=FACTOR_NAMES, axis="accepted by the paper's evaluation model, %"),),
    ),
    "recipes": Figure(
        page="results/recipes.md",
        labels=("recipe",),
        panels=(_points(*TOLD, names=TOLD_NAMES), Panel(columns=(*PORTFOLIO, "selection alone"))),
    ),
    "recipes_lfw": Figure(
        page="results/recipes-real-faces.md",
        labels=("recipe",),
        panels=(_points(*TOLD, names=TOLD_NAMES), Panel(columns=(*PORTFOLIO, "selection alone (control)"))),
    ),
    "factors": Figure(
        page="results/factors.md",
        labels=("recipe",),
        panels=(Panel(columns=("leak (independent judge)",)), _points("reduction, points")),
    ),
    "fewer": Figure(
        page="results/factors.md",
        labels=("recipe",),
        panels=(Panel(columns=("leak (independent judge)",)), _points("reduction, points")),
    ),
    "sampled": Figure(
        page="results/factors.md",
        labels=("recipe",),
        panels=(Panel(columns=("independent judge", "evaluator"), axis="matched, %"),),
    ),
    "stages": Figure(
        page="results/stages.md", labels=("setting",), panels=(Panel(columns=("leak (independent judge)",)),)
    ),
    "variants": Figure(
        page="results/stages.md", labels=("setting",), panels=(Panel(columns=("leak (independent judge)",)),)
    ),
    "robustness": Figure(
        page="results/robustness.md",
        labels=("recipe",),
        panels=(
            Panel(columns=("FGSM", "PGD", "PGD on the margin", "Auto-PGD"), axis="deceived by the attack, %"),
            Panel(columns=("robust accuracy",), axis="robust accuracy, %"),
        ),
    ),
    "backdoors": Figure(
        page="results/robustness.md",
        labels=("recipe",),
        panels=(
            Panel(
                columns=("backdoor success", "target class without trigger"), axis="answered with the target class, %"
            ),
            _own(ACCURACY, "test accuracy"),
        ),
    ),
    "defenses": Figure(
        page="results/defenses.md",
        labels=("recipe",),
        panels=(_points("reduction, points"), _own(ACCURACY, "test accuracy")),
    ),
}
