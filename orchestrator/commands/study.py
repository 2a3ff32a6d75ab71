"""`smoothsweep study build|read`: people choose the reconstruction that looks least like the person (Table 13).

`build` writes a page of questions, study.html, and its key, study.json, which stays with the user; page and answers
hold positions and the key's digest alone. `read` counts the annotators' files. The paper counts people: each goes to
the recipe that most annotators chose, and those where two are level are left out (section C.10).
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import math
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from markupsafe import Markup
from PIL import Image
from pydantic import Field, ValidationError
from scipy import stats

from smoothsweep.core import screen
from smoothsweep.core.bounds import LARGEST, Fraction, Seed
from smoothsweep.core.cards import read_card
from smoothsweep.core.checks import present
from smoothsweep.core.declared import first_mistake
from smoothsweep.core.errors import InputError
from smoothsweep.core.files import write_file
from smoothsweep.core.metrics.agreement import fleiss_kappa
from smoothsweep.core.metrics.intervals import independent_rate_interval, rate_interval
from smoothsweep.core.text import shortened
from smoothsweep.orchestrator.commands.reporting.report import compared_trials, sweep_to_share
from smoothsweep.orchestrator.commands.requests import StudyBuild, StudyRead
from smoothsweep.orchestrator.page.pictures import (
    class_names,
    reconstructed_labels,
    reconstruction,
    training_image,
    training_labels,
)
from smoothsweep.orchestrator.page.render import fill, policy, resource
from smoothsweep.orchestrator.planning.trial import InversionStages, Trial, inversion_stages
from smoothsweep.orchestrator.result.format import aligned, ascii_text, listing
from smoothsweep.orchestrator.result.rows import by_attack, sweep_axes
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.base import Model, Several
from smoothsweep.sweeps.expand import LoadedSweep, as_inversion
from smoothsweep.sweeps.paper_tables import matching, printed_rows, recipe_axes
from smoothsweep.sweeps.parts import SyntheticData

PAGE_FILE, KEY_FILE = "study.html", "study.json"
TABLE, PREFERENCE = "13", "user_preference"
PAPERS_PEOPLE = 150  # of each data set (section C.10)
EXAMPLES, MOST_RECIPES = 5, 6  # pictures that one can compare at a glance, and that fit a phone
LARGEST_SIDE, QUALITY = 224, 95  # of the JPEGs: some 10 kB each, and a page of 150 people stays below 20 MB
LEVEL = 0.95  # of intervals
SURE = 0.05  # the highest allowed probability that an annotator who guesses passes the attention checks
MOST_BYTES = 64 * 2**20  # of a file that an annotator sends

Row = Annotated[int, Field(ge=0)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
FileT = TypeVar("FileT", bound=Model)


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


class StudyKey(Model):
    """What a page of questions hides.

    Attributes:
        recipes: Their names, as the report calls them.
        seed: Seed of the order.
        pictures: SHA-256 over all pictures of the page in their order.
        published: What the paper's annotators preferred, by recipe, where it asked about the same.
    """

    format: Literal[1] = 1
    sweep: str
    attack: str
    recipes: Several[str]
    seed: Seed
    real_people: bool
    pictures: Digest
    published: Several[Fraction | None]
    questions: Several[Question]

    @property
    def digest(self) -> str:
        """SHA-256 of all of it: what page and answers carry. It tells nothing, because the seed is in it."""
        canonical = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(canonical.encode()).hexdigest()


class Annotator(Model):
    """Who answered: a name they chose, and a number drawn by the page that distinguishes two of one name."""

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
        return shortened(self.annotator.name.strip() or self.annotator.id[:6])


def build_study(options: StudyBuild) -> int:
    """Write study.html and study.json. Returns the exit code; raises InputError before anything is written."""
    if options.seed is not None and not 0 <= options.seed <= LARGEST:
        raise InputError(f"--seed: expected a whole number from 0 to {LARGEST}, got {options.seed}")
    loaded, trials, store = sweep_to_share(options.sweep, options.overrides, options.store)
    attack, cells = _chosen(loaded, trials, options.attack, options.recipes)
    stages = _with_pictures(loaded, cells, store)
    out = options.out or store.sweep_folder(loaded.sweep.name) / "study"
    key_file, page_file = out / KEY_FILE, out / PAGE_FILE
    seed = secrets.randbelow(LARGEST) if options.seed is None else options.seed
    questions = _draw(options.people, stages, store, seed)
    pictures = _pictures(questions, stages, store)
    files = [file for examples, choices in pictures for file in (*examples, *choices)]
    first = [cell[0] for cell in cells.values()]
    key = StudyKey(
        sweep=loaded.sweep.name,
        attack=attack,
        recipes=tuple(cells),
        seed=seed,
        real_people=not isinstance(as_inversion(first[0].settings).data, SyntheticData),
        pictures=hashlib.sha256(b"".join(len(file).to_bytes(8, "little") + file for file in files)).hexdigest(),
        published=published_preferences(loaded, first),
        questions=questions,
    )
    if key_file.exists() and (there := read_key(key_file).digest) != key.digest:  # its answers could not be read
        raise InputError(f"{key_file}: expected no other study here, got {there[:12]}; name another place with --out")
    write_file(page_file, _page(pictures, key), parents=True)  # first: a page without a key was not given away
    text = json.dumps({"digest": key.digest, **key.model_dump(mode="json")}, indent=1, ensure_ascii=False)
    write_file(key_file, text + "\n")
    checks = sum(question.real is not None for question in questions)
    screen.out(f"{page_file}: {len(questions)} questions, {checks} of them attention checks; give it to annotators")
    screen.out(f"{key_file}: says which picture stands where; keep it, and put their answers beside it")
    if key.real_people:
        screen.out("the page shows people from your data: give it to nobody who may not see them, and have it deleted")
    screen.out(f"then: smoothsweep study read {out}/answers-*.json")
    return 0


def _chosen(
    loaded: LoadedSweep, trials: Sequence[Trial], attack: str | None, recipes: Sequence[str]
) -> tuple[str, dict[str, list[Trial]]]:
    """The attack that is shown, and the trials of each recipe. Raises InputError where either is open."""
    attacked = [trial for trial in trials if as_inversion(trial.settings).attack is not None]
    if not attacked:
        raise InputError(f"{loaded.source}: attack: expected one whose reconstructions people compare, got none")
    groups = by_attack(compared_trials(attacked), sweep_axes(loaded, attacked))
    if not groups:
        raise InputError(f"{loaded.source}: expected recipes to compare, got none: the search has proposed none yet")
    real = [name for name, cells in groups.items() if not next(iter(cells.values()))[0].is_control] or list(groups)
    if attack is None and len(real) > 1:
        raise InputError(f"{loaded.source}: expected --attack {_one_of(real)}, got none")
    name = real[0] if attack is None else _named("--attack", attack, groups)
    cells = groups[name]
    named = [_named("--recipe", recipe, cells) for recipe in recipes]
    if twice := [recipe for recipe in named if named.count(recipe) > 1]:
        raise InputError(f"--recipe: expected each once, got {ascii_text(shortened(twice[0]))!r} twice")
    chosen = {recipe: cells[recipe] for recipe in named or cells}
    if not 2 <= len(chosen) <= MOST_RECIPES:
        expected = f"expected 2 to {MOST_RECIPES} recipes to choose between (--recipe), got {len(chosen)}"
        raise InputError(f"{loaded.source}: {expected}")
    return name or as_inversion(next(iter(chosen.values()))[0].settings).inverted_by.label, chosen


def _named(option: str, typed: str, known: Iterable[str]) -> str:
    """The known name that was typed, its minus signs and spaces as they are on a keyboard."""
    found = {ascii_text(name): name for name in known}.get(ascii_text(typed))
    if found is None:
        raise InputError(f"{option}: expected {_one_of(known) or 'none, since there is one'}, got {shortened(typed)!r}")
    return found


def _one_of(names: Iterable[str]) -> str:
    quoted = [repr(ascii_text(shortened(name))) for name in names if name]
    return f"one of {', '.join(quoted)}" if quoted else ""


def _with_pictures(
    loaded: LoadedSweep, chosen: Mapping[str, list[Trial]], store: Store
) -> dict[int, tuple[InversionStages, ...]]:
    """Training seed -> stages by recipe, of the seeds under which every recipe's reconstructions are in the store."""
    by_recipe = []
    for recipe, trials in chosen.items():
        every = {trial.seed: inversion_stages(as_inversion(trial.settings), trial.seed) for trial in trials}
        by_recipe.append({seed: stages for seed, stages in every.items() if stages.has_pictures(store)})
        if not by_recipe[-1]:
            what = f"expected reconstructions of {ascii_text(recipe)} in {store.location}, got none"
            raise InputError(f"{loaded.source}: {what}: smoothsweep run makes them")
    shared = {
        seed: tuple(of_recipe[seed] for of_recipe in by_recipe)
        for seed in by_recipe[0]
        if all(seed in of_recipe for of_recipe in by_recipe)
    }
    if not shared:
        raise InputError(f"{loaded.source}: expected reconstructions of all recipes under one seed, got none")
    if len({json.dumps(class_names(store, one)) for one in next(iter(shared.values()))}) > 1:
        raise InputError(f"{loaded.source}: expected recipes trained on the same people, got others")
    return shared


