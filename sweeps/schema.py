"""The sweep file: every key, its meaning, unit and range.

A sweep file is YAML. Unknown keys are refused, and so is a key that cannot take effect. Sizes are pixels,
fractions lie in [0, 1], durations of schedules are fractions of training.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, ValidationError, model_validator

from smoothsweep.core.bounds import MOST, NAME, SINGLE, Count, Fraction, NotNegative, OpenFraction, Positive
from smoothsweep.core.checks import present
from smoothsweep.core.data.names import PUBLISHED_NAMES
from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.comparisons import ACCURACY_MARGIN
from smoothsweep.core.models.architectures import MOST_CLASSES
from smoothsweep.core.plugins import refuse_broken
from smoothsweep.core.text import quoted
from smoothsweep.sweeps.base import Model, Several, first_repeat, set_dotted
from smoothsweep.sweeps.imported import ImportedClassifier, check_target_outputs, trained_or_imported
from smoothsweep.sweeps.paper_tables import datasets_of
from smoothsweep.sweeps.parts import (
    Attack,
    Data,
    Judges,
    Prior,
    Public,
    PublishedData,
    PublishedPublic,
    SyntheticData,
    classes_of,
    read_attack,
)
from smoothsweep.sweeps.search import Budget, Reaudit, Search, SeedLooks, Seeds
from smoothsweep.sweeps.training import OtherTrial, Recipe

Protocol = Literal["clean", "paper"]


class Resources(Model):
    """What one task may take. GPUs are used where the cluster has them.

    How an attack's networks run (rows, compile, cuda_graphs) changes how sums are rounded, and many steps of a descent
    can make a different reconstruction of that: a value other than the default is part of a result's identity, and such
    a sweep shares no attack with one that has another. Nothing else here changes a result.

    Attributes:
        cpus_per_task: CPU cores that Ray reserves for each task; trainings on several workers aside.
        gpus_per_training: GPUs reserved for one training, a fraction to share a device; at most what there is.
        gpus_per_task: GPUs reserved for one task of an attack or a judge, a fraction to share a device; at most what
            there is.
        classes_per_task: Classes that one task of an attack inverts; null chooses it so that every device gets several
            tasks.
        trial_slots: Trials that run at once on this machine without a cluster; null: two per CPU.
        attack_rows: Images that go through the networks at once in an attack; null: as many as suit the kind of device.
        attack_compile: Compile prior and target by torch.compile, which takes a minute before the first step.
        attack_cuda_graphs: Record prior and target once as CUDA graphs and replay them.
        training_timeout_minutes: Minutes after which one training is ended (Ray Train's workers too); null: after
            three days.
        attack_timeout_minutes: Minutes after which one task of an attack, a few classes, is ended; null: as for a
            training.
    """

    cpus_per_task: Count = 1
    gpus_per_training: NotNegative = 1.0
    gpus_per_task: NotNegative = 0.5
    classes_per_task: Count | None = None
    trial_slots: Count | None = None
    attack_rows: Count | None = None
    attack_compile: bool = False
    attack_cuda_graphs: bool = False
    training_timeout_minutes: Positive | None = None
    attack_timeout_minutes: Positive | None = None

    @model_validator(mode="after")
    def _one_way_to_run(self) -> Resources:
        if self.attack_compile and self.attack_cuda_graphs:
            raise ValueError("attack_compile, attack_cuda_graphs: expected at most one of them, got both")
        return self


class Tracking(Model):
    """What MLflow gets beside runs and reports."""

    models: Literal["frontier", "all", "none"] = "frontier"  # recipes whose targets become registered models at the end


class AnySweep(Model):
    """The keys of every sweep file.

    A kind adds its own. What a caller may ask of any sweep (`search`, `budget`, `reaudit`, `min_test_acc`, `paper`,
    `accuracy_margin`, `every_seed`, `looks`, `protocol`, `tracking`) is a key or a property of it or, where its files
    cannot say it, a constant of its class.

    Attributes:
        name: The name of the sweep, its results and its report: letters, digits, ".", "_", "-", at most 64 characters.
        grid: Dotted key of this file -> list of values to try; every combination is a cell.
        cells: Combinations that form no full grid; each is combined with the whole grid.
        baseline: Dotted key -> value, the cell that the others are compared with.
    """

    name: Annotated[str, Field(pattern=NAME)]
    grid: dict[str, list[Any]] = Field(default_factory=dict)
    cells: Several[dict[str, Any]] = ()
    baseline: dict[str, Any] = Field(default_factory=dict)
    resources: Resources = Resources()

    if TYPE_CHECKING:

        @property
        def search(self) -> Search | None: ...

        @property
        def min_test_acc(self) -> float | None: ...

    @property
    def combinations(self) -> list[dict[str, Any]]:
        """Every combination of the grid, which beside a search holds keys of the attacker alone."""
        return [dict(zip(self.grid, values, strict=True)) for values in itertools.product(*self.grid.values())]

    @property
    def accuracy_needed(self) -> float | None:
        """The test accuracy without which a recipe is not recommended, if the file asks for one."""
        constraint = self.search.constraints.get("test_acc") if self.search else None
        return constraint.at_least if constraint else self.min_test_acc

    @property
    def leak_searched(self) -> str | None:
        """The leak that a search drives down, which decides its report and its second audit too."""
        return next(iter(self.search.leaks), None) if self.search else None


class ToySweep(AnySweep):
    """The paper's two-dimensional example (Figures 1 and 8): no search, no budget, one seed, the paper's protocol."""

    experiment: Literal["toy"]  # what the file describes, instead of inversion
    alpha: Annotated[float, Field(ge=-SINGLE, le=1)] = 0.0  # label smoothing factor of the three-class network

    seeds: ClassVar[tuple[int, ...]] = (42,)  # the notebook's only seed
    every_seed: ClassVar[tuple[int, ...]] = seeds
    looks: ClassVar[None] = None
    protocol: ClassVar[Protocol] = "paper"
    tracking: ClassVar[Tracking] = Tracking(models="none")
    search: ClassVar[None] = None
    budget: ClassVar[None] = None
    reaudit: ClassVar[None] = None
    min_test_acc: ClassVar[None] = None
    accuracy_margin: ClassVar[float] = ACCURACY_MARGIN
    paper: ClassVar[None] = None


TARGET_KEYS = ("recipe", "data")
PEOPLE_KEYS = ("kind", "path", "identities", "largest_classes", "classes", "spread", "seed")
"""Keys of the data that decide who is in them; the others choose among their pictures."""
KEYS_WITHOUT_TARGET = {
    *("judges", "search", "budget", "reaudit", "grid", "cells", "baseline", "paper", "min_test_acc", "accuracy_margin")
}


def known_classes(settings: InversionSweep) -> int | None:
    """How many classes the target tells apart, None where the data alone say it."""
    if isinstance(settings.recipe, ImportedClassifier):
        return settings.recipe.checked.num_classes
    return classes_of(settings.data)


Target = Annotated[
    Annotated[Recipe, Tag("trained_here")] | Annotated[ImportedClassifier, Tag("brought_in")],
    Discriminator(trained_or_imported),
]


class PaperTable(Model):
    """The table of the paper that a sweep repeats; the report sets our numbers beside its.

    Attributes:
        table: Number of the table.
        dataset: The paper's name of the data, where `data` is not the published set itself.
    """

    table: Annotated[Literal["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13"], BeforeValidator(str)]
    dataset: Literal["facescrub", "celeba", "imagenette"] | None = None

    @model_validator(mode="after")
    def _is_printed(self) -> PaperTable:
        if self.dataset is not None and self.dataset not in datasets_of(self.table):
            expected = ", ".join(datasets_of(self.table))
            raise ValueError(f"dataset: expected one of {expected} with table {self.table}, got {self.dataset}")
        return self

    def dataset_of(self, data: Data) -> str:
        """The paper's name of these data: as stated, else that of the published set."""
        return self.dataset or data.kind.removesuffix("64")


class InversionSweep(AnySweep):
    """Train targets, invert every class, judge the leak.

    Attributes:
        protocol: `clean`, or `paper`, which follows the official code's slips too, for numbers beside the published
            ones.
        seeds: Training seeds, one trial of each cell for each; or `looks`, which adds seeds to undecided recipes.
        data: Private images that targets are trained and tested on, by `kind`.
        public: Images of other people that the attacker has; a prior that is trained here, or an attack's own GAN,
            learns from them.
        recipe: How the target is trained, or the folder of an imported one.
        prior: The generator whose latents attacks search, by `kind`; null where no attack of the sweep needs one.
        attack: How targets are inverted, by `kind`; null inverts nothing and measures the target alone.
        judges: Who scores reconstructions and targets.
        classes: Labels (from 0) that are attacked, or all.
        search: Proposes recipes instead of a grid; the grid then holds keys of the attacker alone.
        budget: What the sweep may cost over its life; work that runs when it is spent is ended.
        reaudit: The accuracy-leak frontier once more, under fresh seeds.
        min_test_acc: Test accuracy, a fraction, below which no recipe is recommended; beside a search, write it as a
            constraint.
        accuracy_margin: Loss of test accuracy, a fraction, that counts as none.
    """

    experiment: Literal["inversion"] = "inversion"  # what the file describes; the other is toy, at the end of the page
    protocol: Protocol = "clean"
    seeds: Seeds
    data: Data
    public: Public | None = None
    recipe: Target = Recipe()
    prior: Prior | None = None
    attack: Attack | None = read_attack({})
    judges: Judges = Judges()
    classes: Literal["all"] | Annotated[Several[Annotated[int, Field(ge=0, le=MOST)]], Field(min_length=1)] = "all"
    search: Search | None = None
    budget: Budget | None = None
    reaudit: Reaudit | None = None
    min_test_acc: Fraction | None = None
    accuracy_margin: OpenFraction = ACCURACY_MARGIN
    tracking: Tracking = Tracking()
    paper: PaperTable | None = None

    @property
    def looks(self) -> SeedLooks | None:
        """When recipes are compared and get more seeds; None where all seeds are listed."""
        return self.seeds if isinstance(self.seeds, SeedLooks) else None

    @property
    def every_seed(self) -> tuple[int, ...]:
        """All seeds that a recipe may get."""
        return self.seeds.every if isinstance(self.seeds, SeedLooks) else self.seeds

    @property
    def inverted_by(self) -> Attack:
        """The attack of a sweep that has one. Raises ValueError, naming it, of one that has none."""
        return present(self.attack, "attack")

    @property
    def reads_prior(self) -> bool:
        """Whether the attack, or a part of it, decodes latents by the sweep's prior."""
        return self.attack is not None and "prior" in self.attack.built.reads

    @property
    def reads_public(self) -> bool:
        """Whether the prior that it reads, or the attack, learns from the public images, or a judge needs strangers."""
        fitted = self.prior is not None and self.prior.row.needs_public and self.reads_prior
        judged = any(judge.reads_public for judge in self.judges.built.values())
        return fitted or judged or (self.attack is not None and "public" in self.attack.built.reads)

    @property
    def attacked(self) -> int | None:
        """How many classes are attacked; None where only the data say."""
        return classes_of(self.data) if self.classes == "all" else len(self.classes)

    def reference(self) -> InversionSweep | None:
        """The trial whose test accuracy this one's training stops at, if its recipe names one. Raises InputError."""
        goal, key = self.recipe.stop_at_test_acc, "recipe.stop_at_test_acc"
        if not isinstance(goal, OtherTrial):
            return None
        return self._other(self.model_dump(mode="python"), {**goal.trial, key: None}, where=f"{key}.trial")

    def swapped_targets(self) -> dict[str, InversionSweep]:
        """Setting of the attack, such as `sampling_target` -> the trial whose target it names, where it names one.

        Raises InputError for a key that makes no target, and for a target of another input size, number of classes, or
        of other people: what it would answer to the class under attack is another person.
        """
        roles = self.attack.built.other_targets if self.attack is not None else {}
        named = {role: getattr(self.attack, role) for role in roles}
        return {role: self._swapped(role, other, named) for role, other in named.items() if other is not None}

    def _swapped(self, role: str, named: OtherTrial, roles: Iterable[str]) -> InversionSweep:
        where = f"attack.{role}.trial"
        for key in named.trial:
            if key.partition(".")[0] not in TARGET_KEYS:
                expected = f"expected keys of {' or '.join(TARGET_KEYS)}, which make a target"
                raise InputError(f"{where}: {expected}, got {quoted(key)}")
        raw = self.model_dump(mode="python", exclude=KEYS_WITHOUT_TARGET)
        raw["attack"] |= dict.fromkeys(roles)
        other = self._other(raw, named.trial, where=where)
        if other.recipe.image_size != self.recipe.image_size:
            expected = f"expected inputs of {self.recipe.image_size} pixels, as the attacked target has"
            raise InputError(f"{where}: {expected}, got {other.recipe.image_size}")
        counts = known_classes(self), known_classes(other)
        if None not in counts and counts[0] != counts[1]:
            raise InputError(f"{where}: expected {counts[0]} classes, as the attacked target has, got {counts[1]}")
        for key in PEOPLE_KEYS:
            mine, theirs = getattr(self.data, key, None), getattr(other.data, key, None)
            if mine != theirs:
                expected = f"expected the people of the attacked target, data.{key} {quoted(mine)}"
                raise InputError(f"{where}: {expected}, got {quoted(theirs)}")
        return other

    def _other(self, raw: dict[str, Any], values: Mapping[str, Any], *, where: str) -> InversionSweep:
        """The settings with other values under dotted keys."""
        for key, value in values.items():
            set_dotted(raw, key, value, where=where)
        try:
            return type(self).model_validate(raw)
        except ValidationError as error:
            message = error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
            raise InputError(f"{where}: {' '.join(message.split())}") from None

    @model_validator(mode="before")
    @classmethod
    def _plugins_can_be_used(cls, raw: Any) -> Any:
        for family, key in (("data", "kind"), ("search", "strategy")):
            part = raw.get(family) if isinstance(raw, Mapping) else None
            refuse_broken(family, part.get(key) if isinstance(part, Mapping) else None)
        return raw

    @model_validator(mode="after")
    def _fits_together(self) -> InversionSweep:
        self.reference()
        self.swapped_targets()
        if self.attack is None:
            self._fits_without_attack()
        for name, listed in (("seeds", self.every_seed), ("classes", () if self.classes == "all" else self.classes)):
            if twice := first_repeat(listed):
                raise ValueError(f"{name}: expected each once, got {twice[0]} twice")
        if self.paper and self.paper.dataset is None and not isinstance(self.data, PublishedData):
            raise ValueError(f"paper.dataset: expected the paper's name of these {self.data.kind} data, got none")
        if self.paper and self.paper.dataset_of(self.data) not in datasets_of(self.paper.table):
            table, expected = self.paper.table, ", ".join(datasets_of(self.paper.table))
            raise ValueError(f"data.kind: expected one of {expected} for table {table}, got {self.data.kind}")
        few = self.data.train_per_class if isinstance(self.data, SyntheticData) else None
        if few is not None and (self.data.samples_per_class or 0) > few:
            got = self.data.samples_per_class
            raise ValueError(f"data.samples_per_class: expected at most {few} images, got {got}")
        check_target_outputs(self)
        if self.attack is not None:
            self._fits_attacker()
        self._fits_classes()
        for judge in self.judges.built.values():
            judge.check(self)
        self._fits_search()
        self._fits_looks()
        return self

    def _fits_without_attack(self) -> None:
        """Refuse whatever only a reconstruction could be of use to."""
        attacker = ("prior", "public", "search", "reaudit", "min_test_acc")
        useless = [key for key in attacker if getattr(self, key) is not None]
        useless += [f"judges.{name}" for name in self.judges.of_reconstructions] + (
            ["classes"] if self.classes != "all" else []
        )
        if useless:
            raise ValueError(f"attack: expected one beside {useless[0]}, got null, which inverts nothing")

    def _fits_attacker(self) -> None:
        """Prior, public images and attack suit each other."""
        if isinstance(self.public, PublishedPublic) and self.data.kind == PUBLISHED_NAMES[self.public.kind].people_of:
            expected = f"expected no {self.public.kind} beside data of kind {self.data.kind}, which may have its people"
            raise ValueError(f"public.kind: {expected}, got {self.public.kind}")
        if self.prior and self.public and self.public.most is not None:
            self.prior.built.check_public(count=self.public.most)
        if self.prior and self.prior.row.needs_public and self.public is None:
            raise ValueError(f"public: expected the images to fit the {self.prior.kind} prior on, got none")
        self._fits_attack()
        if self.inverted_by.reconstruction_size is not None and self.protocol == "paper":
            raise ValueError(
                "attack.reconstruction_size: expected none under protocol paper, which keeps every judge's own size"
            )

    def _fits_classes(self) -> None:
        known = classes_of(self.data)
        if known is not None and self.classes != "all" and max(self.classes) >= known:
            raise ValueError(f"classes: expected labels below {known}, got {max(self.classes)}")
        trained = {f"judges.{name}": model for name, model in self.judges.classifiers.items()}
        for key, model in {"recipe": self.recipe, **trained}.items():
            most = MOST_CLASSES.get(model.architecture)
            if known and most and known > most:
                expected = f"expected at most {most} classes with {model.architecture}"
                raise ValueError(f"{key}.architecture: {expected} (its auxiliary head), got {known}")
        if known is not None and self.recipe.poison is not None:
            try:
                self.recipe.poison.built.check_classes(known)
            except InputError as error:
                raise ValueError(f"recipe.poison.{error}") from None

    def _fits_attack(self) -> None:
        attack = self.inverted_by.built
        attack.check(
            image_size=self.recipe.image_size,
            prior_kind=None if self.prior is None else self.prior.kind,
            has_public=self.public is not None,
        )
        if (classes := known_classes(self)) is not None:
            attack.check_classes(classes)
        if self.public is not None and self.public.most is not None:
            attack.check_public(self.public.most)
        defense = self.recipe.defense
        if attack.readout is not None and defense is not None and attack.readout not in defense.built.readouts:
            expected = ", ".join(defense.built.readouts) or "none: its answers are not noisy"
            raise ValueError(f"attack.readout: with defense {defense.kind} expected {expected}, got {attack.readout}")

    def _fits_search(self) -> None:
        if self.search:
            self.search.check_columns(self.judges)
            self.search.check_seeds(len(self.every_seed))
            if self.cells:
                raise ValueError("cells: expected none beside search, which proposes the recipes")
            if self.min_test_acc is not None:
                expected = "expected it among search.constraints (test_acc: {at_least: ...})"
                raise ValueError(f"min_test_acc: {expected}, got {self.min_test_acc:g} beside a search")
            if self.reaudit and not self.search.leaks:
                raise ValueError("reaudit: expected an objective that is a leak, got none")
        if self.reaudit and "share" in self.reaudit.model_fields_set and not (self.search and self.budget):
            raise ValueError(f"reaudit.share: expected only beside a search with a budget, got {self.reaudit.share:g}")
        if self.reaudit and (twice := sorted(set(self.reaudit.seeds) & set(self.every_seed))):
            raise ValueError(f"reaudit.seeds: expected other seeds than those of the sweep, got {twice[0]} in both")

    def _fits_looks(self) -> None:
        """Looks compare every recipe of the grid with the baseline by what leaks, and by nothing else."""
        if self.looks is None:
            return
        if rival_key := next((key for key in ("search", "reaudit", "paper") if getattr(self, key) is not None), None):
            raise ValueError(f"seeds.looks: expected none beside {rival_key}, got both; list the seeds")
        if self.attack is None:
            raise ValueError("seeds.looks: expected an attack, whose leak decides who gets more seeds, got null")
        if not self.baseline:
            raise ValueError("seeds.looks: expected a baseline to compare every recipe with, got none")


SWEEPS: dict[str, type[InversionSweep] | type[ToySweep]] = {"inversion": InversionSweep, "toy": ToySweep}
