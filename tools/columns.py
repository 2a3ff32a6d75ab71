"""docs/columns.md: the metrics of results.parquet and the frames of a result, from the tables that the program reads.

    python -m tools.columns

A test compares the page with the table: whoever changes a label, a direction or a description runs this.
"""

from __future__ import annotations

import inspect
from itertools import groupby

from smoothsweep.core.files import write_file
from smoothsweep.core.judges.columns import METRICS, TIME_COLUMNS, TOY_COLUMNS
from smoothsweep.core.judges.table import JUDGES
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.core.tree import TREE
from smoothsweep.orchestrator.result.columns import FRAMES


def _named(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


PAGE = TREE / "docs" / "columns.md"
HEAD = f"""# Columns

Look up a metric of `results.parquet`, which has a row per trial: what it means, its unit and range, and which
direction is better. Metrics are grouped by who measures them; a judge's are null in sweeps without the judge.

* *values*: a *fraction* in [0, 1] is shown as a percentage; a *number* is shown as it is.
* *better*: what the defender wants, where one direction is better.
* *kind*: utility is what the owner of the model gets, leak what an inversion shows, membership how well an attacker
  tells which images were trained on, integrity what an attacker can make the model answer; a check tells whether the
  others can be trusted. *search*: a search may aim at it or constrain it.
* *Null* in a meaning: why the value may be missing although everything has finished. The column `reasons` gives the
  reason for every null of a row.

Beside a rate of images that its stage chose itself a row has how many there were, in a column of the rate's name with
`_images` behind it. Beside them a row has its trial, its seed, and `recipe`: the report's name of its recipe, which
joins `verdicts.parquet`.
The metrics of a toy experiment are {_named(TOY_COLUMNS)}. Durations, in seconds, are {_named(TIME_COLUMNS)}.
`python -m tools.columns` writes this page from the table that the program reads.
"""
ROW = "| {} | {} | {} | {} | {} |\n"
TITLES = ROW.format("column", "meaning", "values", "better", "kind") + ROW.format(*["---"] * 5)


FRAMES_HEAD = """\n# Frames

`smoothsweep.load_result("store", "quickstart")` gives these frames, `smoothsweep report SWEEP --json` prints them.
Beside the columns below, `recipes` and `attacks` have of every metric above that was measured its mean over the seeds,
and with the endings `_low`, `_high`, `_n` and `_differs` its interval, how many seeds it was measured under, and
whether it is distinguishable from the baseline's; `membership` has the area under the curve of every attack and the
reductions; `search` the objectives and the parameters.
"""


def page() -> str:
    """The whole page as Markdown."""
    metrics = "".join(_section(by, [*found]) for by, found in groupby(METRICS, lambda one: one.measured_by))
    return HEAD + metrics + FRAMES_HEAD + "".join(map(_frame, FRAMES))


def _frame(name: str) -> str:
    rows = "".join(f"| `{one.name}` | {one.meaning} | {one.unit} |\n" for one in FRAMES[name])
    return f"\n## Frame `{name}`\n\n| column | meaning | unit |\n| --- | --- | --- |\n{rows}"


def _section(by: str | None, metrics: list[Metric]) -> str:
    """The metrics of one judge, of the target or of the attack."""
    rows = "".join(map(_row, metrics))
    if by in JUDGES:
        first = " ".join(inspect.cleandoc(JUDGES[by].__doc__ or "").partition("\n\n")[0].split())
        return f"\n## Judge `{by}`\n\n{first}\n\n{TITLES}{rows}"
    return f"\n## The {by}\n\nMeasured of every {by}, whatever the judges.\n\n{TITLES}{rows}"


def _row(metric: Metric) -> str:
    label = metric.label[:1].upper() + metric.label[1:]
    ceiling = f" Ceiling: `{metric.ceiling}`." if metric.ceiling else ""
    null = f" *Null*: {metric.null}." if metric.null else ""
    kind = f"{metric.group}, search" if metric.searched else metric.group
    meaning = f"**{label}.** {metric.description}{ceiling}{null}"
    return ROW.format(f"`{metric.key}`", meaning.replace("|", "\\|"), _values(metric), metric.better or "", kind)


def _values(metric: Metric) -> str:
    if metric.unit == "percent":
        return "fraction"
    if metric.range is None:
        return "number"
    low, high = metric.range
    return f"number ≥ {low:g}" if high == float("inf") else f"number in [{low:g}, {high:g}]"


if __name__ == "__main__":
    write_file(PAGE, page())