def published_preferences(loaded: LoadedSweep, trials: Sequence[Trial]) -> tuple[float | None, ...]:
    """The paper's shares, where these are the very recipes that its annotators chose between."""
    reference = loaded.sweep.paper
    if reference is not None and all(trial.settings.paper is not None for trial in trials):
        dataset = reference.dataset_of(as_inversion(trials[0].settings).data)
        theirs = {row.first.row for row in printed_rows(TABLE) if row.first.dataset == dataset}
        axes = [recipe_axes(as_inversion(trial.settings), dataset, TABLE) for trial in trials]
        rows = [row for one in axes if one and (row := matching(one, TABLE)) is not None]
        if theirs and {row.first.row for row in rows} == theirs and len(rows) == len(trials) == len(theirs):
            return tuple(row.numbers[PREFERENCE].value for row in rows)
    return (None,) * len(trials)


def least_checks(options: int) -> int:
    """The fewest attention checks that tell an annotator who passes them all from one who guesses.

    A guess passes one with probability 1 - 1 / options (at least 2): it does not fall on the real picture.
    """
    return math.ceil(math.log(SURE) / math.log(1 - 1 / options))


def _draw(
    asked_for: int | None, stages: Mapping[int, tuple[InversionStages, ...]], store: Store, seed: int
) -> tuple[Question, ...]:
    """The questions and the attention checks in a random order, training seeds spread evenly over them.

    The checks are about people with at least two training images, as far as possible not asked about otherwise.
    """
    every, seeds = [one for of_seed in stages.values() for one in of_seed], tuple(stages)
    recipes, data = len(stages[seeds[0]]), stages[seeds[0]][0]
    names, labels = class_names(store, data), training_labels(store, data)
    attacked = set.intersection(*(set(reconstructed_labels(store, one).tolist()) for one in every))
    rows = {label: np.flatnonzero(labels == label).tolist() for label in sorted(attacked)}
    if asked_for is not None and asked_for > len(rows):
        raise InputError(f"--people: expected at most the {len(rows)} people reconstructed, got {asked_for}")
    # Beside the seed what was reconstructed: the order is no other sweep's.
    generator = np.random.default_rng([seed, *(int(one.inverted.fingerprint[:8], 16) for one in every)])
    order = [int(label) for label in generator.permutation(sorted(rows))]
    people = asked_for or min(PAPERS_PEOPLE, len(rows))
    able = [label for label in (*order[people:], *order[:people]) if len(rows[label]) >= 2]
    if not able:
        raise InputError("study: expected a person with 2 training images for the attention checks, got none")
    checked = [able[number % len(able)] for number in range(least_checks(recipes))]
    drawn = []
    for check, asked in ((False, order[:people]), (True, checked)):
        for number, label in enumerate(asked):
            images = [int(row) for row in generator.permutation(rows[label])]
            placed: list[int | None] = [int(recipe) for recipe in generator.permutation(recipes)]
            if check:
                placed[int(generator.integers(recipes))] = None
            # One image is always held out: fewer examples in a check than elsewhere would give it away.
            examples, real = tuple((images[1:] or images)[:EXAMPLES]), images[0] if check else None
            trained = seeds[number % len(seeds)]
            shown = {"trained": trained, "examples": examples, "options": tuple(placed), "real": real}
            drawn.append(Question(person=label, name=names[label], **shown))
    return tuple(drawn[place] for place in generator.permutation(len(drawn)))


