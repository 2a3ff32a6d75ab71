"""The sweep file: every key, its meaning, unit and range.

A sweep file is YAML. Unknown keys are refused, and so is a key that cannot take effect. Sizes are pixels,
fractions lie in [0, 1], durations of schedules are fractions of training.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from smoothsweep.core.bounds import MOST, Fraction, OpenFraction, Seed
from smoothsweep.core.checks import present
from smoothsweep.core.data.names import PUBLISHED_NAMES
from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.equivalence import ACCURACY_MARGIN
from smoothsweep.core.models.image_sizes import MOST_CLASSES
from smoothsweep.core.plugins import refuse_broken
from smoothsweep.sweeps.any_sweep import AnySweep, Protocol, Tracking
from smoothsweep.sweeps.attacker import Prior
from smoothsweep.sweeps.attacks import Attack, read_attack
from smoothsweep.sweeps.base import Model, Several
from smoothsweep.sweeps.data import Data, Public, PublishedData, PublishedPublic, SyntheticData
from smoothsweep.sweeps.imported import ImportedClassifier, trained_or_imported
from smoothsweep.sweeps.judging import Judges
from smoothsweep.sweeps.limits import Budget, Reaudit
from smoothsweep.sweeps.looks import SeedLooks, list_or_looks
from smoothsweep.sweeps.other_trials import known_classes, stopping_reference, swapped_targets
from smoothsweep.sweeps.paper_numbers import datasets_of
from smoothsweep.sweeps.resolved import classes_of
from smoothsweep.sweeps.search import Search
from smoothsweep.sweeps.settings import first_repeat
from smoothsweep.sweeps.target_outputs import check_target_outputs
from smoothsweep.sweeps.toy import ToySweep
from smoothsweep.sweeps.training import Recipe

Target = Annotated[
    Annotated[Recipe, Tag("trained_here")] | Annotated[ImportedClassifier, Tag("brought_in")],
    Discriminator(trained_or_imported),
]


Seeds = Annotated[
    Annotated[Several[Seed], Field(min_length=1), Tag("a_list")] | Annotated[SeedLooks, Tag("of_looks")],
    Discriminator(list_or_looks),
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
        return stopping_reference(self)

    def swapped_targets(self) -> dict[str, InversionSweep]:
        """`sampling_target`, ... -> the trial whose target does that stage of the attack. Raises InputError."""
        return swapped_targets(self)

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
        if isinstance(self.data, SyntheticData):
            self._fits_synthetic(self.data)
        check_target_outputs(self)
        if self.attack is not None:
            self._fits_attacker()
        self._fits_classes()
        for judge in self.judges.built.values():
            judge.check(self)
        self._fits_poison()
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

    def _fits_poison(self) -> None:
        known = classes_of(self.data)
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
        if attack.readout is not None and defense is not None and attack.readout not in defense.readouts:
            expected = ", ".join(defense.readouts) or "none: its answers are not noisy"
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

    def _fits_synthetic(self, data: SyntheticData) -> None:
        if data.samples_per_class is not None and data.samples_per_class > data.train_per_class:
            got = data.samples_per_class
            raise ValueError(f"data.samples_per_class: expected at most {data.train_per_class} images, got {got}")


SWEEPS: dict[str, type[InversionSweep] | type[ToySweep]] = {"inversion": InversionSweep, "toy": ToySweep}
