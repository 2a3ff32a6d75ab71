"""What a search strategy is: where its code is, and what it asks of a sweep file. Loads none of that code."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from smoothsweep.core.bounds import LARGEST, MOST, Count, OpenFraction, Positive, Seed
from smoothsweep.core.checks import present
from smoothsweep.core.declared import build
from smoothsweep.core.judges.columns import METRICS
from smoothsweep.core.metrics.looks import Looks, Spend
from smoothsweep.core.named_code import load_named
from smoothsweep.core.plugins import with_plugins
from smoothsweep.core.text import quoted
from smoothsweep.sweeps.base import MAX_KEYS, MAX_TRIALS, Model, Several, derived, first_repeat
from smoothsweep.sweeps.space import Dimension, Space, check_inside, make_space

_HERE = "smoothsweep.orchestrator.search."


@dataclass(frozen=True, kw_only=True)
class StrategyKind:
    """One strategy.

    Attributes:
        code: 'module:function' of `orchestrator/search`, of a plugin with the whole path of its module:
            (setup, proposals so far, their outcomes) -> the next proposal, `Wait()` before more has come out, or None
            at the end.
        words: What it did, as a report says it.
        own: Keys of `search` that mean nothing to strategies that do not name them here.
        settings: Dataclass of what stands under `search.settings`, with the bounds in its types (`core.bounds`); None
            for a strategy without. Its instance is the `settings` of the strategy's `setup`.
        needs: Keys that must be there -> what is expected.
        without: Keys that all others have -> why they mean nothing to it.
        learns: Whether it proposes from outcomes, so that only a few recipes are open at once.
        whole_space: Whether it tries every point, so that the space must be finite.
        count_shapes: Whether the number of recipes shapes all proposals, so that another number is another search.
    """

    code: str
    words: str
    own: tuple[str, ...] = ()
    settings: type[Any] | None = None
    needs: Mapping[str, str] = field(default_factory=dict)
    without: Mapping[str, str] = field(default_factory=dict)
    learns: bool = False
    whole_space: bool = False
    count_shapes: bool = False

    @property
    def propose(self) -> Callable[..., Any]:
        return load_named(self.code, "" if "." in self.code.partition(":")[0] else _HERE)


def _own_keys(name: str, kind: StrategyKind, known: Mapping[str, StrategyKind]) -> str | None:
    """Why a plugin's strategy cannot stand beside those before it; None where it can."""
    return f"expected its keys in settings, not in own, got {', '.join(kind.own)}" if kind.own else None


_OWN: dict[str, StrategyKind] = {
    "grid": StrategyKind(
        code="setup:propose_grid",
        words="Every point of the space was tried",
        without={"recipes": "the space says it", "seed": "a grid has nothing random"},
        whole_space=True,
    ),
    "random": StrategyKind(code="setup:propose_random", words="Recipes were drawn by chance"),
    "optuna": StrategyKind(
        code="setup:propose_optuna",
        words="Optuna's sampler proposed recipes from what the earlier ones showed",
        own=("sampler",),
        learns=True,
    ),
    "halving": StrategyKind(
        code="setup:propose_halving",
        words="Cheap attacks on many recipes, the full attack on the best of them",
        own=("rungs", "audit"),
        needs={"rungs": "at least one cheap attack"},
        count_shapes=True,
    ),
    "noise_aware": StrategyKind(
        code="noise_aware:propose_noise_aware",
        words="Recipes trained under the first seeds, and under the others where they might extend the frontier",
        own=("first_seeds",),
        learns=True,
    ),
}

STRATEGIES: dict[str, StrategyKind] = with_plugins("search", _OWN, StrategyKind, _own_keys)
"""Name in sweep files -> the strategy."""


class Budget(Model):
    """Over the life of the sweep, running work included. Either or both."""

    device_hours: Positive | None = None  # hours of GPUs, or of CPUs where there are none, summed over all tasks
    minutes: Positive | None = None  # minutes on the clock while the sweep runs

    @model_validator(mode="after")
    def _limits_something(self) -> Budget:
        if self.device_hours is None and self.minutes is None:
            raise ValueError("expected device_hours or minutes, got neither")
        return self


