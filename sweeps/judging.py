"""The judges of a sweep file. Their keys are the fields of their classes in core/judges, whence they come here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import Discriminator, Tag, create_model, model_validator

from smoothsweep.core.bounds import Count, Seed
from smoothsweep.core.declared import build
from smoothsweep.core.judges.base import ClassifierJudge, Judge
from smoothsweep.core.judges.table import JUDGES
from smoothsweep.core.plugins import refuse_broken
from smoothsweep.sweeps.base import Model, derived, one_of
from smoothsweep.sweeps.imported import ImportedClassifier, trained_or_imported
from smoothsweep.sweeps.training import Augmentation, Recipe, Training


class AnyJudge(Model):
    """What every judge of a sweep file has; the keys of its own are added by `schema_of`."""

    declared: ClassVar[type[Judge]] = Judge

    def built(self, kind: type[Judge]) -> Judge:
        """The judge itself. Raises InputError where its class refuses the values."""
        return build(kind, self.model_dump(mode="python"), what="judge", prefix="")

    @model_validator(mode="after")
    def _valid(self) -> AnyJudge:
        self.built(self.declared)
        return self


class AnyClassifier(Training):
    """A judge that is trained as targets are; its defaults are its own."""

    declared: ClassVar[type[ClassifierJudge]] = ClassifierJudge
    seed: Seed = 0  # seed of the classifier's weights and batches, the same in all trials
    checkpoint_every: Count = 10  # epochs between two checkpoints

    def built(self, kind: type[ClassifierJudge]) -> ClassifierJudge:
        """The judge itself."""
        return kind(settings=self)

    @model_validator(mode="before")
    @classmethod
    def _usual_where_they_apply(cls, raw: Any) -> Any:
        """Defaults that belong to one choice, so that another does not clash with them."""
        if not isinstance(raw, dict):
            return raw
        chosen = {**cls.declared.usual, **raw}
        where = cls.declared.where.items()
        return {**{name: value for name, (chooser, choice, value) in where if chosen[chooser] == choice}, **raw}


def _built(kind: type[Judge], settings: Any) -> Judge:
    imported: Any = kind  # a judge that is a classifier may be an imported one
    return imported(settings=settings) if isinstance(settings, ImportedClassifier) else settings.built(kind)


def schema_of(declared: type[Judge]) -> type[Model]:
    """The model of a judge's settings; judges that add none to those of their class share its."""
    return _schema_of(next(kind for kind in declared.__mro__ if "__dataclass_fields__" in kind.__dict__))


@lru_cache
def _schema_of(declared: type[Judge]) -> type[Model]:
    if issubclass(declared, ClassifierJudge):
        usual: dict[str, Any] = {name: _usual(name, value) for name, value in declared.usual.items()}
        trained = create_model(declared.__name__, __base__=AnyClassifier, __doc__=declared.__doc__, **usual)
        trained.declared = declared
        return trained
    recipes = {name: (one_of((Recipe, None)), None) for name in declared.recipes}
    return derived(declared, AnyJudge, without=declared.recipes, more=recipes)


def _usual(name: str, value: Any) -> tuple[Any, Any]:
    """A key of a training with another default."""
    field = AnyClassifier.model_fields[name]
    hint = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
    if is_dataclass(value):
        value = Augmentation(**{key: part for key, part in asdict(value).items() if key in Augmentation.model_fields})
    return hint, value


def _key(declared: type[Judge]) -> tuple[Any, None]:
    model: Any = schema_of(declared)
    if issubclass(declared, ClassifierJudge) and declared.importable:
        trained, brought = Annotated[model, Tag("trained_here")], Annotated[ImportedClassifier, Tag("brought_in")]
        either: Any = one_of((trained, brought))
        model = Annotated[either, Discriminator(trained_or_imported)]
    return one_of((model, None)), None


class AnyJudges(Model):
    """Judges of the reconstructions, and of the target itself (`robustness`). Columns of a judge that is absent
    are empty, with the reason."""

    @model_validator(mode="before")
    @classmethod
    def _can_be_used(cls, raw: Any) -> Any:
        for name in raw if isinstance(raw, Mapping) else ():
            refuse_broken("judges", name)
        return raw

    @property
    def settings(self) -> dict[str, Any]:
        """Name -> the settings of each that is asked for, in the order of the table."""
        return {name: settings for name in type(self).model_fields if (settings := getattr(self, name)) is not None}

    @cached_property
    def built(self) -> Mapping[str, Judge]:
        """Name -> each that is asked for. Raises InputError where its class refuses the values."""
        return {name: _built(JUDGES[name], settings) for name, settings in self.settings.items()}

    def __copy__(self) -> Self:
        """A copy without what was built: `model_copy` puts other settings in."""
        copied = super().__copy__()
        copied.__dict__.pop("built", None)
        return copied

    @property
    def classifiers(self) -> dict[str, Training | ImportedClassifier]:
        """Name -> the settings of each that is a classifier."""
        return {name: settings for name, settings in self.settings.items() if issubclass(JUDGES[name], ClassifierJudge)}

    @property
    def recipes(self) -> tuple[Recipe, ...]:
        """Recipes that settings of judges name, beside the sweep's own."""
        recipes = [getattr(self.settings[name], key) for name in self.settings for key in JUDGES[name].recipes]
        return tuple(recipe for recipe in recipes if recipe is not None)

    @property
    def of_reconstructions(self) -> tuple[str, ...]:
        """Judges that are asked for and need reconstructions."""
        return tuple(name for name, judge in self.built.items() if judge.needs_attack)

    @model_validator(mode="after")
    def _stand_beside_each_other(self) -> AnyJudges:
        for name, judge in self.built.items():
            for other, why in judge.requires.items():
                if other not in self.built:
                    raise ValueError(f"{name}: expected judges.{other} beside it, {why}, got none")
        return self


_KEYS: dict[str, Any] = {name: _key(declared) for name, declared in JUDGES.items() if not declared.requested_by}
if TYPE_CHECKING:
    Judges = AnyJudges
else:
    Judges = create_model("Judges", __base__=AnyJudges, __doc__=AnyJudges.__doc__, **_KEYS)
"""The type of a sweep's `judges`."""
