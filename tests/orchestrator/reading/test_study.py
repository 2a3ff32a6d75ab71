"""A study's draw and its statistics, against what can be said in closed form."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from study_answers import choosing

from smoothsweep.orchestrator.reading.study.answers import Annotator, Answers
from smoothsweep.orchestrator.reading.study.draw import SURE, draw_questions, least_checks
from smoothsweep.orchestrator.reading.study.key import Question, StudyKey
from smoothsweep.orchestrator.reading.study.shares import attentive, study_result
from smoothsweep.orchestrator.reading.study.text import agreement_words, study_text


@given(
    options=st.integers(2, 6),
    people=st.integers(1, 9),
    checks=st.integers(1, 20),
    examples=st.integers(1, 6),
    images=st.lists(st.integers(1, 5), min_size=9, max_size=9),
    seed=st.integers(0, 99),
)
def test_every_question_is_a_fair_one(options, people, checks, examples, images, seed):
    starts = np.cumsum([0, *images])
    rows = {label: range(starts[label], starts[label + 1]) for label in range(9)}
    if max(images) < 2:
        return
    drawn = draw_questions(
        rows,
        [f"p{label}" for label in range(9)],
        (1, 2),
        options=options,
        people=people,
        checks=checks,
        examples=examples,
        generator=np.random.default_rng(seed),
    )
    asked = [question for question in drawn if not question.is_check]
    assert len(drawn) == people + checks and len({question.person for question in asked}) == people
    for question in drawn:
        mine = set(rows[question.person])
        assert set(question.examples) <= mine and len(set(question.examples)) == len(question.examples)
        assert len(question.examples) == max(1, min(examples, len(mine) - 1)), "checks show as many as others"
        shown = [option for option in question.options if option is not None]
        assert len(set(shown)) == len(shown) == options - question.is_check
        if question.is_check:
            assert question.real in mine - set(question.examples)
    if people + checks <= sum(count >= 2 for count in images):
        assert len({question.person for question in drawn}) >= people


def test_each_recipe_stands_equally_often_in_each_place():
    rows = {label: [2 * label, 2 * label + 1] for label in range(3000)}
    drawn = draw_questions(
        rows, ["p"] * 3000, (1,), options=3, people=2900, checks=100, examples=1, generator=np.random.default_rng(0)
    )
    placed = np.array([question.options for question in drawn if not question.is_check])
    shares = [[(placed[:, place] == recipe).mean() for place in range(3)] for recipe in range(3)]
    assert np.abs(np.array(shares) - 1 / 3).max() < 0.04
    real = [question.options.index(None) for question in drawn if question.is_check]
    assert min(real.count(place) for place in range(3)) > 15
    order = [question.is_check for question in drawn]
    assert 25 < sum(order[:1500]) < 75, "checks come anywhere"


@pytest.mark.parametrize("options", range(2, 7))
def test_the_fewest_checks_tell_attention_from_guessing(options):
    checks = least_checks(options)
    assert (1 - 1 / options) ** checks <= SURE < (1 - 1 / options) ** (checks - 1)
    assert attentive(checks, 0, options) and not attentive(checks - 1, 0, options)
    assert not attentive(checks, checks, options) and not attentive(0, 0, options)


def test_who_guesses_passes_rarely():
    failed = np.random.default_rng(0).binomial(8, 1 / 3, 20_000)
    assert np.mean([attentive(8, int(count), 3) for count in failed[:4000]]) <= SURE


def a_key(people, recipes=3, checks=8):
    questions = [
        Question(person=n, name=f"p{n}", trained=1, examples=(0,), options=tuple(range(recipes))) for n in range(people)
    ]
    questions += [
        Question(person=0, name="p0", trained=1, examples=(0,), options=(None, *range(1, recipes)), real=1)
        for _ in range(checks)
    ]
    return StudyKey(
        sweep="s",
        attack="a",
        recipes=tuple(f"r{n}" for n in range(recipes)),
        seed=1,
        real_people=False,
        pictures="0" * 64,
        published=(None,) * recipes,
        questions=tuple(questions),
    )


def answered(key, choices, number):
    """choices: by person, the recipe or None; all checks passed."""
    positions = choosing(key.model_dump(), lambda n: choices[n] if n < len(choices) else 0)
    positions = [None if n < len(choices) and choices[n] is None else place for n, place in enumerate(positions)]
    who = Annotator(id=f"{number:016x}", name=f"A{number}")
    return Answers(format=1, study=key.digest, annotator=who, answers=tuple(positions))


def test_most_votes_decide_and_level_people_are_left_out():
    key = a_key(4)
    votes = [[0, 0, 0, None], [0, 1, 1, None], [2, 1, 2, None]]  # by annotator: 0, 1, level, nobody
    found = study_result(key, [answered(key, row, number) for number, row in enumerate(votes)])
    assert [share.count for share in found.preferred] == [1, 1, 0] and found.undecided == 1
    assert found.preferred[0].value == 0.5 and found.preferred[0].of == 2
    assert [share.count for share in found.answers] == [4, 3, 2] and found.answers[0].of == 9
    assert [one.answered for one in found.annotators] == [3, 3, 3]


def test_wilsons_interval_and_agreement_are_the_known_ones():
    key = a_key(10)
    ann = answered(key, [0] * 4 + [1] * 6, 1)
    found = study_result(key, [ann])
    assert found.preferred[0].low == pytest.approx(0.1682, abs=1e-4)
    assert found.preferred[0].high == pytest.approx(0.6873, abs=1e-4)
    assert found.agreement is None and "not known with fewer than two" in study_text(found)
    ben = answered(key, [0] * 4 + [1] * 6, 2)
    assert study_result(key, [ann, ben]).agreement == pytest.approx(1)
    assert "almost perfect" in study_text(study_result(key, [ann, ben]))


def test_intervals_of_answers_know_that_annotators_differ():
    """Two who always agree and two who never do have the same share, but not the same interval."""
    key = a_key(40)
    same = [answered(key, [n % 2 for n in range(40)], number) for number in (1, 2)]
    apart = [answered(key, [number] * 40, number) for number in (0, 1)]
    alike, unlike = (study_result(key, given).answers[0] for given in (same, apart))
    assert alike.value == unlike.value == 0.5
    assert unlike.high - unlike.low > 2 * (alike.high - alike.low)


def test_landis_and_koch():
    assert [agreement_words(kappa) for kappa in (-0.1, 0.1, 0.3, 0.5, 0.7, 0.9)] == [
        "none",
        "slight",
        "fair",
        "moderate",
        "substantial",
        "almost perfect",
    ]
