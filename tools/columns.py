"""docs/columns.md, the dictionary of results.parquet's metrics, from the table that the program itself reads.

    python -m tools.columns

A test compares the page with the table: whoever changes a label, a direction or a description runs this.
"""

from __future__ import annotations

from smoothsweep.core.judges.columns import METRICS, TIME_COLUMNS, TOY_COLUMNS
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.core.tree import TREE


def _named(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


PAGE = TREE / "docs" / "columns.md"
HEAD = f"""# Columns

What the metrics of `results.parquet` mean, a row per trial. Written by `python -m tools.columns` from
`core/judges/columns.py`, and compared with it by a test.

* *unit*: percent metrics are fractions in [0, 1] in the file and percentages where they are shown; plain ones are shown
  as they are.
* *better*: what the defender wants; "neither" where no direction is better.
* *group*: utility is what the owner of the model gets, leak what the attacker gets, integrity what an attacker can make
  it answer, check tells whether the others can be trusted.
* *by*: the stage or the judge that measures it. *search*: whether a search may aim at it or constrain it.
* *null*: why it may be missing where all that measures it has finished; `reasons` says it for every null of a row.

Beside them a row has its trial, its seed, and `recipe`: the report's name of its recipe, which joins `verdicts.parquet`.

A sweep of the toy experiment has the columns {_named(TOY_COLUMNS)} instead.
Durations, in seconds: {_named(TIME_COLUMNS)}.

"""
TITLES = ("column", "called", "unit", "range", "better", "group", "by", "ceiling", "search", "meaning", "null")


def page() -> str:
    """The whole page as Markdown."""
    rows = [TITLES, ("---",) * len(TITLES), *map(_cells, METRICS)]
    return HEAD + "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


def _cells(metric: Metric) -> tuple[str, ...]:
    return (
        f"`{metric.key}`",
        metric.label,
        metric.unit,
        _range(metric),
        metric.better or "neither",
        metric.group,
        metric.measured_by or "nothing here",
        f"`{metric.ceiling}`" if metric.ceiling else "",
        "yes" if metric.searched else "no",
        metric.description,
        metric.null or "never",
    )


def _range(metric: Metric) -> str:
    if metric.range is None:
        return "any"
    low, high = metric.range
    return f"at least {low:g}" if high == float("inf") else f"{low:g} to {high:g}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
