"""A report as a page of docs/gallery: small, of one file, without a path of the machine that made it.

    python -m tools.gallery REPORT.html STORE NAME
    python -m tools.gallery model OUT      # the model of drawn people whose audit is in the gallery

REPORT.html is what `smoothsweep report` wrote from the folder STORE, or `smoothsweep audit` into it. Only pages on
drawn people belong into the gallery. Portraits become WebP. The section of manifests is left out, since its store is
not published. A report that is still too large loses further sections, one by one. It names what was left out.

OUT gets model.pt2 (torch.export, images in [-1, 1]) and people, with the folders `train` and `test` and one folder per
person in each. The people and the recipe are those of `sweeps/quickstart.yaml` under plain training, so that the audit
can be compared with its report.
"""

from __future__ import annotations

import base64
import io
import re
import sys
from pathlib import Path

import torch
from PIL import Image
from torchvision.transforms.functional import to_pil_image

import smoothsweep
from smoothsweep.core.files import write_file
from smoothsweep.core.same_code import TREE

GALLERY = TREE / "docs" / "gallery"
LARGEST = 1_500_000
"""Bytes of a page at most."""

ALWAYS = ("provenance",)
IF_TOO_LARGE = ("everything", "exposure", "attacks")
"""Ids of sections, in the order in which a page that is too large loses them."""

OF_AUDIT = "frameworks"
"""Id of a section that the page of `smoothsweep audit` alone has. It is small and names no manifests."""

PICTURE = re.compile(r"data:image/png;base64,([A-Za-z0-9+/=]+)")
LINK = re.compile(r'<a\b[^>]*href="([^"]*)"[^>]*>(.*?)</a>', re.DOTALL)


def copied(report: str, store: str) -> str:
    """The text of a page of the gallery. store: the folder's name as the report has it.

    Raises ValueError if the page stays larger than LARGEST.
    """
    page = PICTURE.sub(lambda found: "data:image/webp;base64," + _as_webp(found.group(1)), report)
    page = page.replace(store, "store")
    for section in () if f'<section id="{OF_AUDIT}">' in page else (*ALWAYS, *IF_TOO_LARGE):
        if section in ALWAYS or len(page.encode()) > LARGEST:
            page = _without(page, section)
    if len(page.encode()) > LARGEST:
        raise ValueError(f"expected a page of at most {LARGEST} bytes, got {len(page.encode())}")
    known = {*re.findall(r'\bid="([^"]+)"', page)}
    return LINK.sub(lambda found: found.group(0) if found.group(1)[1:] in known else found.group(2), page)


def _as_webp(png: str) -> str:
    into = io.BytesIO()
    Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB").save(into, "WEBP", quality=70, method=6)
    return base64.b64encode(into.getvalue()).decode()


def _without(page: str, section: str) -> str:
    """The page with a line in place of the section of that id. Raises ValueError if it has no such section."""
    found = re.search(rf'<section id="{section}">.*?<h2>(.*?)</h2>.*?</section>', page, re.DOTALL)
    if found is None:
        raise ValueError(f"expected a section {section}, found none")
    title = re.sub(r"<[^>]+>", "", found.group(1))
    line = f'<section><p class="soft">Left out of this copy: “{title}”.</p></section>'
    return page[: found.start()] + line + page[found.end() :]


PEOPLE = {"population": "private", "identities": 24, "size": 64, "spread": 0.4, "seed": 7}  # of the quickstart's 48
PARTS = {"train": (20, 0), "test": (10, 20)}
"""Folder -> images of each person, and the number of the first."""
TRAINING = {"image_size": 32, "epochs": 48, "batch_size": 50, "augmentation": {"hue": 0.0}}


def write_model(out: Path) -> None:
    """Draw the people, train the model on them, write both."""
    for part, (count, first) in PARTS.items():
        images = smoothsweep.synthetic_faces(per_identity=count, first_image=first, **PEOPLE)
        for number, (image, label) in enumerate(zip(images.images, images.labels, strict=True)):
            person = out / "people" / part / images.names[int(label)]
            person.mkdir(parents=True, exist_ok=True)
            to_pil_image(image).save(person / f"{number:04d}.png")
    model = smoothsweep.train(out / "people", architecture="resnet_small", training=TRAINING, seed=61, size=64)
    side = TRAINING["image_size"]
    rows = {0: torch.export.Dim("rows", min=1, max=4096)}
    program = torch.export.export(model.classifier.eval(), (torch.zeros(2, 3, side, side),), dynamic_shapes=(rows,))
    torch.export.save(program, out / "model.pt2")


if __name__ == "__main__":
    if sys.argv[1] == "model":
        write_model(Path(sys.argv[2]))
    else:
        _, report_file, store_folder, name = sys.argv
        write_file(GALLERY / f"{name}.html", copied(Path(report_file).read_text(), store_folder))
