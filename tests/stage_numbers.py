"""What the artifact of a tiny run holds, in a few numbers per file, and whether it still holds the same.

Not a hash: other processors round otherwise. Every tensor and column is kept as its size, mean, root mean square and
the mean of its products with a wave, which sees the order; they are compared with a tolerance that rounding stays
below and a changed setting does not.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors.numpy import load_file

# Without oneDNN, with two threads, and with the instructions of an old processor (ONEDNN_MAX_CPU_ISA=SSE41) rows stayed
# within 2e-3 of their scale; a metric that is a small difference (a calibration error) moved by 7e-3 of itself.
TOLERANCE, OF_METRICS = 5e-3, 2e-2
SMALLEST = 1e-7  # scales below count as zero
LISTS = ("names.json", "classes.json")  # what else is JSON says how something was made
LOOSE = ("weights.safetensors", *(f"{name}.network.safetensors" for name in ("generator", "discriminator", "student0")))
# Time; a map by t-SNE, which makes much of the last digits; and of an epoch, what one of a few images or a difference
# of near numbers decides: the loss shows it finer.
LEFT_OUT = ("seconds", "tsne_x", "tsne_y", "train_acc", "logit_gap")

Numbers = dict[str, Any]


def numbers_of(folder: Path, metrics: Mapping[str, float | None]) -> Numbers:
    """File and tensor or column -> numbers of an artifact; its metrics; the digests of its lists."""
    found: Numbers = {f"metric {name}": value for name, value in metrics.items()}
    for path in sorted(folder.iterdir()):
        if path.suffix == ".safetensors":
            tensors = load_file(path)
            parts = {name: row_of(tensor) for name, tensor in sorted(tensors.items())}
            found |= {f"{path.name} all": row_of_all(parts)} if path.name in LOOSE else _under(path.name, parts)
        elif path.suffix == ".parquet":
            rows = pd.read_parquet(path)
            found |= _under(path.name, {name: row_of(rows[name].to_numpy()) for name in rows if _counts(name, rows)})
        elif path.name in LISTS:
            found[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    return found


def differences(kept: Numbers, found: Numbers) -> list[str]:
    """One line for everything that is not what was kept: missing, new, of another size, or further than rounding."""
    lines = [f"{name}: not there any more" for name in kept.keys() - found.keys()]
    lines += [f"{name}: new" for name in found.keys() - kept.keys()]
    for name in kept.keys() & found.keys():
        if not _alike(kept[name], found[name]):
            lines.append(f"{name}: kept {kept[name]}, found {found[name]}")
    return sorted(lines)


def _alike(kept: Any, found: Any) -> bool:
    if isinstance(kept, list) and isinstance(found, list):
        scale = max(kept[2], found[2], SMALLEST)  # the root mean square
        return kept[0] == found[0] and all(
            abs(a - b) <= TOLERANCE * scale for a, b in zip(kept[1:], found[1:], strict=True)
        )
    if isinstance(kept, int | float) and isinstance(found, int | float):
        return abs(kept - found) <= OF_METRICS * max(abs(kept), abs(found), SMALLEST)
    return kept == found


def _counts(name: str, rows: pd.DataFrame) -> bool:
    """Whether a column holds numbers that depend on the stage alone; text names what stands beside it."""
    return name not in LEFT_OUT and not pd.api.types.is_string_dtype(rows[name])


def row_of(values: np.ndarray) -> list[float]:
    """[size, mean, root mean square, wave] of what is finite."""
    flat = values.astype(np.float64).ravel()
    flat = flat[np.isfinite(flat)]
    if not len(flat):
        return [0, 0.0, 0.0, 0.0]
    wave = np.cos(0.7 * np.arange(len(flat)) + 0.3)
    row = flat.mean(), np.sqrt((flat**2).mean()), (flat * wave).sum() / np.sqrt(len(flat))
    return [len(flat), *(_short(value) for value in row)]


def row_of_all(parts: Mapping[str, list[float]]) -> list[float]:
    """One row for many tensors, each in units of its own scale but for the mean of those."""
    scales = [max(row[2], SMALLEST) for row in parts.values()]
    size = sum(row[0] for row in parts.values())
    mean = np.mean([row[1] / scale for row, scale in zip(parts.values(), scales, strict=True)])
    wave = np.mean([row[3] / scale for row, scale in zip(parts.values(), scales, strict=True)])
    return [size, _short(mean), _short(np.mean(scales)), _short(wave)]


def _under(file: str, parts: Mapping[str, list[float]]) -> Numbers:
    return {f"{file} {name}": row for name, row in parts.items()}


def _short(value: float) -> float:
    return float(f"{value:.6g}")


def load_kept(path: Path) -> dict[str, Any]:
    """Case -> versions (of its stage and all before it) and numbers."""
    return json.loads(path.read_text()) if path.exists() else {}


def save_kept(path: Path, kept: Mapping[str, Any]) -> None:
    """One line per number, so that a change shows what it changed."""
    cases = []
    for case, entry in sorted(kept.items()):
        rows = ",\n".join(f"   {json.dumps(name)}: {json.dumps(row)}" for name, row in sorted(entry["numbers"].items()))
        versions = json.dumps(entry["versions"])
        cases.append(f' {json.dumps(case)}: {{"versions": {versions}, "numbers": {{\n{rows}\n }}}}')
    path.write_text("{\n" + ",\n".join(cases) + "\n}\n")
