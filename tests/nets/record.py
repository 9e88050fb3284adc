"""Record the nets again: ``python -m tests.nets.record [rows|prompts|commands]…``; none: all.

Rows and prompts are recorded only where a stage's version was raised, since what a stage makes of
the same inputs is a promise; ``--new-inputs`` says that a row or request was added or changed and
nothing else.
"""

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.nets import commands, prompts, rows

LINE = "\n"


def differs_unraised() -> list[str]:
    """What differs from the record although every stage has the version it had."""
    then, now = prompts.recorded(), prompts.made_now()
    if then["versions"] != now["versions"]:
        return []
    of_prompts = [
        f"prompt {name}"
        for name, row in then["prompts"].items()
        if now["prompts"].get(name, row) != row
    ]
    pairs = zip(rows.recorded(), rows.made_now(), strict=True)
    return [*of_prompts, *(f"row {was['question']!r}" for was, is_ in pairs if was != is_)]


def write_prompts() -> None:
    """Record keys, digests and the three texts."""
    _write(prompts.RECORDED, json.dumps(prompts.made_now(), indent=1, ensure_ascii=False))


def write_rows() -> None:
    """Record how each row is read."""
    _write(rows.RECORDED, LINE.join(json.dumps(row, ensure_ascii=False) for row in rows.made_now()))


def write_commands() -> None:
    """Record what every command prints as JSON, a file a command."""
    with tempfile.TemporaryDirectory() as home:
        made = commands.by_command(commands.lived(Path(home)))
    commands.RECORDED.mkdir(exist_ok=True)
    for path in commands.RECORDED.iterdir():
        if path.name not in made:
            path.unlink()
    for name, text in made.items():
        (commands.RECORDED / name).write_text(text, encoding="utf-8")
    print(f"recorded {len(made)} commands")


NETS: dict[str, Callable[[], None]] = {
    "prompts": write_prompts,
    "rows": write_rows,
    "commands": write_commands,
}
PROMISES = {"prompts", "rows"}


def _write(path: Path, text: str) -> None:
    path.write_text(text + LINE, encoding="utf-8")
    print(f"recorded {path.name}")


def main(words: list[str]) -> int:
    """Record what is named; 1 where a stage's version has to be raised first."""
    for name in [name for name in os.environ if name.startswith("RAGSTREAM_")]:
        del os.environ[name]
    named = [word for word in words if not word.startswith("-")] or list(NETS)
    if unknown := {*named} - NETS.keys():
        print(f"no net {', '.join(sorted(unknown))}; there are {', '.join(NETS)}", file=sys.stderr)
        return 2
    is_promise = PROMISES.intersection(named) and "--new-inputs" not in words
    if is_promise and prompts.RECORDED.exists() and (different := differs_unraised()):
        print(LINE.join(different[:20]), file=sys.stderr)
        print("other results under the same versions of stages: raise one, or mend it, "
              "or say --new-inputs", file=sys.stderr)  # fmt: skip
        return 1
    for name in named:
        NETS[name]()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
