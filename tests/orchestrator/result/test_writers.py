"""Every number that a writer shows is one of the result: read back from each, rounded as it shows numbers."""

import html
import re

import numpy as np
import pytest

from smoothsweep.orchestrator.commands.reporting.report import verdicts_for_mlflow
from smoothsweep.orchestrator.page.render import part
from smoothsweep.orchestrator.page.tables import csv_table, latex_tables, markdown_table, tables_of, terminal_text
from smoothsweep.orchestrator.result.data import Measured
from smoothsweep.orchestrator.result.format import ascii_text, significant
from smoothsweep.orchestrator.result.summary import summarise
from smoothsweep.orchestrator.result.sweep_result import result_of, rows_of

NUMBER = re.compile(r"(?<![\w.])[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e-?\d+)?(?!\w)")


@pytest.fixture(scope="module", params=[3, 1])
def made(request, make_data):
    data = make_data()
    rows = data.results[data.results["seed"] < request.param].reset_index(drop=True)
    data = make_data(results=rows, per_class=data.per_class)
    summary = summarise(data, resamples=100)
    return data, result_of(data, summary)


def numbers(value):
    """Every number in frames, facts and labels of a result."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, Measured | list | tuple):
        return [number for one in value for number in numbers(one)]
    if isinstance(value, str):
        return [float(found.replace(",", "")) for found in NUMBER.findall(ascii_text(value))]
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool) and np.isfinite(value)
    return [float(value)] if is_number else []


def shown(result):
    """How a writer may show them, without sign."""
    known = [1.0, *numbers(dict(result.facts)), *numbers(dict(result.labels))]
    known += [number for frame in result.frames.values() for row in rows_of(frame) for number in numbers(row)]
    texts = set()
    for number in map(abs, known):
        texts |= {repr(number), f"{number:g}", f"{number:,.0f}", ascii_text(significant(number))}
        texts |= {f"{100 * number:.{decimals}f}" for decimals in range(4)} | {f"{100 * number:g}"}
    return texts


def outputs(data, result):
    tables = tables_of(result)
    page = "".join(part(name, data, result) for name in ("recipes", "hiding", "everything"))
    page = re.sub(r"<(style|script|svg).*?</\1>|<[^>]+>", " ", page, flags=re.DOTALL)
    yield "terminal", terminal_text(result)
    yield "page", html.unescape(page)
    yield "MLflow", verdicts_for_mlflow(result).note
    for table in tables:
        yield f"Markdown {table.stem}", markdown_table(table)
        yield f"CSV {table.stem}", csv_table(table)
        for ending, text in latex_tables(table, "label").items():
            body = text.partition("\\toprule")[2].replace("~", " ").replace("$-$", "-")
            yield f"LaTeX {table.stem}{ending}", body


def test_no_writer_shows_a_number_that_the_result_has_not(made):
    data, result = made
    allowed, counted, strange = shown(result), 0, []
    said = {
        number for lines in result.sentences.values() for line in lines for number in NUMBER.findall(ascii_text(line))
    }
    names = [ascii_text(str(name)) for column in ("recipe", "attack") for name in {*result.attacks[column]} if name]
    for where, text in outputs(data, result):
        plain = ascii_text(text)
        for name in sorted(names, key=len, reverse=True):
            plain = plain.replace(name, " ")
        for number in NUMBER.findall(plain):
            counted += 1
            if number not in said and number.lstrip("+-") not in allowed:
                strange.append((where, number))
    assert counted > 300 and strange == []
