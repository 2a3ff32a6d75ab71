"""Pictures of the store, and contact sheets: a training image of a class beside what the attack made of it."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image, ImageDraw, ImageFont
from PIL.PngImagePlugin import PngInfo
from safetensors import safe_open

from smoothsweep.core.judges.columns import CLASS_METRICS, metric_of
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.core.readers.tables import read_rows
from smoothsweep.orchestrator.page.figures.canvas import ACCENT, INK, LINE, PAPER, SOFT, fold
from smoothsweep.orchestrator.planning.trial import InversionStages, Trial, inversion_stages
from smoothsweep.orchestrator.result.data import ContactSheet, SheetRow, Tile
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.schema import ToySweep


def class_names(store: Store, stages: InversionStages) -> list[str]:
    """Names of the classes by label."""
    return json.loads(store.needed_file(stages.data, "names.json").read_text())


def training_labels(store: Store, stages: InversionStages) -> np.ndarray:
    """int64 [N], by row of the target's training images."""
    return _tensor(store.needed_file(stages.data, "train.safetensors"), "labels")


def training_image(store: Store, stages: InversionStages, row: int) -> np.ndarray:
    """uint8 [H, W, 3] of the target's training images."""
    return image_in(store.needed_file(stages.data, "train.safetensors"), row)


def reconstructed_labels(store: Store, stages: InversionStages) -> np.ndarray:
    """int64 [M], the class of every reconstruction."""
    return _tensor(_reconstructions_file(store, stages.inverted), "labels")


def reconstruction(store: Store, stages: InversionStages, label: int, rank: int) -> np.ndarray:
    """uint8 [H, W, 3]: the reconstruction of a class that the attack ranks in this place, from 0."""
    rows = np.flatnonzero(reconstructed_labels(store, stages) == label)
    return image_in(_reconstructions_file(store, stages.inverted), int(rows[rank]))


def image_in(path: Path, row: int) -> np.ndarray:
    """One image as uint8 [H, W, 3], read without loading the others."""
    with safe_open(str(path), framework="numpy") as file:
        image = file.get_slice("images")[row : row + 1][0].transpose(1, 2, 0)
    if image.dtype != np.uint8:
        image = ((image.astype(np.float32).clip(-1, 1) + 1) * 127.5).round().astype(np.uint8)
    return np.ascontiguousarray(image)


def _reconstructions_file(store: Store, reconstructions: Stage) -> Path:
    """The images as decoded, or the largest of those kept for the judges (protocol `paper`)."""
    files = sorted(store.path(reconstructions).glob("images*.safetensors"), key=lambda path: path.stat().st_size)
    return next((path for path in files if path.name == "images.safetensors"), files[-1])


def _tensor(path: Path, name: str) -> np.ndarray:
    with safe_open(str(path), framework="numpy") as file:
        return file.get_tensor(name)


CLASSES_SHOWN = 6
IMAGES_SHOWN = 6


def comparison_sheet(trials: Sequence[Trial], columns: Sequence[str], store: Store, title: str) -> ContactSheet | None:
    """Classes in rows, one trial per column, each with its best reconstruction; None until one trial has some."""
    stages = [pictured_stages(trial, store) for trial in trials]
    caption = f"Seed {trials[0].seed}; the reconstruction each target was surest of; classes chosen by number."
    return _sheet([(one, 0) for one in stages], columns, store, title=title, caption=caption)


def contact_sheet_png(trial: Trial, store: Store) -> bytes | None:
    """One trial's classes with their best reconstructions, as a PNG; None where there is no reconstructions.

    Beside them the training image nearest to the best one, where a judge has looked.
    """
    stages = pictured_stages(trial, store)
    most = int(np.bincount(reconstructed_labels(store, stages)).max()) if stages else 0
    columns = ["best", *(f"no. {rank + 1}" for rank in range(1, min(IMAGES_SHOWN, most)))]
    tried = [(stages, rank) for rank in range(len(columns))]
    sheet = _sheet(tried, columns, store, title=trial.label, nearest=True)
    return None if sheet is None else png(sheet_image(sheet))


