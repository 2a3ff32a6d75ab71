"""The two-dimensional example's table and page, read from the store."""

from __future__ import annotations

import json
from pathlib import Path

from orchestrator.results import results_table, write_results
from orchestrator.store import Store
from orchestrator.trial import Trial
from sweeps.load import LoadedSweep

PAPER = Path(__file__).resolve().parent.parent / "sweeps" / "paper" / "toy.json"


def write_toy_report(
    loaded: LoadedSweep, trials: list[Trial], store: Store, failures: dict[str, str], out: Path
) -> tuple[str, list[Path]]:
    """Write results.parquet and report.html into `out`; returns the table as text and the files."""
    table = results_table(trials, store, failures)
    out.mkdir(parents=True, exist_ok=True)
    write_results(table, out)
    paper = {row["alpha"]: row for row in json.loads(PAPER.read_text())["rows"]}
    lines = [f"{'alpha':>7} {'steps':>7} {'paper':>7} {'distance':>10} {'paper':>7}"]
    for row in table.to_dict("records"):
        published = paper.get(row["recipe_alpha"], {})
        steps = "-" if row["steps"] is None else f"{row['steps']:.0f}"
        distance = "-" if row["distance"] is None else f"{row['distance']:.2f}"
        lines.append(
            f"{row['recipe_alpha']:>7g} {steps:>7} {published.get('steps', '-'):>7} {distance:>10} "
            f"{published.get('distance') or '-':>7}"
        )
    return "\n".join(lines), [out / "results.parquet"]
