"""What an exported reconstruction says of where it comes from, in a text within the PNG file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field, ValidationError

from smoothsweep.core.errors import InputError
from smoothsweep.core.readers.files import open_regular
from smoothsweep.core.text import shortened

KEY = "smoothsweep"
"""Key of the text within a PNG file that says where the picture comes from."""
SUFFIX = ".png"


class Stages(BaseModel):
    """Fingerprints of the stages that the picture was made by; the last of them holds it."""

    reconstructions: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Provenance(BaseModel):
    """Where a picture says that it comes from; `smoothsweep export` writes more than is read here."""

    sweep: Annotated[str, Field(max_length=200)]
    recipe: Annotated[str, Field(max_length=2000)]
    seed: int
    label: Annotated[int, Field(alias="class")]
    rank: int
    stages: Stages


def read_provenance(path: Path) -> Provenance:
    """What the picture says, of which nothing is known to be true.

    Raises InputError for one that says nothing of the kind.
    """
    from PIL import Image  # most of `lineage` needs no pictures

    try:
        with open_regular(path) as file:
            text = Image.open(file, formats=["PNG"]).info.get(KEY, "")
        return Provenance.model_validate_json(text)
    except (OSError, ValueError, SyntaxError, ValidationError):  # PIL's for what is no PNG, and for too long a text
        expected = "expected a reconstruction of `smoothsweep export`, which names its stages"
        raise InputError(f"{shortened(str(path))}: {expected}, got a picture that does not") from None
