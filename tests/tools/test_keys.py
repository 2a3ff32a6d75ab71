"""The page of keys: it is what is generated, every key says what it means, examples and links are good."""

import re
from dataclasses import dataclass
from typing import Annotated, Literal

import pytest
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from smoothsweep.core.attacks.registry import ATTACKS
from smoothsweep.core.checks import require_number, require_range
from smoothsweep.core.defenses.registry import DEFENSES
from smoothsweep.core.priors.kinds import PRIORS
from smoothsweep.sweeps.derived import derived
from smoothsweep.sweeps.judging import Judges
from tools import keys
from tools.key_examples import example_of, examples
from tools.key_rows import keys_of, unexplained
from tools.key_sections import anchor, sections


@pytest.fixture(scope="module")
def text():
    return keys.page()


@pytest.fixture(scope="module")
def every():
    return sections()


def test_the_page_says_what_the_schema_says(text):
    assert keys.PAGE.read_text(encoding="utf-8") == text, "run `python -m tools.keys`"


def test_every_key_has_a_meaning(every):
    places = [key.place for one in every for key in one.keys]
    assert len(places) > 300 and not [place for one in every for place in unexplained(one.model, f"{one.place}.")]


class Nested(BaseModel):
    """What stands inside."""

    depth: int = 1  # in layers


class Made(BaseModel):
    """A made-up model. low, high: bounds in pixels; null: none. word: one of two words.

    Not of word: this paragraph. later: seconds.
    """

    low: Annotated[float, Field(ge=0, lt=1)] = 0.5
    high: int | None = None
    word: Literal["this", "that"]
    later: float = 123.456789
    inside: Nested = Nested()
    pairs: tuple[tuple[int, float], ...] = ()
    unsaid: bool = False
    excused: int = 1  # noqa: F821, RUF100


def test_a_key_without_a_meaning_is_found():
    assert unexplained(Made, "made.") == ["made.pairs", "made.unsaid", "made.excused"]
    assert unexplained(Nested) == []


def test_rows_of_a_model():
    rows = {key.name: (key.kind, key.default, key.meaning) for key in keys_of(Made, "made.")}
    assert rows["low"] == ("number in [0, 1)", "`0.5`", "Bounds in pixels; null: none")
    assert rows["high"] == ("integer or null", "null", "Bounds in pixels; null: none")
    assert rows["word"] == ("`this`, `that`", "*required*", "One of two words")
    assert rows["later"] == ("number", "`123.5`", "Seconds")
    assert rows["inside"] == ("{keys}", "its defaults", "What stands inside")
    assert rows["pairs"][:2] == ("list of lists of integer, number", "`[]`")
    assert rows["unsaid"] == ("true or false", "`false`", "")


@dataclass(frozen=True, kw_only=True)
class Checked:
    """share: a part, None for all; rate: events per second."""

    share: float = 0.5
    rate: float | None = None
    plain: int = 3
    span: tuple[float, float] = (0.5, 1.0)  # smallest and largest part

    def __post_init__(self):
        require_number("made.share", self.share, 0, 1, below=True)
        if self.rate is not None:
            require_number("made.rate", self.rate, 0, above=True)
        require_range("made.span", self.span, 0, 1)


def test_bounds_that_only_a_dataclass_checks_are_asked_of_it():
    rows = {key.name: (key.kind, key.meaning) for key in keys_of(derived(Checked), "")}
    assert rows == {
        "share": ("number in [0, 1)", "A part, null for all"),
        "rate": ("number > 0 or null", "Events per second"),
        "plain": ("integer", ""),
        "span": ("list of 2 numbers in (0, 1]", "Smallest and largest part"),
    }


def test_every_example_is_accepted_by_the_schema_at_its_key(every):
    seen = 0
    for one in every:
        experiment = "toy" if one.title == "Toy keys" else "inversion"
        for key in one.keys:
            example = example_of(key.place, one.around, key.default, experiment)
            if example is not None:
                seen += 1
                accepted(one.model, key.name, example.value)
    assert seen > 120


def accepted(model, name, value):
    """Raises pydantic's error where the field takes no such value."""
    field = model.model_fields[name]
    hint = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
    if field.discriminator is not None:
        hint = Annotated[hint, Field(discriminator=field.discriminator)]
    alone = create_model("Alone", __config__=ConfigDict(strict=True, extra="forbid"), **{name: (hint, ...)})
    alone.model_validate({name: value})


def test_a_wrong_example_would_be_refused():
    accepted(Made, "low", 0.25)
    with pytest.raises(ValidationError):
        accepted(Made, "low", 1.0)


def test_examples_are_of_the_kind_that_they_stand_beside():
    smoothed, mixed = (examples("inversion")["recipe.defense.alpha", kind] for kind in ("label_smoothing", "mixup"))
    assert min(one.value for one in smoothed) < 0 < min(one.value for one in mixed)
    assert ("attack.loss", "random_latents") not in examples("inversion")
    assert {one.sweep for one in examples("toy")["alpha", ""]} == {"toy"}


def test_an_example_stands_in_its_sweep(every, repository):
    rows = [
        (key.place, example_of(key.place, one.around, key.default, "inversion")) for one in every for key in one.keys
    ]
    for place, example in rows:
        if example is not None:
            raw = (repository / "sweeps" / f"{example.sweep}.yaml").read_text()
            assert place.rpartition(".")[2] in raw and str(example.sweep) == yaml.safe_load(raw)["name"]


def test_every_section_is_reached_by_a_link_and_every_link_leads_to_one(text):
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    anchors = [anchor(heading) for heading in headings]
    linked = set(re.findall(r"\]\((#[^)]*)\)", text))
    assert len(anchors) == len(set(anchors)) and linked <= set(anchors)
    alone = {anchor(title) for title in ("Keys of a sweep file", "Sweep file", "Toy experiment")}
    assert set(anchors) - linked <= alone


@pytest.mark.parametrize(
    ("place", "kinds"),
    [("attack", ATTACKS), ("recipe.defense", DEFENSES), ("prior", PRIORS), ("judges", Judges.model_fields)],
)
def test_every_member_of_a_family_is_linked_from_its_row(place, kinds, text):
    [row] = re.findall(rf"^\| `{re.escape(place)}` \|.*$", text, re.MULTILINE)
    if place == "judges":
        assert "[keys](#judges)" in row
        linked = [re.search(rf"^\| `judges\.{name}` \|.*\(#judges", text, re.MULTILINE) for name in kinds]
        assert all(linked)
    else:
        assert re.findall(r"\[(\w+)\]\(#\S*-kind-", row) == list(kinds)