class Reaudit(Model):
    """The recipes on the accuracy-leak frontier once more: fresh seeds, the full attack.

    Attributes:
        seeds: Training seeds that the sweep itself does not use.
        recipes: How many recipes of the frontier at most, its ends first.
        share: Fraction of the budget that a search leaves to it.
    """

    seeds: Annotated[Several[Seed], Field(min_length=1)]
    recipes: Annotated[Count, Field(le=MAX_TRIALS)] = 5
    share: Annotated[float, Field(ge=0, lt=1)] = 0.2

    @field_validator("seeds")
    @classmethod
    def _each_once(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        if twice := first_repeat(seeds):
            raise ValueError(f"expected each once, got {twice[0]} twice")
        return seeds


MOST_LOOKS, MOST_SEEDS = 20, 1000


class SeedLooks(Model):
    """A group-sequential design (`core.metrics.looks`).

    Every recipe is compared with the baseline at the first look, those still undecided again at the next, with more
    seeds.

    Attributes:
        looks: How many seeds each look has, increasing, two or more at the first.
        first: The first seed; the others follow it.
        alpha: The error probability of all looks together.
        spend: How the error probability is spent over the looks.
        smallest: The smallest difference of interest, in the unit of the leak (0.05: five percentage points); a recipe
            whose interval lies within it, either way, gets no more seeds.
    """

    looks: Annotated[Several[Annotated[int, Field(ge=1, le=MOST_SEEDS)]], Field(min_length=1, max_length=MOST_LOOKS)]
    first: Annotated[Seed, Field(le=LARGEST - MOST_SEEDS)] = 1
    alpha: OpenFraction = 0.05
    spend: Spend = "pocock"
    smallest: Positive = 0.05

    @cached_property
    def design(self) -> Looks:
        """The looks with their errors. Raises InputError where they are none."""
        return Looks(seeds=self.looks, alpha=self.alpha, spend=self.spend)

    def of_look(self, number: int) -> tuple[int, ...]:
        """All seeds that a recipe has at a look, counted from 0."""
        return tuple(range(self.first, self.first + self.looks[number]))

    @property
    def every(self) -> tuple[int, ...]:
        """The seeds of the last look."""
        return self.of_look(-1)

    @model_validator(mode="after")
    def _is_a_design(self) -> SeedLooks:
        self.design  # noqa: B018 - refuses what is none
        return self


Seeds = Annotated[
    Annotated[Several[Seed], Field(min_length=1), Tag("a_list")] | Annotated[SeedLooks, Tag("of_looks")],
    Discriminator(lambda raw: "of_looks" if isinstance(raw, dict | SeedLooks) else "a_list"),
]
"""The type of a sweep's `seeds`: all of them, or when recipes get more."""

Direction = Literal["max", "min"]

if TYPE_CHECKING:
    Strategy = str
else:
    Strategy = Literal[tuple(STRATEGIES)]

OBJECTIVES: dict[str, str | None] = {metric.key: metric.judge for metric in METRICS if metric.searched}
"""Columns of the results that a search can aim at -> the judge that measures them, None for every sweep's own."""

MOST_VALUES = 100_000  # of one key, in steps
LAG = 4  # recipes at once in an adaptive search, unless the file says otherwise


class Range(derived(Dimension, without=("key",), optional=("low", "high"))):
    """What one key may be: `choices`, or numbers from `low` to `high`."""

    @model_validator(mode="after")
    def _says_what_it_may_be(self) -> Range:
        if self.choices is not None:
            others = {"low", "high", "step", "log", "integer", "above"} & self.model_fields_set
            if others:
                raise ValueError(f"expected choices or a range, got choices and {', '.join(sorted(others))}")
            if not self.choices:
                raise ValueError("choices: expected at least one, got none")
            if twice := first_repeat(self.choices):
                raise ValueError(f"choices: expected each once, got {' and '.join(map(quoted, twice))}")
            return self
        for name in ("low", "high"):
            if getattr(self, name) is None:
                raise ValueError(f"{name}: expected a number (or choices instead of a range), got none")
        self._check_range(present(self.low, "low"), present(self.high, "high"))
        return self

    def _check_range(self, low: float, high: float) -> None:
        if low > high:
            raise ValueError(f"low: expected at most high ({high:g}), got {low:g}")
        if self.log and low <= 0:
            raise ValueError(f"low: expected above 0 with log, got {low:g}")
        if self.log and self.step is not None:
            raise ValueError(f"step: expected none with log, got {self.step:g}")
        if self.step is not None and low < high and self.step > high - low:
            raise ValueError(f"step: expected at most high - low ({high - low:g}), got {self.step:g}")
        if self.step is not None and (high - low) / self.step > MOST_VALUES:
            raise ValueError(f"step: expected at most {MOST_VALUES} values, got steps of {self.step:g}")
        if self.integer and self.step is None and high - low > MOST_VALUES:
            raise ValueError(f"high: expected at most {MOST_VALUES} whole numbers, or a step, got {high:g}")
        if self.integer and self.log:
            raise ValueError("log: expected false for whole numbers, got true")
        if self.integer and any(value is not None and value != int(value) for value in (low, high, self.step)):
            got = f"{low:g}, {high:g}, {self.step}"
            raise ValueError(f"integer: expected whole numbers for low, high and step, got {got}")

    def dimension(self, key: str) -> Dimension:
        """This range as a dimension of `sweeps.space`."""
        stated: dict[str, Any] = {name: value for name, value in self if value is not None}
        stated["when"] = {
            other: tuple(value) if isinstance(value, list | tuple) else (value,) for other, value in self.when.items()
        }
        if self.integer and self.step is None:
            stated["step"] = 1.0
        return Dimension(key=key, **stated)


class Constraint(Model):
    """What a recipe must keep to, by its mean over the seeds under the worst attack for it."""

    at_least: float | None = None  # smallest value, in the unit of the column
    at_most: float | None = None  # largest value, in the unit of the column

    @model_validator(mode="after")
    def _can_be_met(self) -> Constraint:
        if self.at_least is None and self.at_most is None:
            raise ValueError("expected at_least or at_most, got neither")
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            raise ValueError(f"at_least: expected at most at_most ({self.at_most:g}), got {self.at_least:g}")
        return self

    def violation(self, value: float) -> float:
        """How far a value misses it; 0 or less where it does not."""
        low = -math.inf if self.at_least is None else self.at_least - value
        high = -math.inf if self.at_most is None else value - self.at_most
        return max(low, high)


class Rung(Model):
    """A cheap attack and the fraction of recipes it lets through.

    Attributes:
        keep: Fraction of the recipes that go on to the next rung, rounded up, the best first.
        set: Dotted key of the attack, or classes -> the value it has on this rung.
    """

    keep: Annotated[float, Field(gt=0, lt=1)]
    set: Annotated[dict[str, Any], Field(min_length=1)]

    @field_validator("set")
    @classmethod
    def _of_the_attack(cls, settings: dict[str, Any]) -> dict[str, Any]:
        for key in settings:
            if key != "classes" and key.split(".")[0] != "attack":
                raise ValueError(f"{key}: expected keys of the attack, or classes, got {key}")
        return settings


class Search(Model):
    """Proposes recipes out of a space. See `sweeps/search_schedules.yaml`.

    Attributes:
        strategy: How the next recipe is chosen.
        settings: Keys of a strategy from another package, as its class says them.
        sampler: Sampler of strategy optuna: a Gaussian process (gp, the default), or tpe, which costs nothing to ask
            and suits hundreds of recipes.
        recipes: How many to propose at most; none for strategy grid.
        seed: Seed of everything random in the search, null: 0; none for strategy grid.
        in_flight: Recipes that are open at once; null: 4 where the strategy learns from outcomes, else no limit.
        space: Dotted key of the recipe -> what it may be.
        objectives: One to three columns of the results -> max or min.
        constraints: Column of the results -> what a recipe must keep to.
        rungs: Cheap attacks of strategy halving, in the order in which recipes meet them.
        audit: How many dropped recipes, drawn at random, meet the full attack too, with strategy halving; null: 0.
        first_seeds: How many of the sweep's seeds a recipe meets at first, with strategy noise_aware (1, the default).
            It meets more where it may extend the frontier.
    """

    strategy: Strategy = "noise_aware"
    settings: dict[str, Any] | None = None
    sampler: Literal["gp", "tpe"] | None = None
    recipes: Annotated[Count, Field(le=MAX_TRIALS)] | None = None
    seed: Seed | None = None
    in_flight: Count | None = None
    space: Annotated[dict[str, Range], Field(max_length=MAX_KEYS)]
    objectives: Annotated[dict[str, Direction], Field(min_length=1, max_length=3)]
    constraints: dict[str, Constraint] = Field(default_factory=dict)
    rungs: Several[Rung] = ()
    audit: Annotated[int, Field(ge=0, le=MOST)] | None = None
    first_seeds: Count | None = None

    @cached_property
    def dimensions(self) -> Space:
        """The space as `sweeps.space` has it."""
        return make_space([range_.dimension(key) for key, range_ in self.space.items()])

    @property
    def start(self) -> int:
        """The seed of everything random."""
        return self.seed or 0

    @property
    def lag(self) -> int | None:
        """How many recipes may be open at once; None for any number."""
        return self.in_flight or (LAG if self.row.learns else None)

    @property
    def row(self) -> StrategyKind:
        """What is known of its strategy."""
        return STRATEGIES[self.strategy]

    @property
    def built_settings(self) -> Any:
        """An instance of the strategy's own settings, None where it has none. Raises InputError for a wrong one."""
        kind, stated = self.row.settings, self.settings or {}
        return None if kind is None else build(kind, stated, what="search.settings", prefix="search.settings.")

    @property
    def seeds_at_first(self) -> int:
        """How many of the sweep's seeds a recipe of strategy noise_aware meets at first."""
        return self.first_seeds or 1

    @property
    def leaks(self) -> dict[str, Direction]:
        """The objectives that say what leaks."""
        return {column: way for column, way in self.objectives.items() if OBJECTIVES[column] is not None}

    @field_validator("space")
    @classmethod
    def _consistent(cls, space: dict[str, Range]) -> dict[str, Range]:
        for key in space:
            if (part := key.split(".")[0]) in ("attack", "prior", "public", "classes", "judges"):
                got = "one of the attacker, who does not search here (grid takes it)"
                raise ValueError(f"{key}: expected keys of the recipe, got {got}")
            if part != "recipe":
                raise ValueError(f"{key}: expected keys of the recipe, got {key}")
        by_key = {key: range_.dimension(key) for key, range_ in space.items()}
        for dimension in make_space(list(by_key.values())).dimensions:
            check_inside(dimension, by_key)
        return space

    @field_validator("objectives", "constraints")
    @classmethod
    def _known_columns(cls, columns: dict[str, Any]) -> dict[str, Any]:
        for column in columns:
            if column not in OBJECTIVES:
                raise ValueError(f"{column}: expected one of {', '.join(OBJECTIVES)}, got {column}")
        return columns

    @model_validator(mode="after")
    def _nothing_ignored(self) -> Search:
        row, strategy = self.row, f"strategy {self.strategy}"
        for name, why in row.without.items():
            if (got := getattr(self, name)) is not None:
                raise ValueError(f"{name}: expected none with {strategy}, since {why}, got {got}")
        if self.settings is not None and row.settings is None:
            raise ValueError(f"settings: expected none with {strategy}, which has no settings, got {self.settings}")
        _ = self.built_settings  # whose class refuses what it cannot use
        if row.whole_space:
            self._check_finite(strategy)
        if "recipes" not in row.without and self.recipes is None:
            raise ValueError(f"recipes: expected how many to propose at most with {strategy}, got none")
        for name, expected in row.needs.items():
            if not getattr(self, name):
                raise ValueError(f"{name}: expected {expected} with {strategy}, got none")
        for name in dict.fromkeys(key for kind in STRATEGIES.values() for key in kind.own):
            if getattr(self, name) and name not in row.own:
                owners = " or ".join(key for key, kind in STRATEGIES.items() if name in kind.own)
                raise ValueError(f"{name}: expected only with strategy {owners}, got {strategy}")
        return self

    def _check_finite(self, strategy: str) -> None:
        """Raise ValueError where the space cannot be tried as a whole."""
        dimensions = zip(self.dimensions.keys, self.dimensions.dimensions, strict=True)
        if endless := [key for key, dimension in dimensions if dimension.values is None]:
            raise ValueError(f"space.{endless[0]}: expected choices or a step with {strategy}, got a range")
        if self.dimensions.is_larger_than(MAX_TRIALS):
            raise ValueError(f"space: expected at most {MAX_TRIALS} recipes with {strategy}, got more")

    def check_seeds(self, seeds: int) -> None:
        """Raise ValueError for more first seeds than the sweep has."""
        if self.seeds_at_first > seeds:
            got = self.first_seeds
            raise ValueError(f"search.first_seeds: expected at most {seeds}, the number of seeds, got {got}")

    def check_columns(self, judges: Any) -> None:
        """Raise ValueError for objectives or constraints that no judge of the sweep measures."""
        for place, columns in (("objectives", self.objectives), ("constraints", self.constraints)):
            for column in columns:
                judge = OBJECTIVES[column]
                if judge is not None and getattr(judges, judge) is None:
                    where = f"search.{place}.{column}"
                    raise ValueError(f"{where}: expected a judge that measures it (judges.{judge}), got none")
