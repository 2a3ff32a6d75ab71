"""The parts of a sweep file beside its recipe: data, attack, prior, judges.

Their keys are the fields of their classes in core, which check what they may be: a new member needs nothing here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import Discriminator, Field, PlainValidator, SerializeAsAny, Tag, create_model, model_validator

from smoothsweep.core.attacks.registry import attack_class
from smoothsweep.core.attacks.shared.base import Attack as CoreAttack
from smoothsweep.core.bounds import Count, FilePath, Seed
from smoothsweep.core.data.base import DataKind
from smoothsweep.core.data.kinds import DATA
from smoothsweep.core.data.names import NAMED_IN_SWEEPS, PUBLISHED_NAMES
from smoothsweep.core.declared import build
from smoothsweep.core.judges.base import ClassifierJudge, Judge
from smoothsweep.core.judges.table import JUDGES
from smoothsweep.core.plugins import refuse_broken, with_plugin_name
from smoothsweep.core.priors.kinds import PRIORS
from smoothsweep.core.priors.settings import PriorKind
from smoothsweep.sweeps.base import Built, Model, derived, one_of, one_value, only_with
from smoothsweep.sweeps.imported import ImportedClassifier, trained_or_imported
from smoothsweep.sweeps.training import Augmentation, OtherTrial, Recipe, Training

Spread = Annotated[float, Field(gt=0, le=1e6)]  # beyond, traits are no numbers that faces can be drawn from
Bits = Literal[8, 10, 12, 14, 16]

if TYPE_CHECKING:
    PublishedKind = str
else:
    PublishedKind = Literal[NAMED_IN_SWEEPS]


class OwnData(Model):
    """Private images whose keys no class of core has. of_classes: the key that says how many classes they have."""

    of_classes: ClassVar[str] = ""

    @property
    def cites(self) -> tuple[str, ...]:
        """Their sources, as `core.citations` has them."""
        return ()

    @property
    def classes_known(self) -> int | None:
        """How many classes the data have, where the file alone says it."""
        return getattr(self, self.of_classes)


class SyntheticData(OwnData):
    """Private identities drawn by the procedural face renderer: no real person is exposed."""

    kind: Literal["synthetic"]
    identities: Annotated[Count, Field(ge=2)] = 50  # people to draw, one class each
    train_per_class: Count = 20  # training images of each class
    test_per_class: Count = 10  # test images of each class
    size: Annotated[int, Field(ge=16, le=256)] = 64  # side in pixels that images are drawn at
    spread: Spread = 0.4  # how far identities differ: 1 is a population, 0.4 look-alikes
    seed: Seed = 0  # decides who is drawn, and how
    samples_per_class: Count | None = None  # train on this many images of each class (the low-data study)

    of_classes: ClassVar[str] = "identities"
    path: ClassVar[None] = None


class LabelledData(OwnData):
    """The user's own images: a Parquet file (`image`, `label` or `identity`, maybe `split`) or a folder per class.

    Attributes:
        test_fraction: Fraction of each class's images that are tested on, where the file has no split.
        largest_classes: Keep this many classes, those with most training images.
        on_corrupt: skip leaves out images that cannot be read, and training images that the test part holds too; refuse
            ends with an error.
    """

    of_classes: ClassVar[str] = "largest_classes"

    kind: Literal["labelled"]
    path: FilePath  # the Parquet file or the folder
    size: Annotated[int, Field(ge=16, le=2048)] = 64  # side in pixels that images are kept at
    crop: Literal["centre", "stretch"] = "centre"  # what to do with images that are not square
    bits: Bits | None = None  # how many bits images use whose files have 16 or 32 for each value
    test_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.1
    split_seed: Seed = 42  # seed of that split, and of the choice by samples_per_class
    largest_classes: Annotated[Count, Field(ge=2)] | None = None
    samples_per_class: Count | None = None  # keep this many training images of each class
    on_corrupt: Literal["refuse", "skip"] = "refuse"


class PublishedData(OwnData):
    """One of the paper's data sets, on the user's disk in its official layout (`smoothsweep data check` says so).

    Labels, selection and the 90/10 split of seed 42 are those of the official code. Every network gets the pictures at
    its own size, reduced once from the files; so there is no `size` here.

    Attributes:
        kind: Which data set.
        pictures: celeba only: ready crops (null: these), the aligned release, or pictures in the wild, cropped here by
            5 or 68 landmarks.
    """

    of_classes: ClassVar[str] = "classes"

    kind: PublishedKind
    path: FilePath  # the folder with the data set
    classes: Annotated[Count, Field(ge=2)] | None = None  # how many classes; null: the paper's number
    split_seed: Seed = 42  # seed of the 90/10 split, and of samples_per_class
    samples_per_class: Count | None = None  # train on this many pictures of each class (the paper's Table 4)
    on_corrupt: Literal["refuse", "skip"] = "refuse"  # skip: after the split, leave out what cannot be read
    pictures: Literal["crops", "aligned", "in_the_wild", "in_the_wild_68"] | None = None

    @property
    def cites(self) -> tuple[str, ...]:
        """Its sources, as `core.citations` has them."""
        return PUBLISHED_NAMES[self.kind].cites

    @model_validator(mode="after")
    def _nothing_ignored(self) -> PublishedData:
        only_with(self, "pictures", "kind", "celeba")
        return self


class SyntheticPublic(Model):
    """Public identities of the renderer; they never overlap with private ones."""

    kind: Literal["synthetic"]
    identities: Count = 2000  # people to draw
    per_identity: Count = 3  # images of each person
    size: Annotated[int, Field(ge=16, le=256)] = 64  # side in pixels that images are drawn at
    spread: Spread = 0.6  # how far identities differ: 1 is a population, 0.4 look-alikes
    seed: Seed = 0  # decides who is drawn, and how

    cites: ClassVar[tuple[str, ...]] = ()
    path: ClassVar[None] = None

    @property
    def most(self) -> int:
        """How many images there are."""
        return self.identities * self.per_identity


class PublishedPublic(Model):
    """The public pictures of the low-resolution attacks: the published list beside the private ones of `celeba64`."""

    cites: ClassVar[tuple[str, ...]] = PUBLISHED_NAMES["celeba64"].cites

    kind: Literal["celeba64"]
    path: FilePath  # the folder with CelebA
    size: Annotated[int, Field(ge=16, le=256)] = 64  # side in pixels that the central 108 are resized to

    most: ClassVar[None] = None
    """How many there are, the list alone says."""


class UnlabelledPublic(Model):
    """Public images of other people: a Parquet file with an `image` column or a folder of images."""

    cites: ClassVar[tuple[str, ...]] = ()

    kind: Literal["unlabelled"]
    path: FilePath  # the Parquet file or the folder
    size: Annotated[int, Field(ge=16, le=2048)] = 64  # side in pixels that images are kept at
    limit: Count | None = None  # read a random choice of this many images; null: all
    bits: Bits | None = None  # as of labelled images
    seed: Seed = 0  # seed of the choice by limit

    @property
    def most(self) -> int | None:
        """How many images there can be; None where the folder alone says it."""
        return self.limit


class AnyData(Built):
    """What every kind of data of `core.data.kinds` has; the keys of its own are added to it."""

    prefix: ClassVar[str] = "data."
    kind: str
    if TYPE_CHECKING:  # what every kind has (core.data.base.DataKind)
        samples_per_class: int | None

        @property
        def path(self) -> str | None: ...

    @property
    def cites(self) -> tuple[str, ...]:
        """Its sources, as `core.citations` has them."""
        return self.built.cites

    @property
    def classes_known(self) -> int | None:
        """How many classes the data have, where the file alone says it."""
        return self.built.classes_known


class WithoutFiles(AnyData):
    """Data that are made, not read."""

    path: ClassVar[None] = None


def _data_model(kind: str, declared: type[DataKind]) -> type[AnyData]:
    has_files = any(field.name == "path" for field in fields(declared))
    return derived(declared, AnyData if has_files else WithoutFiles, more={"kind": (one_value(kind), ...)})


DATA_MODELS: dict[str, type[AnyData]] = {kind: _data_model(kind, declared) for kind, declared in DATA.items()}
_PRIVATE = (SyntheticData, LabelledData, PublishedData, *DATA_MODELS.values())
_PUBLIC = (SyntheticPublic, UnlabelledPublic, PublishedPublic)
DATA_KINDS = frozenset(
    kind for model in (*_PRIVATE, *_PUBLIC) for kind in get_args(model.model_fields["kind"].annotation)
)
"""What `kind` may be of a sweep's `data` or `public`."""

