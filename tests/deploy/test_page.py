"""The pages with shell commands: every one of them is one that Ray and we understand."""

import re
import shlex
import subprocess
import zipfile

from cluster_files import parsed_by_ray
from ray._private.runtime_env.packaging import create_package

from smoothsweep.orchestrator import cli


def shell_lines(page):
    """Commands of the page's shell blocks, continuation lines joined, comments dropped."""
    for block in re.findall(r"^```sh\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words:
                yield words


def nested(words):
    """The command itself, then the one that it carries: after --, or as the last word of `ray exec`."""
    while "=" in words[0]:  # variables of the command's environment
        words = words[1:]
    yield words
    if "--" in words:
        yield from nested(words[words.index("--") + 1 :])
    elif words[:2] == ["ray", "exec"]:
        yield from nested(shlex.split(words[-1]))


def test_commands_of_the_pages_are_ones_that_ray_and_we_understand(repository):
    seen = {"ray": 0, "smoothsweep": 0}
    docs = repository / "docs"
    pages = [docs / "cluster.md", *sorted(docs.glob("tutorial/*.md")), *sorted(docs.glob("how-to/*.md"))]
    assert len(pages) >= 7
    for line in (words for page in pages for words in shell_lines(page.read_text())):
        for words in nested(line):
            if words[:3] == ["python", "-m", "orchestrator"]:
                words = ["smoothsweep", *words[3:]]
            if words[0] not in seen:
                continue
            seen[words[0]] += 1
            if words[0] == "ray":
                parsed_by_ray(words[1:])
            else:
                cli._parser().parse_args(words[1:])
    assert seen["ray"] >= 8
    assert seen["smoothsweep"] >= 25


def test_what_a_job_ships_is_all_that_runs_and_far_below_the_limit(repository, tmp_path):
    """As `ray job submit --working-dir .` packs it; the limit is 100 MiB."""
    package = tmp_path / "package.zip"
    create_package(str(repository), package, include_gitignore=True, include_parent_dir=False, excludes=[".git"])
    assert package.stat().st_size < 20 * 2**20
    with zipfile.ZipFile(package) as shipped:
        names = set(shipped.namelist())
    tracked = subprocess.run(["git", "ls-files"], cwd=repository, capture_output=True, text=True, check=True)
    rooms = ("core/", "tasks/", "sweeps/", "orchestrator/")
    needed = {name for name in tracked.stdout.splitlines() if name.startswith(rooms) and (repository / name).exists()}
    assert needed and needed <= names
    assert not [name for name in names if name.startswith((".venv/", ".git/", "store/", "mlruns/"))]