Pictures = list[tuple[list[bytes], list[bytes]]]
"""By question: the JPEGs of the examples and of the options."""


def _pictures(
    questions: Sequence[Question], stages: Mapping[int, tuple[InversionStages, ...]], store: Store
) -> Pictures:
    """Every picture of the page as a JPEG of one size, so that no recipe is told by its resolution."""
    data, shown = next(iter(stages.values()))[0], []
    for question in questions:
        examples = [training_image(store, data, row) for row in question.examples]
        choices = [
            training_image(store, data, present(question.real, "real"))
            if option is None
            else reconstruction(store, stages[question.trained][option], question.person, rank=0)
            for option in question.options
        ]
        shown.append((examples, choices))
    side = min(LARGEST_SIDE, max(picture.shape[1] for both in shown for part in both for picture in part))
    return [([_jpeg(one, side) for one in examples], [_jpeg(one, side) for one in parts]) for examples, parts in shown]


def _jpeg(picture: np.ndarray, side: int) -> bytes:
    """picture: uint8 [H, W, 3]. Without subsampling of colours the losses are far below what people see."""
    image, buffer = Image.fromarray(picture), io.BytesIO()
    image.resize((side, side), Image.Resampling.LANCZOS).save(buffer, "JPEG", quality=QUALITY, subsampling=0)
    return buffer.getvalue()


