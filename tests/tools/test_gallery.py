"""The gallery: pages of one file each, small, without machine paths or real people, and all of them listed."""

import base64
import io
import re
from html.parser import HTMLParser

import numpy as np
import pytest
import yaml
from PIL import Image

from tools import gallery
from tools.gallery import GALLERY, LARGEST, copied

OTHERS = {"model_audit": "search_schedules", "search_small": "search_schedules"}
"""Pages that are no report of a shipped sweep under its name -> the sweep whose people they are of."""
PAGES = sorted(GALLERY.glob("*.html"))
LOADING = {"src", "srcset", "href", "xlink:href", "data", "poster", "action", "formaction", "background"}


class Places(HTMLParser):
    """Where the attributes of a page lead."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found += [value for name, value in attrs if name in LOADING]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_small_of_drawn_people_loads_nothing_and_names_no_machine(page, repository):
    sweep = yaml.safe_load((repository / "sweeps" / f"{OTHERS.get(page.stem, page.stem)}.yaml").read_text())
    assert sweep["data"]["kind"] == sweep["public"]["kind"] == "synthetic"
    text = page.read_text()
    assert {*re.findall(r'<a\b[^>]*href="#([^"]+)"', text)} <= {*re.findall(r'\bid="([^"]+)"', text)}
    assert len(text.encode()) <= LARGEST
    places = Places(text).found
    assert len(places) > (5 if page.stem == "model_audit" else 50)
    assert [place for place in places if not place.startswith(("#", "data:"))] == []
    styles = "".join(re.findall(r"<style.*?</style>|style=\"[^\"]*", text, flags=re.DOTALL))
    assert "@import" not in styles and not re.search(r"url\((?!\s*#)", styles)
    assert "default-src &#39;none&#39;" in text
    assert not re.search(r"(?<![\w.<])/(?:work|home|root|tmp|Users|mnt|data|var|opt)/", text)


def test_there_are_pages_and_nothing_but_them_their_pictures_and_the_list():
    listed = (GALLERY / "README.md").read_text()
    assert len(PAGES) >= 4 and all(f"]({page.name})" in listed and f'"{page.stem}.png"' in listed for page in PAGES)
    expected = {"README.md", *(page.name for page in PAGES), *(f"{page.stem}.png" for page in PAGES)}
    assert {file.name for file in GALLERY.iterdir()} == expected


def report(picture_side=64, filler=0):
    """A page as a report is made: a picture, a link to a file beside it, a path, the sections that may go."""
    noise = np.random.default_rng(3).integers(0, 255, (picture_side, picture_side, 3), dtype=np.uint8)
    into = io.BytesIO()
    Image.fromarray(noise).save(into, "PNG")
    sections = "".join(
        f'<section id="{name}"><details><summary><h2>About {name} &amp; more</h2></summary>{"x" * filler}</details>'
        "</section>\n"
        for name in ("results", *gallery.IF_TOO_LARGE, *gallery.ALWAYS)
    )
    png = base64.b64encode(into.getvalue()).decode()
    return (
        f'<img src="data:image/png;base64,{png}"><a href="results.parquet">table</a> <a href="#results">all</a>'
        f' <a class="to" href="#provenance">manifests</a> of /data/st-1/x\n{sections}'
    )


def test_a_copy_has_smaller_pictures_of_the_same_size_and_no_path_and_no_manifests():
    page = copied(report(), "/data/st-1")
    [encoded] = re.findall(r"data:image/webp;base64,([^\"]+)", page)
    assert Image.open(io.BytesIO(base64.b64decode(encoded))).size == (64, 64)
    assert "image/png" not in page and "st-1" not in page and " of store/x" in page
    assert '<a href="#results">all</a>' in page and "> manifests<" not in page and "table <a" in page
    assert "Left out of this copy: “About provenance &amp; more”." in page
    assert page.count("Left out of this copy") == 1


def test_a_copy_that_is_too_large_loses_sections_in_order_until_it_fits(monkeypatch):
    whole = len(copied(report(filler=5000), "/data/st-1"))
    monkeypatch.setattr(gallery, "LARGEST", whole - 6000)
    page = copied(report(filler=5000), "/data/st-1")
    first, second, third = gallery.IF_TOO_LARGE
    assert f'id="{first}"' not in page and f'id="{second}"' not in page and f'id="{third}"' in page
    monkeypatch.setattr(gallery, "LARGEST", 1000)
    for page, message in ((report(), "expected a page of at most 1000 bytes"), ("<p>x</p>", "expected a section")):
        with pytest.raises(ValueError, match=message):
            copied(page, "/data/st-1")
