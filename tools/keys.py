"""docs/sweep-keys.md, every key of a sweep file, from the schema that the program itself checks files with.

    python -m tools.keys

A test compares the page with the schema: whoever changes a key, a bound or a default runs this.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel

from smoothsweep.core.files import write_file
from smoothsweep.core.tree import TREE
from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.schema import InversionSweep
from smoothsweep.sweeps.toy import ToySweep
from tools.key_examples import example_of
from tools.key_rows import Key, first_line, written
from tools.key_sections import FAMILIES, Row, Section, anchor, same, sections, shared

PAGE = TREE / "docs" / "sweep-keys.md"
HEAD = """# Keys of a sweep file

Look up a key: what it means, its type and range, its default, and an example from a shipped sweep.

* A key below another is written with a dot (`recipe.epochs`), as in `--set recipe.epochs=40` and in a grid.
* `[0, 1)` is a range with 0 and without 1. *required*: there is no default. *its defaults*: those of the keys inside.
* Sizes are in pixels; fractions, rates and accuracies lie in [0, 1].
* An example is followed by the shipped sweep that has it, a file of the same name in `sweeps`.

[Sweep files](sweeps.md) explains how keys work together. `python -m tools.keys` writes this page from the schema that
sweep files are checked with.

## Sweep file

All keys of an inversion sweep, from the top. [Attacks](#attacks), [defenses](#defenses) and [priors](#priors) follow.
"""
TOY = """
## Toy experiment

A file with `experiment: toy` has `name`, `grid`, `cells`, `baseline` and `resources` of the [top level](#top-level),
and these.
"""
ROW = "| {} | {} | {} | {} | {} |\n"
TITLES = ROW.format("key", "meaning", "type, range", "default", "example") + ROW.format(*["---"] * 5)

LIKE = {
    "judges.evaluator": "recipe",
    "judges.knowledge": "recipe",
    "attack surrogate_scores": "attack ppa",
    "attack surrogate_labels": "attack surrogate_scores",
}
"""Section -> the one that has many of its keys: rows that would be the same stand there alone."""


@dataclass(kw_only=True)
class Page:
    """What is known while the page is written. named: long lists of choices -> the section that has them."""

    sections: dict[type[BaseModel], Section]
    named: dict[tuple[str, ...], Section] = field(default_factory=dict)

    @property
    def every(self) -> list[Section]:
        """In their order."""
        return list(self.sections.values())

    def write(self) -> str:
        """As Markdown."""
        parts = [HEAD, *(self.section(one) for one in self.every if not one.members and one.model is not ToySweep)]
        for place in FAMILIES:
            parts += self.family(place)
        toy, inversion = self.sections[ToySweep], self.sections[InversionSweep]
        known = {same(key) for key in inversion.keys}
        return "".join([*parts, TOY, self.table(toy, [key for key in toy.keys if same(key) not in known], "toy")])

    def family(self, place: str) -> list[str]:
        """The parts of one key with many kinds."""
        family = FAMILIES[place]
        members = [self.sections[model] for model in family.models.values()]
        parts = [f"\n## {family.title}\n\nThe value of `{place}`: a `kind`, and its keys: {self.links(place)}.\n"]
        common = shared(members)
        if common:
            parts.append(f"\n### Keys of every {family.one}\n")
            every = Section(model=BaseModel, place=place, kinds=tuple(family.kinds), keys=common)
            parts.append(self.table(every, common))
        names = {same(key) for key in common}
        inside = [one for one in self.every if one.members and f"{one.place}.".startswith(f"{place}.")]
        return parts + [self.section(one, names if one.place == place else set(), family.one) for one in inside]

    def links(self, place: str) -> str:
        """To every kind of a family."""
        models = FAMILIES[place].models.items()
        return ", ".join(f"[{kind}]({self.sections[model].link})" for kind, model in models)

    def section(self, one: Section, common: Collection[Row] = (), family: str = "") -> str:
        """Heading, what it is, and its table."""
        notes, own = [first_line(one.model)], [key for key in one.keys if same(key) not in common]
        if one.also:
            notes.append(f"The same keys stand under {' and '.join(f'`{place}`' for place in one.also)}.")
        if len(own) < len(one.keys):
            notes.append(f"It has the [keys of every {family}](#keys-of-every-{family}) too.")
        if (base := LIKE.get(" ".join([one.place, *one.kinds]))) is not None:
            other = next(two for two in self.every if " ".join([two.place, *two.kinds]) == base)
            known = {same(key) for key in other.keys}
            alike = [key.name for key in own if same(key) in known]
            own = [key for key in own if same(key) not in known]
            names = ", ".join(f"`{name}`" for name in alike)
            notes.append(f"These are as with [{other.title}]({other.link}): {names}.")
        elif not one.keys:
            notes.append("It has no other keys.")
        return f"\n### {one.title}\n\n{' '.join(notes)}\n" + (self.table(one, own) if own else "")

    def table(self, one: Section, keys: Sequence[Key], experiment: str = "inversion") -> str:
        """A row for each key, and long lists of choices below."""
        rows = "".join(self.row(key, one, experiment) for key in keys)
        below = [key for key in keys if self.named.get(key.choices) is one]
        long = "".join(f"\nNames of `{key.place}`: {', '.join(key.choices)}.\n" for key in below)
        return f"\n{TITLES}{rows}{long}"

    def row(self, key: Key, one: Section, experiment: str) -> str:
        """A line of the table."""
        meaning, kind = key.meaning, key.kind
        if key.place in FAMILIES:
            meaning = f"{meaning}: {self.links(key.place)}"
            kind = f"[keys]({anchor(FAMILIES[key.place].title)}) of a kind" + kind.removeprefix("any").removeprefix(
                "{keys}"
            )
        elif key.models:
            nested = [self.sections[model] for model in key.models]
            kinds = [f"[{', '.join(two.kinds)}]({two.link})" for two in nested if two.kinds]
            meaning += f": {', '.join(kinds)}" if kinds else ""
            inside = "keys of a kind" if kinds else " or ".join(map(_link_to, nested))
            kind = kind.replace("{keys}", inside)
        if key.choices:
            there = self.named.setdefault(key.choices, one)
            names = "names, below" if there is one else f"[names]({there.link})"
            kind = kind.replace("{choices}", f"one of {len(key.choices)} {names}")
        example = example_of(key.place, one.around, key.default, experiment)
        shown = "" if example is None else f"{written(example.value)} ({example.sweep})"
        return ROW.format(f"`{key.place}`", *(cell.replace("|", "\\|") for cell in (meaning, kind, key.default, shown)))


def _link_to(one: Section) -> str:
    return f"[{'imported' if one.model is ImportedClassifier else 'keys'}]({one.link})"


def page() -> str:
    """The whole page as Markdown."""
    return Page(sections={one.model: one for one in sections()}).write()


if __name__ == "__main__":
    write_file(PAGE, page())
