"""Read the answers of annotators from the files that the study's page saves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from smoothsweep.core.cards.cards import read_card
from smoothsweep.core.errors import InputError
from smoothsweep.core.text import shortened
from smoothsweep.orchestrator.reading.study.key import MOST_BYTES, Digest, Row, StudyKey
from smoothsweep.sweeps.base import Model, Several
from smoothsweep.sweeps.mistakes import first_mistake

WHAT = "the answers of one annotator"


class Annotator(Model):
    """Who answered: a name they chose, and a number drawn by the page that tells two of one name apart."""

    id: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    name: Annotated[str, Field(max_length=80)]


class Answers(Model):
    """One annotator's file. answers: by question, the position that was chosen; null where none was."""

    format: Literal[1]
    study: Digest
    annotator: Annotator
    answers: Several[Row | None]

    @property
    def known_as(self) -> str:
        return self.annotator.name.strip() or self.annotator.id[:6]


def read_answers(paths: Sequence[Path], key: StudyKey) -> list[Answers]:
    """The files of all annotators. Raises InputError, one line, for one that is no such file, belongs to another study,
    does not fit its questions, or repeats another."""
    read: dict[str, Path] = {}
    files_read = []
    for path in paths:
        answers = _read(path, key)
        if (earlier := read.setdefault(answers.annotator.id, path)) is not path:
            who = shortened(answers.known_as)
            raise InputError(f"{path}: expected every annotator once, got {who} here and in {earlier}")
        files_read.append(answers)
    if all(choice is None for answers in files_read for choice in answers.answers):
        raise InputError(f"{paths[0]}: expected at least one question answered, got none")
    return files_read


def _read(path: Path, key: StudyKey) -> Answers:
    try:
        answers = Answers.model_validate(read_card(path, WHAT, most_bytes=MOST_BYTES))
    except ValidationError as error:
        raise InputError(f"{path}: {first_mistake(error)}") from None
    if answers.study != key.digest:
        raise InputError(f"{path}: expected answers to the study {key.digest[:12]}, got those to {answers.study[:12]}")
    if len(answers.answers) != len(key.questions):
        raise InputError(f"{path}: answers: expected {len(key.questions)}, got {len(answers.answers)}")
    for number, (choice, question) in enumerate(zip(answers.answers, key.questions, strict=True)):
        if choice is not None and choice >= len(question.options):
            expected = f"expected a position below {len(question.options)} or null"
            raise InputError(f"{path}: answers.{number}: {expected}, got {choice}")
    return answers