def _page(pictures: Pictures, key: StudyKey) -> str:
    def uris(files: Sequence[bytes]) -> list[str]:
        return ["data:image/jpeg;base64," + base64.b64encode(file).decode("ascii") for file in files]

    return fill(
        "study.html",
        questions=[{"examples": uris(those), "options": uris(these)} for those, these in pictures],
        options=len(key.recipes),
        digest=key.digest,
        real_people=key.real_people,
        policy=policy("study.js"),
        style=Markup(resource("study.css")),
        script=Markup(resource("study.js")),
    )


def read_key(path: Path) -> StudyKey:
    """The key in a file. Raises InputError, one line, for a file that is none or is not what was written."""
    raw = read_card(path, "the key of a study", most_bytes=MOST_BYTES)
    stated = raw.pop("digest", None)
    key = _validated(StudyKey, raw, path)
    if stated != key.digest:
        raise InputError(f"{path}: expected the key as it was written, got one that was changed since")
    return key


def _validated(kind: type[FileT], raw: Mapping[str, Any], path: Path) -> FileT:
    try:
        return kind.model_validate(raw)
    except ValidationError as error:
        raise InputError(f"{path}: {first_mistake(error)}") from None


def read_study(options: StudyRead) -> int:
    """Print what the answers show. Returns the exit code; raises InputError."""
    what = "the answers of one annotator"
    if missing := [path for path in options.answers if not path.exists()]:  # the key's place follows from theirs
        raise InputError(f"{missing[0]}: expected {what}, got nothing there")
    beside = options.answers[0].parent / KEY_FILE
    if options.study is None and not beside.is_file():
        raise InputError(f"{beside}: expected the key of the study beside the answers, or --study FILE; got neither")
    key = read_key(options.study or beside)
    read: dict[str, tuple[Path, Answers]] = {}
    for path in options.answers:
        one = _validated(Answers, read_card(path, what, most_bytes=MOST_BYTES), path)
        if one.study != key.digest:
            raise InputError(f"{path}: expected answers to the study {key.digest[:12]}, got those to {one.study[:12]}")
        if len(one.answers) != len(key.questions):
            raise InputError(f"{path}: answers: expected {len(key.questions)}, got {len(one.answers)}")
        for number, choice in enumerate(one.answers):
            if choice is not None and choice >= len(key.recipes):
                expected = f"expected a position below {len(key.recipes)} or null"
                raise InputError(f"{path}: answers.{number}: {expected}, got {choice}")
        if one.annotator.id in read:
            earlier = read[one.annotator.id][0]
            raise InputError(f"{path}: expected every annotator once, got {one.known_as} here and in {earlier}")
        read[one.annotator.id] = path, one
    answers = [one for _, one in read.values()]
    if all(choice is None for one in answers for choice in one.answers):
        raise InputError(f"{options.answers[0]}: expected at least one question answered, got none")
    result = study_result(key, answers)
    screen.out_text(json.dumps(result, indent=1, ensure_ascii=False) if options.json else study_text(result))
    return 0


NOBODY = -1
"""In the place of a recipe where no choice counts: none was made, or the question is an attention check."""