def _sheet(
    cells: Sequence[tuple[InversionStages | None, int]],
    columns: Sequence[str],
    store: Store,
    *,
    nearest: bool = False,
    **words: str,
) -> ContactSheet | None:
    """Classes in rows, in each column the reconstruction of a rank; None where no column has any.

    Attacked classes evenly spread by number: they are not picked for their looks. nearest: show the training image
    that a judge found nearest to the best reconstruction, else the first of the class.
    """
    first = next((stages for stages, _ in cells if stages is not None), None)
    if first is None:
        return None
    attacked, trained = np.unique(reconstructed_labels(store, first)), training_labels(store, first)
    spread = np.linspace(0, len(attacked) - 1, min(CLASSES_SHOWN, len(attacked))).round().astype(int)
    rows = []
    for label in map(int, attacked[spread]):
        file, place = store.needed_file(first.data, "train.safetensors"), int(np.flatnonzero(trained == label)[0])
        for judge, seen in [*_judged(store, first, label, 0)][::-1] if nearest else ():  # the most telling one's last
            if "nearest" in seen:
                file = store.needed_file(judge.inputs["real"].inputs["data"], "train.safetensors")
                place = int(seen["nearest"].iloc[0])
        tiles = tuple(None if one is None else _tile(store, one, label, rank) for one, rank in cells)
        real = Tile(pixels=image_in(file, place))
        rows.append(SheetRow(name=class_names(store, first)[label], real=real, reconstructions=tiles))
    return ContactSheet(columns=tuple(columns), rows=tuple(rows), judge=judge_name(first) or "judge", **words)


def _tile(store: Store, stages: InversionStages, label: int, rank: int) -> Tile:
    recognised = is_recognised(store, stages, label, rank)
    return Tile(pixels=reconstruction(store, stages, label, rank), recognised=recognised)


def pictured_stages(trial: Trial, store: Store) -> InversionStages | None:
    """The stages of a trial that has reconstructions."""
    if isinstance(trial.settings, ToySweep) or trial.settings.attack is None:
        return None
    stages = inversion_stages(trial.settings, trial.seed)
    return stages if stages.has_pictures(store) else None


def is_recognised(store: Store, stages: InversionStages, label: int, rank: int) -> bool | None:
    """Whether the most telling judge that has looked takes a reconstruction for its class; None where none has."""
    return next((bool(rows["hit"].iloc[0]) for _, rows in _judged(store, stages, label, rank)), None)


def judge_name(stages: InversionStages) -> str | None:
    """What the report calls the most telling judge; None where none looks at single images."""
    return next((metric.label for metric, _ in _looking(stages)), None)


def _judged(store: Store, stages: InversionStages, label: int, rank: int) -> Iterator[tuple[Stage, pd.DataFrame]]:
    """Every judge that has looked, the most telling first, with its row of this reconstruction."""
    for _, judge in _looking(stages):
        if store.has(judge):
            rows = _per_image(store.needed_file(judge, "per_image.parquet"))
            yield judge, rows[(rows["class"] == label) & (rows["rank"] == rank)]


def _looking(stages: InversionStages) -> list[tuple[Metric, Stage]]:
    """The judges of the trial that compare every reconstruction with real images, with what their word counts in."""
    metrics = [metric for metric in map(metric_of, CLASS_METRICS) if metric.stage in stages.judges]
    named = [(metric, stages.judges[str(metric.stage)]) for metric in metrics]
    return [(metric, stage) for metric, stage in named if "real" in stage.inputs]


@lru_cache(maxsize=8)
def _per_image(path: Path) -> pd.DataFrame:
    """A judge's rows, image by image: a sheet asks for them tile by tile, and a finished artifact never changes."""
    return read_rows(path)


