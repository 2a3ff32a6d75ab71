"""The key of a study, study.json: which picture stands where. It stays with the user who built the page."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, model_validator

from smoothsweep.core.bounds import Fraction, Seed
from smoothsweep.core.cards.cards import read_card
from smoothsweep.core.errors import InputError
from smoothsweep.sweeps.base import Model, Several
from smoothsweep.sweeps.mistakes import first_mistake

KEY_FILE = "study.json"
MOST_BYTES = 64 * 2**20
"""Most bytes of a file that comes from outside; larger ones are no study's."""

Row = Annotated[int, Field(ge=0)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Question(Model):
    """One person: training images of theirs and a choice between reconstructions.

    Attributes:
        person: The class's label, and its name.
        trained: The training seed of the targets that were attacked.
        examples: Rows of the training images shown.
        options: For each position on the page, the recipe (its place among the study's) or null for a real training
            image, `real`, which makes the question an attention check.
    """

    person: Row
    name: str
    trained: Seed
    examples: Several[Row]
    options: Several[Row | None]
    real: Row | None = None

    @property
    def is_check(self) -> bool:
        return self.real is not None

    @model_validator(mode="after")
    def _one_real_picture_in_a_check(self) -> Question:
        if self.options.count(None) != int(self.is_check):
            raise ValueError("options: expected null once in an attention check and nowhere else")
        return self


class StudyKey(Model):
    """What a page of questions hides.

    sweep and attack: what was studied.

    Attributes:
        recipes: Their names, as the report calls them.
        seed: Seed of the order.
        pictures: SHA-256 over all pictures of the page in their order.
        published: What the paper's annotators preferred, by recipe, where it asked about the same.
    """

    format: Literal[1] = 1
    sweep: str
    attack: str
    recipes: Annotated[Several[str], Field(min_length=2)]
    seed: Seed
    real_people: bool
    pictures: Digest
    published: Several[Fraction | None]
    questions: Annotated[Several[Question], Field(min_length=1)]

    @model_validator(mode="after")
    def _fits_together(self) -> StudyKey:
        if len(self.published) != len(self.recipes):
            raise ValueError(f"published: expected {len(self.recipes)} values, got {len(self.published)}")
        for number, question in enumerate(self.questions):
            options = [option for option in question.options if option is not None]
            if len(question.options) != len(self.recipes) or not set(options) <= set(range(len(self.recipes))):
                raise ValueError(f"questions.{number}.options: expected one of {len(self.recipes)} recipes each")
            if len(set(options)) != len(options):
                raise ValueError(f"questions.{number}.options: expected each recipe once")
        return self

    @property
    def digest(self) -> str:
        """SHA-256 of all of it: what page and answers carry. It tells nothing, because the seed is in it."""
        return hashlib.sha256(self._canonical().encode()).hexdigest()

    def text(self) -> str:
        """The key as a file, with its digest."""
        return json.dumps({"digest": self.digest, **self.model_dump(mode="json")}, indent=1, ensure_ascii=False) + "\n"

    def _canonical(self) -> str:
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), allow_nan=False)


def read_key(path: Path) -> StudyKey:
    """The key in a file. Raises InputError, one line, for a file that is none or is not what was written."""
    raw = read_card(path, "the key of a study", most_bytes=MOST_BYTES)
    stated = raw.pop("digest", None)
    try:
        key = StudyKey.model_validate(raw)
    except ValidationError as error:
        raise InputError(f"{path}: {first_mistake(error)}") from None
    if stated != key.digest:
        raise InputError(f"{path}: expected the key as it was written, got one that was changed since")
    return key
