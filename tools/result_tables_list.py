"""Which file of numbers each table of results shows, and on which page. tools/result_tables.py writes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

SHORT = {
    "attack loss cross entropy": "cross entropy",
    "attack loss Poincaré": "Poincaré",
    "attack loss logit": "logit",
    "Plug & Play, Poincaré": "Poincaré",
    "Plug & Play, cross entropy": "cross entropy",
    "Plug & Play, logit, select by augmented margin": "adapted",
    "Plug & Play, logit, 4 transforms averaged, select by augmented margin": "adapted, averaged",
}
"""Names of attacks that are too long for a column."""


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """A table of results.

    Attributes:
        numbers: the file below docs/results/numbers, without its suffix.
        pages: that show it, as paths in the repository.
        kind: recipes x attacks with verdicts; attacks x recipes; verdicts under the strongest attack; one measure;
            several measures; two leaks side by side.
        measure: what the kinds `attacks` and `measure` show, as the report names it.
        title: of the measure, on the page.
        hidden: whether `verdicts` shows what is hidden.
        left_out: beginnings of the names of attacks that are not shown.
        names: an attack -> its name on the page.
        rows: what a row of `verdicts` is.
        baselines: how many recipes others are compared with.
        measures: what the kind `measures` shows, as the report names it -> its title on the page.
        compared: those of `measures` that stand beside their difference from the baseline.
    """

    numbers: str
    pages: tuple[str, ...]
    kind: Literal["recipes", "attacks", "verdicts", "measure", "measures", "leaks"]
    measure: str = "Independent judge"
    title: str = ""
    hidden: bool = False
    left_out: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=lambda: SHORT)
    rows: Literal["recipe", "setting"] = "recipe"
    baselines: int = 1
    measures: Mapping[str, str] = field(default_factory=dict)
    compared: tuple[str, ...] = ()

    def named(self, attack: str) -> str:
        """An attack as the page calls it."""
        return self.names.get(attack, attack)


def _page(name: str) -> tuple[str, ...]:
    return (f"docs/results/{name}.md",)


RANDOM = ("random latents",)
REAL_PRIOR = {
    f"{prior}, Plug & Play, {loss}": f"{prior.removesuffix(' prior')}, {loss}"
    for prior in ("FFHQ prior", "eigenfaces")
    for loss in ("cross entropy", "Poincaré", "logit")
} | {
    f"{prior}, random latents (control)": f"{prior.removesuffix(' prior')}, random latents (control)"
    for prior in ("FFHQ prior", "eigenfaces")
}

TABLES: dict[str, Sheet] = {
    "quickstart": Sheet(numbers="quickstart", pages=("README.md",), kind="verdicts"),
    "verdicts": Sheet(numbers="quickstart", pages=("docs/results.md",), kind="verdicts", hidden=True),
    "quickstart-attacks": Sheet(numbers="quickstart", pages=_page("quickstart"), kind="recipes"),
    "recipes": Sheet(numbers="audit_small", pages=_page("recipes"), kind="recipes", left_out=RANDOM),
    "recipes-real-faces": Sheet(
        numbers="audit_small_lfw", pages=_page("recipes-real-faces"), kind="recipes", left_out=RANDOM
    ),
    "defenses": Sheet(numbers="defenses_small", pages=_page("defenses"), kind="recipes"),
    "attacks": Sheet(numbers="attacks_small", pages=_page("attacks"), kind="attacks", names={}),
    "attacks-verdicts": Sheet(numbers="attacks_small", pages=_page("attacks"), kind="verdicts", hidden=True),
    "membership-small": Sheet(numbers="membership_small", pages=_page("membership"), kind="leaks"),
    "membership-lfw": Sheet(numbers="membership_lfw", pages=_page("membership"), kind="leaks"),
    "membership-dp": Sheet(numbers="membership_dp", pages=_page("membership"), kind="leaks"),
    "answers": Sheet(numbers="audit_small_answers", pages=_page("answers"), kind="recipes", left_out=RANDOM),
    "real-prior": Sheet(
        numbers="lfw_ffhq",
        pages=_page("real-prior"),
        kind="recipes",
        left_out=("FFHQ prior, random", "eigenfaces, random"),
        names=REAL_PRIOR,
    ),
    "real-prior-verified": Sheet(
        numbers="lfw_ffhq", pages=_page("real-prior"), kind="attacks", measure="Verified at 1 %", names=REAL_PRIOR
    ),
    "membership-scores": Sheet(
        numbers="membership",
        pages=_page("membership"),
        kind="measure",
        measure="Membership by scores",
        title="AUC by the margin (scores)",
    ),
    "membership-labels": Sheet(
        numbers="membership",
        pages=_page("membership"),
        kind="measure",
        measure="Membership by labels",
        title="AUC by labels over views",
    ),
    "robustness": Sheet(
        numbers="robustness_small",
        pages=_page("robustness"),
        kind="measures",
        measures={
            "Test accuracy": "test accuracy",
            "FGSM, untargeted": "FGSM",
            "PGD, untargeted": "PGD",
            "PGD on the margin, untargeted": "PGD on the margin",
            "Auto-PGD, untargeted": "Auto-PGD",
            "Robust accuracy": "robust accuracy",
        },
        compared=("Robust accuracy",),
    ),
    "backdoors": Sheet(
        numbers="backdoors_small",
        pages=_page("robustness"),
        kind="measures",
        measures={
            "Test accuracy": "test accuracy",
            "Backdoor success": "backdoor success",
            "Target class without trigger": "target class without trigger",
        },
        compared=("Test accuracy",),
    ),
    "factors": Sheet(numbers="factors_small", pages=_page("factors"), kind="verdicts"),
    "fewer": Sheet(numbers="fewer_small", pages=_page("factors"), kind="verdicts", baselines=2),
    "sampled": Sheet(
        numbers="sampled_small",
        pages=_page("factors"),
        kind="measures",
        measures={"Independent judge": "independent judge", "Evaluator": "evaluator"},
        compared=("Evaluator",),
    ),
    "stages": Sheet(numbers="swaps_small", pages=_page("stages"), kind="verdicts", rows="setting"),
    "variants": Sheet(numbers="variants_small", pages=_page("stages"), kind="verdicts", rows="setting"),
    "attacks-evaluator": Sheet(
        numbers="attacks_small", pages=_page("attacks"), kind="attacks", names={}, measure="Evaluator"
    ),
}
