"""One colour per recipe, the same in every figure, readable on white and on black."""

from __future__ import annotations

from dataclasses import dataclass

from smoothsweep.orchestrator.page.figures.canvas import DARK, SOFT
from smoothsweep.orchestrator.result.defenses import defense_groups, family_index
from smoothsweep.orchestrator.result.format import ascii_text, is_null
from smoothsweep.orchestrator.result.summary import Summary, decide

# Below the baseline (a shield, in the paper's words) cool, above it (a catalyst) warm; stronger values more saturated.
COOL = (("#5b9fb5", "#a3d5e5"), ("#0b4f6c", "#38a3d1"))
WARM = (("#d98a3d", "#f2c48d"), ("#a8320a", "#ff7a45"))
BASELINE = ("#4a4a4a", "#cfcfcf")
REST = ("#8f8b82", "#8a877f")
_LIGHT = """#0072b2 #c4500a #00805f #9a4f84 #8a6d00 #5a4fb0 #7a3b2e #3d7a2a #b0206a #1f6f78 #647700 #3b4a8c #8c4a00
            #a32020 #6b2c7f #5c5c1f #2f5d3a"""
_DARK = """#58b4e8 #ff9a55 #3fd0a4 #e3a3cd #e0c040 #b0a6ff #d99a8b #94d17c #ff8fbf #6cc6cf #c3d94a #93a5f0 #e8a860
           #f58f8f #cf9be6 #cfcf8a #9fcfae"""
FAMILIES = tuple(zip(_LIGHT.split(), _DARK.split(), strict=True))
"""A colour for each defense, for its recipes share one."""
CATEGORIES = FAMILIES[:8]

Pair = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Colours:
    """pairs: recipe label -> its hex colours on paper and on a dark screen."""

    pairs: dict[str, Pair]

    def of(self, recipe: str) -> str:
        """The colour of a recipe in a figure; a label the sweep does not know (a curve's own name) looks neutral."""
        names = {ascii_text(name): light for name, (light, _) in self.pairs.items()}
        return names.get(ascii_text(recipe), SOFT)

    def css_class(self, recipe: str) -> str:
        """The CSS class of a recipe."""
        names = [ascii_text(name) for name in self.pairs]
        return f"r{names.index(ascii_text(recipe))}" if ascii_text(recipe) in names else "rx"

    def css(self) -> str:
        """Rules setting `--rc` for each recipe, light and dark, and what figures' colours become on a dark screen."""
        light, dark = (
            "".join(f".{self.css_class(recipe)}{{--rc:{pair[side]}}}" for recipe, pair in self.pairs.items())
            for side in (0, 1)
        )
        both = DARK | dict([*self.pairs.values(), REST])
        named = "".join(f"--c{on_paper[1:]}:{on_screen};" for on_paper, on_screen in both.items())
        # Paper is white whatever the screen's scheme was: dark colours hold on screens only.
        return f".rx{{--rc:var(--soft)}}{light}@media screen and (prefers-color-scheme:dark){{:root{{{named}}}{dark}}}"


def assign(summary: Summary) -> Colours:
    """A diverging scale where one number separates the recipes and one is the baseline; a colour for each defense
    where they are several; else a palette."""
    ordered = _numeric_order(summary)
    if ordered:
        return Colours(pairs=_diverging(ordered, summary.baseline_recipe))
    return Colours(pairs=_by_family(summary) if defense_groups(summary) else _categorical(summary))


def _numeric_order(summary: Summary) -> list[tuple[str, float]]:
    """(recipe, value) where the recipes differ in a single number, else nothing."""
    axes = [axis for axis in summary.axes if axis.role == "recipe"]
    if len(axes) != 1 or summary.baseline_recipe is None:
        return []
    values = {row["recipe"]: row[axes[0].key] for row in summary.cells.values()}
    if any(is_null(value) or isinstance(value, (str, bool, dict, list, tuple)) for value in values.values()):
        return []
    return sorted(((recipe, float(value)) for recipe, value in values.items()), key=lambda item: item[1])


def _diverging(ordered: list[tuple[str, float]], baseline: str | None) -> dict[str, Pair]:
    centre = next(value for recipe, value in ordered if recipe == baseline)
    below = [recipe for recipe, value in ordered if value < centre][::-1]
    above = [recipe for recipe, value in ordered if value > centre]
    pairs = {recipe: BASELINE for recipe, _ in ordered}
    for side, ramp in ((below, COOL), (above, WARM)):
        for rank, recipe in enumerate(side, start=1):
            light, dark = (_mix(*ends, rank / len(side)) for ends in zip(*ramp, strict=True))
            pairs[recipe] = light, dark
    return pairs


def _categorical(summary: Summary) -> dict[str, Pair]:
    """A colour each; where there are too many recipes, one for those on the front and grey for the rest."""
    others = [recipe for recipe in summary.recipes if recipe != summary.baseline_recipe]
    pairs = dict.fromkeys(others, REST)
    if len(others) > len(CATEGORIES):
        others = [recipe for recipe in others if recipe in decide(summary).front]
    for index, recipe in enumerate(others):
        pairs[recipe] = CATEGORIES[index % len(CATEGORIES)]
    if summary.baseline_recipe is not None:
        pairs[summary.baseline_recipe] = BASELINE
    return pairs


def _by_family(summary: Summary) -> dict[str, Pair]:
    """Recipes of one defense in one colour: their places and names tell them apart."""
    pairs = dict.fromkeys(summary.recipes, REST)
    for recipe, defended in summary.defenses.items():
        reference = defended.words.plain or recipe == summary.baseline_recipe
        index = family_index(summary, defended.words.family)
        pairs[recipe] = BASELINE if reference else FAMILIES[index % len(FAMILIES)]
    return pairs


def _mix(start: str, end: str, share: float) -> str:
    pairs = zip(bytes.fromhex(start[1:]), bytes.fromhex(end[1:]), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)
