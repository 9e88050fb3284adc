"""What the README shows of the demo is what the demo prints; only ids, times and counts may differ.

After a wanted change: ``python -m tests.docs.test_demo`` writes the README's block anew.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
BLOCK = re.compile(r"(?<=lines shortened\):\n\n```\n)(.*?)(?=```)", re.DOTALL)
QUESTION = re.compile(r"^QUESTION \?= (.*)$", re.MULTILINE)
PICKED = (
    r"indexed: generation", r"## .* HARD RULES", r"## .* S_CTX", r"### Facts",
    r"\| F\d+\. .*scores a long question", r"\| F\d+\. .*Without the weights of a cross-encoder",
    r"### Constraints", r"\(none\)", r"### Open Issues", r"\(none\)", r"",
    r"## .* ATTACHMENTS", r"<<DOC 1 ", r"\| ", r"<<END DOC 1 ", r"## .* TASK", r"How", r"",
    r"key ", r"next: ",
)  # fmt: skip
"""How the lines begin that the README shows, in order."""
WIDTH = 100


def demo(data: Path) -> str:
    """Do in a fresh data root what ``make demo`` does once installed; return the output."""
    for folder in ("doc_raw/handbook", "projects/handbook", "models"):
        if (ROOT / "data" / folder).is_dir():
            shutil.copytree(ROOT / "data" / folder, data / folder)
    question = QUESTION.search((ROOT / "Makefile").read_text(encoding="utf-8"))
    assert question is not None
    outside = {k: v for k, v in os.environ.items() if not k.startswith(("RAGSTREAM_", "MEMORY_"))}
    environment = {**outside, "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)}
    environment["RAGSTREAM_VECTOR_STORE__COLLECTION"] = "false"  # nobody reads it here
    output = ""
    for words in (
        ["ingest", "handbook", "--dagster"],
        ["prompt", "-p", "handbook", "--dagster", question[1]],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "ragstream_app.cli.main", "--data", str(data), *words],
            env=environment, capture_output=True, text=True, cwd=data.parent,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        output += done.stdout + "\n" + done.stderr
    return output


def excerpt(output: str) -> str:
    """Return the lines that the README shows, with an ellipsis for what is left out."""
    lines, at, shown = output.splitlines(), 0, []
    for begin in PICKED:
        found = next(
            (i for i, line in enumerate(lines[at:], at) if re.match(begin or "$", line)),
            None,
        )
        assert found is not None, f"the demo printed no further line with {begin!r}"
        if shown and found > at and "" not in (begin, shown[-1]):
            shown.append("…")
        shown.append(shorten(lines[found]))
        at = found + 1
    return "\n".join(shown) + "\n"


def shorten(line: str) -> str:
    """Return a line cut at `WIDTH` characters; the citation at its end gets a line of its own."""
    if len(line) <= WIDTH:
        return line
    mark, end = line.rpartition(" [source: ")[1:]
    return f"{line[: WIDTH - 2]} …" + (f"\n|     …{mark}{end}" if mark else "")


def plain(text: str) -> str:
    """Return a text without what differs each time, or with each edit of the handbook.

    These are ids, hashes, seconds, places in a list and counts; the time of derived files is told
    on a slow machine alone, and the id of a run may be cut.
    """
    text = re.sub(r"; derived files took another [\d.]+ s", "", text)
    text = re.sub(r"(?<=Dagster run)(?: [0-9a-f]+)?(?: …)?$", "", text)
    text = re.sub(r"\b(?:[0-9a-f]{8}|[0-9a-f]{12})\b|\d+\.\d+ s\b|\d+ chunks/s", "…", text)
    return re.sub(r"(?<=\| F)\d+|(?<=DOC )\d+|[\d,]+(?= tokens)|\d+(?= chunks)", "…", text)


def same(shown: str, line: str) -> bool:
    """Return whether a line of the page is this one; a figure moves the place where it is cut."""
    if plain(shown) == plain(shorten(line)):
        return True
    head = plain(shown.removesuffix(" …"))
    return shown.endswith(" …") and len(line) > WIDTH - 9 and plain(line).startswith(head)


def missing(shown: str, output: str) -> list[str]:
    """Return the lines shown that the output does not have, in this order."""
    lines, at, absent = output.splitlines(), 0, []
    for line in re.split(r"\n(?!\|     …)", shown):
        if line in ("", "…"):
            continue
        found = next((i for i in range(at, len(lines)) if same(line, lines[i])), None)
        if found is None:
            absent.append(line)
        else:
            at = found + 1
    return absent


@pytest.mark.slow
def test_the_readme_shows_what_the_demo_prints(tmp_path):
    shown = BLOCK.search(README.read_text(encoding="utf-8"))
    assert shown is not None and len(shown[1].splitlines()) >= 20
    output = demo(tmp_path / "data")
    assert missing(shown[1], output) == [], "python -m tests.docs.test_demo writes it anew"
    other = shown[1].replace("piece", "word", 1).replace("### Facts", "### Opinions")
    assert len(missing(other, output)) >= 1


def test_only_ids_times_and_counts_may_differ():
    line = "key 06926f0312de · 5,143 tokens · 18 chunks · 0.94 s · Dagster run d159b380"
    other = "key a3b919c71c31 · 5,148 tokens · 19 chunks · 1.82 s · Dagster run 5f4694dd"
    assert missing(line, other) == [] and missing(other.replace("key", "id"), line) != []


def test_a_slow_machine_and_a_fast_one_print_the_same_line_of_the_ingest():
    slow = "indexed: generation 1 in 115.22 s, 6 chunks/s; derived files took another 5.48 s"
    slow = shorten(f"{slow} · Dagster run 89b41c02")
    assert slow.endswith("run 89b …")
    fast = "indexed: generation 1 in 31.40 s, 22 chunks/s · Dagster run 0f3d9a7c"
    assert missing(slow, fast) == missing(fast, slow) == []
    assert missing(slow, fast.replace("generation 1", "generation 2")) == [slow]


def test_a_line_is_found_whatever_figure_moves_its_cut():
    line = "indexed: generation 1 in {} s, {} chunks/s; files from it took 0.55 s more · Dagster"
    shown = shorten(line.format("17.49", "35") + " " + "word " * 9)
    assert shown.endswith(" …")
    for figures in (("117.49", "6"), ("7.49", "135")):
        assert missing(shown, line.format(*figures) + " " + "word " * 9) == []
        assert missing(shown, line.format(*figures).replace("more", "less") + " word" * 9) == [
            shown
        ]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        new = excerpt(demo(Path(folder) / "data"))
    README.write_text(
        BLOCK.sub(lambda _: new, README.read_text(encoding="utf-8")), encoding="utf-8"
    )