if TYPE_CHECKING:
    Data = SyntheticData | LabelledData | PublishedData | AnyData
else:
    Data = Annotated[one_of(_PRIVATE), Field(discriminator="kind")]
"""The type of a sweep's `data`: chosen by `kind`."""

Public = Annotated[SyntheticPublic | UnlabelledPublic | PublishedPublic, Field(discriminator="kind")]
"""The type of a sweep's `public`: chosen by `kind`."""

CLASSES = {name: PUBLISHED_NAMES[name].classes[0] for name in NAMED_IN_SWEEPS}
"""The paper's number of people, breeds or things in each of its data sets."""


def classes_of(data: Data) -> int | None:
    """How many classes the data have, at most if a published set may be incomplete; None if only the files tell."""
    return data.classes_known or CLASSES.get(data.kind)


DEFAULT_KIND = "ppa"


class AnyAttack(Built):
    """What every attack of a sweep file has; the keys of its kind are added by `attack_model`."""

    prefix: ClassVar[str] = "attack."
    kind: str
    if TYPE_CHECKING:  # what every attack has (core.attacks.base.Attack)
        selected: int
        seed: int
        readout: str | None
        precision: str | None
        reconstruction_size: int | None

        @cached_property
        def built(self) -> CoreAttack: ...

    @property
    def label(self) -> str:
        """What the column `attack` of the results calls it: its kind, and what tells it from others of its kind."""
        return " ".join(filter(None, (self.kind, self.built.variant, *self._swapped)))

    @property
    def words(self) -> str:
        """What a page, a terminal and MLflow call it."""
        return with_plugin_name(", ".join((self.built.words, *self._swapped)), "attacks", self.kind)

    @property
    def _swapped(self) -> list[str]:
        others = {role: getattr(self, role) for role in self.built.other_targets}
        return [f"{role.replace('_', ' ')} {other.words}" for role, other in others.items() if other is not None]


