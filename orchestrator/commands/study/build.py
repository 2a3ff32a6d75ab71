"""`smoothsweep study build`: from the pictures in the store to a page of questions and its key."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from smoothsweep.core import screen
from smoothsweep.core.bounds import LARGEST
from smoothsweep.core.checks import present
from smoothsweep.core.errors import InputError
from smoothsweep.core.files import write_file
from smoothsweep.orchestrator.commands.study.study_selection import StudySelection, select_study
from smoothsweep.orchestrator.page.stored import (
    class_names,
    reconstructed_labels,
    reconstruction,
    training_image,
    training_labels,
)
from smoothsweep.orchestrator.page.study import StudyPictures, draw_pictures, pictures_digest, study_page
from smoothsweep.orchestrator.planning.trials import trials_of
from smoothsweep.orchestrator.reading.study.draw import draw_questions, least_checks
from smoothsweep.orchestrator.reading.study.key import KEY_FILE, Question, StudyKey, read_key
from smoothsweep.orchestrator.store.common.base import Store
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.data import SyntheticData
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.schema import InversionSweep

PAGE_FILE = "study.html"
PAPERS_PEOPLE = 150  # of each data set (section C.10)
MOST_EXAMPLES = 12

Rows = Mapping[int, Sequence[int]]


@dataclass(frozen=True, kw_only=True)
class StudyRequest:
    """What was asked for; None for the defaults that the command names."""

    sweep_file: Path
    overrides: list[str]
    store: str
    out: Path | None
    seed: int | None
    people: int | None
    examples: int
    checks: int | None
    recipes: tuple[str, ...]
    attack: str | None


def build_study(request: StudyRequest) -> int:
    """Write study.html and study.json. Returns the exit code; raises InputError before anything is written."""
    loaded = load_sweep(request.sweep_file, request.overrides)
    sweep = loaded.sweep
    if not isinstance(sweep, InversionSweep):
        raise InputError(f"{loaded.source}: expected a sweep that inverts people, got the two-dimensional example")
    if sweep.attack is None:
        raise InputError(f"{loaded.source}: attack: expected one whose reconstructions are shown, got null")
    _check_numbers(request)
    store = open_store(request.store)
    chosen = select_study(loaded, trials_of(loaded, store), store, request.attack, request.recipes)
    rows = _people(chosen, store)
    out = request.out or store.sweep_folder(sweep.name) / "study"
    seed = _seed(request, out)
    questions = _questions(request, chosen, rows, class_names(store, chosen.data), seed)
    pictures = draw_pictures([_shown(question, chosen, store) for question in questions])
    key = StudyKey(
        sweep=sweep.name,
        attack=chosen.attack,
        recipes=chosen.recipes,
        seed=seed,
        real_people=not isinstance(sweep.data, SyntheticData),
        pictures=pictures_digest(pictures),
        published=chosen.published,
        questions=questions,
    )
    _refuse_another_study(out, key)
    page = study_page(pictures, digest=key.digest, real_people=key.real_people)
    write_file(out / PAGE_FILE, page, parents=True)  # first: a page without a key was not given away
    write_file(out / KEY_FILE, key.text())
    _tell(key, out)
    return 0


def _seed(request: StudyRequest, out: Path) -> int:
    """The seed asked for, else that of a key whose page is missing (both are then the same again), else a drawn one."""
    if request.seed is not None:
        return request.seed
    if (out / KEY_FILE).is_file() and not (out / PAGE_FILE).exists():
        return read_key(out / KEY_FILE).seed
    return secrets.randbelow(LARGEST)


def _check_numbers(request: StudyRequest) -> None:
    for option, value, minimum, maximum in (
        ("--seed", request.seed, 0, LARGEST),
        ("--people", request.people, 1, None),
        ("--examples", request.examples, 1, MOST_EXAMPLES),
        ("--checks", request.checks, 1, None),
    ):
        if value is not None and (value < minimum or (maximum is not None and value > maximum)):
            expected = f"at least {minimum}" if value < minimum else f"at most {maximum}"
            raise InputError(f"{option}: expected {expected}, got {value}")


def _people(chosen: StudySelection, store: Store) -> Rows:
    """Who can be asked about: label -> rows of training images, of those whom every recipe's attack reconstructed."""
    attacked = set.intersection(
        *(set(reconstructed_labels(store, stages).tolist()) for of_seed in chosen.stages.values() for stages in of_seed)
    )
    labels = training_labels(store, chosen.data)
    return {label: np.flatnonzero(labels == label).tolist() for label in sorted(attacked)}


def _questions(
    request: StudyRequest, chosen: StudySelection, rows: Rows, names: Sequence[str], seed: int
) -> tuple[Question, ...]:
    options = len(chosen.recipes)
    if request.people is not None and request.people > len(rows):
        raise InputError(f"--people: expected at most the {len(rows)} people reconstructed, got {request.people}")
    min_checks = least_checks(options)
    if request.checks is not None and request.checks < min_checks:
        why = (
            f"expected at least {min_checks}, or nobody who passes with {options} choices differs from one who guesses"
        )
        raise InputError(f"--checks: {why}, got {request.checks}")
    if all(len(of_person) < 2 for of_person in rows.values()):
        raise InputError("study: expected somebody with 2 training images for the attention checks, got nobody")
    # Beside the seed what was reconstructed: the order is no other sweep's.
    reconstructions = [stages.inverted.fingerprint for of_seed in chosen.stages.values() for stages in of_seed]
    entropy = [seed, *(int(fingerprint[:8], 16) for fingerprint in reconstructions)]
    return draw_questions(
        rows,
        names,
        tuple(chosen.stages),
        options=options,
        people=request.people or min(PAPERS_PEOPLE, len(rows)),
        checks=request.checks or min_checks,
        examples=request.examples,
        generator=np.random.default_rng(entropy),
    )


def _shown(question: Question, chosen: StudySelection, store: Store) -> StudyPictures:
    recipes = chosen.stages[question.trained]
    return StudyPictures(
        examples=tuple(training_image(store, chosen.data, row) for row in question.examples),
        options=tuple(
            training_image(store, chosen.data, present(question.real, "real"))
            if option is None
            else reconstruction(store, recipes[option], question.person, rank=0)
            for option in question.options
        ),
    )


def _refuse_another_study(out: Path, key: StudyKey) -> None:
    """Its answers could not be read any more."""
    path = out / KEY_FILE
    if path.exists() and (there := read_key(path).digest) != key.digest:
        raise InputError(f"{path}: expected no other study in this place, got {there[:12]}; name another with --out")


def _tell(key: StudyKey, out: Path) -> None:
    checks = sum(question.is_check for question in key.questions)
    counts = f"{len(key.questions)} questions, {checks} of them attention checks"
    screen.out(f"{out / PAGE_FILE}: {counts}; give it to annotators")
    screen.out(f"{out / KEY_FILE}: says which picture stands where; keep it, and put their answers beside it")
    if key.real_people:
        screen.out("the page shows people from your data: give it to nobody who may not see them, and have it deleted")
    screen.out(f"then: smoothsweep study read {out}/answers-*.json")