TILE, GAP, MARGIN = 96, 10, 16
LARGEST = 128
"""Pictures are stored at their own size up to this many pixels; a page of full-size ones would weigh megabytes."""
HEAD_LINE, HEAD_LINES = 18, 3
"""Lines of a column's name: pixels from one to the next, and the most of them."""


def png(image: Image.Image, text: PngInfo | None = None) -> bytes:
    """The image as a file, with text in it if asked."""
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", pnginfo=text)  # optimised they are 2 % smaller and take three times as long
    return buffer.getvalue()


def data_uri(pixels: np.ndarray) -> str:
    """uint8 [H, W, 3] as a PNG inside a URI."""
    return "data:image/png;base64," + base64.b64encode(png(Image.fromarray(pixels))).decode("ascii")


def tile_uri(tile: Tile) -> str:
    """A tile as a URI, `LARGEST` pixels wide at most."""
    image = Image.fromarray(tile.pixels)
    image.thumbnail((LARGEST, LARGEST), Image.Resampling.LANCZOS)
    return data_uri(np.asarray(image))


def sheet_image(sheet: ContactSheet, *, tile: int = TILE, rows: int | None = None) -> Image.Image:
    """The sheet as one picture: training images first, names at the left, red frames explained in a line below."""
    kept, pitch, font = sheet.rows[:rows], tile + GAP, _font()
    heads = [fold(name, pitch - 4, font.getlength, HEAD_LINES) for name in ("training image", *sheet.columns)]
    names = ["".join(fold(row.name, 150, font.getlength, 1)) for row in kept]
    top = MARGIN + 16 + HEAD_LINE * max(map(len, heads))
    left = MARGIN + int(max(map(font.getlength, names), default=0)) + 12
    width, bottom = left + pitch * (1 + len(sheet.columns)) + GAP + MARGIN, top + pitch * len(kept)
    pictures = [(row.real, *row.reconstructions) for row in kept]
    framed = any(picture is not None and picture.recognised for line in pictures for picture in line)
    key = f"Red frame: the {sheet.judge} matches it with the class." if framed else ""
    legend = fold(key, width - 2 * MARGIN, font.getlength, HEAD_LINES) if framed else []
    image = Image.new("RGB", (width, bottom + MARGIN + HEAD_LINE * len(legend)), PAPER)
    draw = ImageDraw.Draw(image)
    places = [left + column * pitch + (GAP if column else 0) for column in range(1 + len(sheet.columns))]
    for x, head in zip(places, heads, strict=True):
        for above, words in enumerate(reversed(head)):
            draw.text((x + tile / 2, top - 18 - HEAD_LINE * above), words, font=font, fill=INK, anchor="mm")
    draw.line([(left + pitch, top - 28), (left + pitch, bottom - GAP)], fill=LINE, width=2)
    for y, name, line in zip(range(top, bottom, pitch), names, pictures, strict=True):
        draw.text((left - 12, y + tile / 2), name, font=font, fill=INK, anchor="rm")
        for x, picture in zip(places, line, strict=True):
            if picture is None:
                draw.text((x + tile / 2, y + tile / 2), "none", font=font, fill=SOFT, anchor="mm")
                continue
            image.paste(Image.fromarray(picture.pixels).resize((tile, tile), Image.Resampling.BICUBIC), (x, y))
            if picture.recognised:
                draw.rectangle((x - 3, y - 3, x + tile + 2, y + tile + 2), outline=ACCENT, width=3)
    for number, words in enumerate(legend):
        draw.text((MARGIN, bottom + HEAD_LINE * number), words, font=font, fill=SOFT, anchor="la")
    return image


@lru_cache(maxsize=1)
def _font() -> ImageFont.FreeTypeFont:
    """DejaVu Sans, which matplotlib brings along: it knows Latin, Greek, Cyrillic and the minus sign."""
    from matplotlib import get_data_path  # heavy, and needed only where a picture is drawn

    return ImageFont.truetype(str(Path(get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"), 14)


KEY = "smoothsweep"
"""Key of the text within a PNG file that says where the picture comes from."""