def read_attack(raw: Any) -> AnyAttack:
    """What stands under `attack` in a file, checked by the model of its kind.

    Raises ValueError for an unknown kind or key, pydantic's error for values of the wrong type.
    """
    if isinstance(raw, AnyAttack):
        return raw
    if not isinstance(raw, Mapping):
        raise ValueError(f"expected keys such as kind and its parameters, got {raw!r}")
    refuse_broken("attacks", raw.get("kind"))  # what is not named is our own
    attack_class(kind := raw.get("kind", DEFAULT_KIND))  # refuses an unknown one
    return attack_model(kind).model_validate({"kind": DEFAULT_KIND, **raw})


@cache
def attack_model(kind: str) -> type[AnyAttack]:
    others: dict[str, Any] = {role: (OtherTrial | None, None) for role in attack_class(kind).other_targets}
    model = derived(attack_class(kind), AnyAttack, more={"kind": (one_value(kind), kind), **others})
    model.beside = ("kind", *others)
    return model


Attack = Annotated[SerializeAsAny[AnyAttack], PlainValidator(read_attack)]
"""The type of a sweep's `attack`: chosen by `kind`."""


class AnyPrior(Built):
    """What every prior of a sweep file has; the keys of its kind are added to it."""

    prefix: ClassVar[str] = "prior."
    kind: str

    @property
    def row(self) -> PriorKind:
        """What is known of its kind."""
        return PRIORS[self.kind]

    @property
    def words(self) -> str:
        """What a page, a terminal and MLflow call it."""
        return with_plugin_name(self.row.settings.title or self.kind.replace("_", " "), "priors", self.kind)


PRIOR_MODELS: dict[str, type[AnyPrior]] = {
    kind: derived(row.settings, AnyPrior, without=row.settings.unsaid, more={"kind": (one_value(kind), ...)})
    for kind, row in PRIORS.items()
}

if TYPE_CHECKING:
    Prior = AnyPrior
else:
    Prior = Annotated[one_of(tuple(PRIOR_MODELS.values())), Field(discriminator="kind")]
"""The type of a sweep's `prior`: chosen by `kind`."""


def _built(kind: type[Judge], settings: Model) -> Judge:
    """The judge of these settings, which a classifier keeps as they are. Raises InputError where its class refuses."""
    if issubclass(kind, ClassifierJudge):
        return kind(settings=settings)
    return build(kind, settings.model_dump(mode="python"), what="judge", prefix="")


class AnyJudge(Model):
    """What every judge of a sweep file has; the keys of its own are added by `judge_model`."""

    declared: ClassVar[type[Judge]] = Judge

    @model_validator(mode="after")
    def _valid(self) -> AnyJudge:
        _built(self.declared, self)
        return self


class AnyClassifier(Training):
    """A judge that is trained as targets are; its defaults are its own."""

    declared: ClassVar[type[ClassifierJudge]] = ClassifierJudge
    seed: Seed = 0  # seed of the classifier's weights and batches, the same in all trials
    checkpoint_every: Count = 10  # epochs between two checkpoints

    @model_validator(mode="before")
    @classmethod
    def _usual_where_they_apply(cls, raw: Any) -> Any:
        """Defaults that belong to one choice, so that another does not clash with them."""
        if not isinstance(raw, dict):
            return raw
        chosen = {**cls.declared.usual, **raw}
        where = cls.declared.where.items()
        return {**{name: value for name, (chooser, choice, value) in where if chosen[chooser] == choice}, **raw}


def judge_model(declared: type[Judge]) -> type[Model]:
    """The model of a judge's settings; judges that add none to those of their class share its."""
    return _judge_model(next(kind for kind in declared.__mro__ if "__dataclass_fields__" in kind.__dict__))


@cache
def _judge_model(declared: type[Judge]) -> type[Model]:
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


def _judge_key(declared: type[Judge]) -> tuple[Any, None]:
    model: Any = judge_model(declared)
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


_KEYS: dict[str, Any] = {name: _judge_key(declared) for name, declared in JUDGES.items() if not declared.requested_by}
if TYPE_CHECKING:
    Judges = AnyJudges
else:
    Judges = create_model("Judges", __base__=AnyJudges, __doc__=AnyJudges.__doc__, **_KEYS)
"""The type of a sweep's `judges`."""