def study_result(key: StudyKey, answers: Sequence[Answers]) -> dict[str, Any]:
    """All that the answers show, as JSON values; lists by recipe are in the order of the key. Nothing is drawn.

    `preferred`: of the people decided, the fraction who go to a recipe by most votes; `undecided`: how many are level.
    `answers`: the fraction of single answers, over the people whom every counted annotator answered about. Annotators
    whose attention checks look like guessing count in neither. `agreement`: Fleiss' kappa, null where none is known.
    """
    recipes, checked = range(len(key.recipes)), np.array([question.real is not None for question in key.questions])
    annotators, counted = [], []
    for one in answers:
        pairs = zip(key.questions, one.answers, strict=True)
        placed = np.array([NOBODY if choice is None else question.options[choice] for question, choice in pairs])
        checks = [recipe is None for recipe in placed[checked] if recipe != NOBODY]
        chosen = np.where(checked, NOBODY, placed).astype(int)
        answered = int((chosen != NOBODY).sum())
        annotators.append(
            {
                "name": one.known_as,
                "answered": answered,
                "questions": int((~checked).sum()),
                "checks": len(checks),
                "failed": sum(checks),
                "attentive": attentive(len(checks), sum(checks), len(recipes)),
                "shares": [_of_people(int((chosen == recipe).sum()), answered) for recipe in recipes],
            }
        )
        counted += [chosen] if annotators[-1]["attentive"] else []
    choices = np.array(counted).reshape(len(counted), len(checked))  # [annotators, questions]
    votes = np.stack([(choices == recipe).sum(axis=0) for recipe in recipes], axis=1)
    best = [np.flatnonzero(row == row.max()) for row in votes if row.any()]
    winners = Counter(int(first[0]) for first in best if len(first) == 1)
    shared = choices[:, (choices != NOBODY).all(axis=0)]
    return {
        "level": LEVEL,
        "recipes": key.recipes,
        "published": key.published,
        "annotators": annotators,
        "preferred": [_of_people(winners[recipe], winners.total()) for recipe in recipes],
        "undecided": sum(len(first) > 1 for first in best),
        "answers": [_of_answers((shared == recipe).astype(float)) for recipe in recipes],
        "agreement": fleiss_kappa(votes),
    }


def attentive(checks: int, failed: int, options: int) -> bool:
    """Whether a person who guesses would fail so few of the attention checks with a probability of at most `SURE`.

    A person who guesses falls for the real picture in one of `options` checks.
    """
    return bool(stats.binom.cdf(failed, checks, 1 / options) <= SURE) if checks else False


def _of_people(count: int, of: int) -> dict[str, Any]:
    """A fraction with its interval; nulls where there is nothing to count."""
    low, high = independent_rate_interval(count, of, level=LEVEL) if of else (None, None)
    return {"value": count / of if of else None, "low": low, "high": high, "count": count, "of": of}


def _of_answers(chosen: np.ndarray) -> dict[str, Any]:
    """Over annotators and people [annotators, people], as the report's rates over seeds and classes."""
    if not chosen.size:
        return _of_people(0, 0)
    rate = rate_interval(chosen.tolist(), level=LEVEL)
    return {"value": rate.mean, "low": rate.low, "high": rate.high, "count": float(chosen.sum()), "of": chosen.size}


def study_text(result: Mapping[str, Any]) -> str:
    """The result for a terminal: by recipe, agreement, whom the attention checks leave out, by annotator."""
    names = [ascii_text(shortened(name)) for name in result["recipes"]]
    columns = [["looks least like the person", *names]]
    for head, name in (("by most votes", "preferred"), ("by single answers", "answers")):
        columns.append([head, *map(_share, result[name])])
    if any(value is not None for value in result["published"]):
        columns.append(["paper", *("-" if value is None else f"{100 * value:.1f} %" for value in result["published"])])
    by_annotator, absent = [("annotator", "answered", *names, "attention checks")], []
    for one in result["annotators"]:
        passed = f"{one['checks'] - one['failed']} of {one['checks']} passed{'' if one['attentive'] else ': guessing?'}"
        answered = f"{one['answered']} of {one['questions']}"
        by_annotator.append((ascii_text(one["name"]), answered, *map(_share, one["shares"]), passed))
        absent += [] if one["attentive"] else [f"{one['name']} ({one['failed']} of {one['checks']} failed)"]
    decided, agreement = result["preferred"][0]["of"], result["agreement"]
    unknown = "not known with fewer than two annotators, or where all chose one recipe"
    kappa = unknown if agreement is None else f"Fleiss' kappa {agreement:.2f}"
    notes = [
        f"{decided} {'person' if decided == 1 else 'people'} decided, {result['undecided']} level and left out",
        "95 % intervals in brackets: Wilson's over people; of single answers over annotators and people",
        f"agreement: {kappa}",
    ]
    if absent:
        notes.append(f"left out, because their attention checks look like guessing: {listing(absent)}")
    tables = [aligned(rows, range(len(rows[0]))) for rows in ([*zip(*columns, strict=True)], by_annotator)]
    return "\n".join([*tables[0], "", *notes, "", *tables[1]])


def _share(share: Mapping[str, Any]) -> str:
    if share["value"] is None:
        return "-"
    ends = "" if share["low"] is None else f" [{100 * share['low']:.0f}, {100 * share['high']:.0f}]"
    return f"{100 * share['value']:.1f} %{ends}"
