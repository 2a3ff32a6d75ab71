"""What people read for the names of stages."""

import re

import pytest

from smoothsweep.core.attacks.registry import PARTS, part_title
from smoothsweep.core.judges.table import JUDGES, stage_of
from smoothsweep.tasks.registry import TASKS
from smoothsweep.tasks.stage_names import stage_label, stage_title


def test_every_stage_has_a_name_of_words_that_no_other_has():
    shown = {name: stage_title(name) for name in TASKS}
    assert len(shown) > 30 and len(set(shown.values())) == len(shown)
    judges = {stage_of(name): f"judge {name}" for name in JUDGES}
    assert {name: words for name, words in shown.items() if name in judges} == judges
    others = [words for name, words in shown.items() if name not in judges]
    assert others and all(re.fullmatch(r"[A-Za-z' -]+", words) for words in others)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("loot", "reconstructions"),
        ("judge_evaluator", "judge evaluator"),
        ("knowledge", "judge knowledge"),
        ("data", "private images"),
        ("pool", "candidate pool"),
        ("target", "target"),
        ("a_stage_that_is_no_more", "a stage that is no more"),
    ],
)
def test_the_name_is_the_fields_term(name, words):
    assert stage_title(name) == words


def test_a_part_is_called_alike_in_a_sweep_and_in_memory():
    assert PARTS and all(part_title(name) == stage_title(name) for name in PARTS)


def test_the_stores_name_of_reconstructions_is_never_shown():
    assert "loot" not in " ".join(map(stage_title, TASKS))


def test_a_label_has_the_name_and_eight_digits():
    assert stage_label("loot", "0123456789abcdef") == "reconstructions 01234567"
