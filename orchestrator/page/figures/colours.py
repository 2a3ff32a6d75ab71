"""One colour per recipe, the same in every figure, readable on white and on black."""

from __future__ import annotations

from dataclasses import dataclass

from smoothsweep.orchestrator.page.figures.canvas import DARK, SOFT
from smoothsweep.orchestrator.result.defenses import NONE
from smoothsweep.orchestrator.result.format import ascii_text
from smoothsweep.orchestrator.result.sweep_result import SweepResult, rows_of

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

    @property
    def classes(self) -> dict[str, str]:
        """Recipe -> its CSS class."""
        return {recipe: f"r{place}" for place, recipe in enumerate(self.pairs)}

    def css(self) -> str:
        """Rules setting `--rc` for each recipe, light and dark, and what figures' colours become on a dark screen."""
        light, dark = (
            "".join(f".r{place}{{--rc:{pair[side]}}}" for place, pair in enumerate(self.pairs.values()))
            for side in (0, 1)
        )
        both = DARK | dict([*self.pairs.values(), REST])
        named = "".join(f"--c{on_paper[1:]}:{on_screen};" for on_paper, on_screen in both.items())
        # Paper is white whatever the screen's scheme was: dark colours hold on screens only.
        return f".rx{{--rc:var(--soft)}}{light}@media screen and (prefers-color-scheme:dark){{:root{{{named}}}{dark}}}"


def assign(result: SweepResult) -> Colours:
    """A diverging scale where one number separates the recipes and one is the baseline; a colour for each defense
    where they are several; else a palette."""
    recipes = result.recipes
    if recipes["number"].notna().any():
        numbers = recipes.sort_values("number", kind="stable")[["recipe", "number"]]
        return Colours(pairs=_diverging([*numbers.itertuples(index=False, name=None)], result.facts["baseline"]))
    several = len({*recipes["family"].dropna()} - {NONE}) > 1
    return Colours(pairs=_by_family(result) if several else _categorical(result))


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


def _categorical(result: SweepResult) -> dict[str, Pair]:
    """A colour each; where there are too many recipes, one for those on the front and grey for the rest."""
    baseline = result.facts["baseline"]
    others = [recipe for recipe in result.recipes["recipe"] if recipe != baseline]
    pairs = dict.fromkeys(others, REST)
    if len(others) > len(CATEGORIES):
        others = [recipe for recipe in others if recipe in result.facts["front"]]
    pairs |= {recipe: CATEGORIES[index % len(CATEGORIES)] for index, recipe in enumerate(others)}
    return pairs if baseline is None else pairs | {baseline: BASELINE}


def _by_family(result: SweepResult) -> dict[str, Pair]:
    """Recipes of one defense in one colour: their places and names tell them apart."""
    pairs = {}
    for row in rows_of(result.recipes):
        own = REST if row["family"] is None else BASELINE
        place, is_baseline = row["family_place"], row["recipe"] == result.facts["baseline"]
        pairs[row["recipe"]] = own if place is None or is_baseline else FAMILIES[int(place) % len(FAMILIES)]
    return pairs


def _mix(start: str, end: str, share: float) -> str:
    pairs = zip(bytes.fromhex(start[1:]), bytes.fromhex(end[1:]), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)
