"""What every stage makes of a fixed corpus is as recorded, or the version of the stage was raised.

`python -m tests.goldens.test_stages` records again. It refuses where a stage's result differs from
the recorded one and its number in `STAGE_VERSIONS` is still the same. A conflict in `stages.json`
is resolved by running it.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ragstream_core.prompts.chain import OPS
from ragstream_core.prompts.stage_versions import STAGE_VERSIONS
from ragstream_core.records.identity import sha256_hex
from ragstream_core.wiring.workspace import Workspace
from tests.goldens.corpus import SCENARIOS, build, run

RECORDED = Path(__file__).with_name("stages.json")
AGAIN = "python -m tests.goldens.test_stages"


def made_now(space: Workspace) -> dict:
    """What the chain makes of the corpus: of each scenario its trail and the prompt's digest."""
    results = {}
    for name in SCENARIOS:
        prompt = run(space, name)
        trail = [f"{op} {digest[:16]}" for op, digest in prompt.extras.trail]
        results[name] = [*trail, f"prompt {sha256_hex(prompt.extras.super_prompt)[:16]}"]
    return {"versions": dict(STAGE_VERSIONS), "results": results}


def recorded() -> dict:
    """The record; where a merge left its marks in the file, the one of the other side."""
    text = RECORDED.read_text(encoding="utf-8")
    try:
        return json.loads(text)
    except ValueError:
        shown = ["git", "show", f"HEAD:./{RECORDED.name}"]
        return json.loads(subprocess.check_output(shown, cwd=RECORDED.parent))


def differing(then: dict, now: dict) -> dict[str, str]:
    """First op whose result differs → a scenario in which it does."""
    found: dict[str, str] = {}
    for name, rows in now["results"].items():
        before = then["results"].get(name, rows)
        pairs = zip([*before, ""], [*rows, ""], strict=False)
        row = next((new or old for old, new in pairs if old != new), "")
        op = row.partition(" ")[0]
        if op:
            found.setdefault(OPS[-1] if op == "prompt" else op, name)
    return found


def unraised(then: dict, now: dict) -> list[str]:
    """What to raise, for people: stages that differ under the version they had."""
    return [
        f"{op} makes another result of {name!r}: raise STAGE_VERSIONS[{op!r}] above "
        f"{then['versions'].get(op, 0)} in ragstream_core/prompts/stage_versions.py, then {AGAIN}"
        for op, name in sorted(differing(then, now).items())
        if now["versions"][op] <= then["versions"].get(op, 0)
    ]


@pytest.fixture(scope="module")
def now(space):
    return made_now(space)


def test_no_result_changed_under_its_version(now):
    then = recorded()
    assert not unraised(then, now), "\n".join(unraised(then, now))
    assert now == then, f"a version was raised, or the corpus changed: run {AGAIN}"


def test_every_stage_has_a_version_and_every_scenario_passes_every_stage(now):
    assert tuple(STAGE_VERSIONS) == OPS
    for rows in now["results"].values():
        assert set(OPS) <= {row.partition(" ")[0] for row in rows}


def test_the_corpus_leads_through_every_form(now):
    again = [row.partition(" ")[0] for row in now["results"]["rescoped"]].count("retrieval")
    assert again == 2
    prompts = {rows[-1] for rows in now["results"].values()}
    assert len(prompts) == len(SCENARIOS)


def test_a_changed_result_names_its_stage_until_the_version_is_raised(now):
    changed = json.loads(json.dumps(now))
    rows = changed["results"]["plain"]
    at = next(i for i, row in enumerate(rows) if row.startswith("a3_nli_gate "))
    rows[at:] = [f"{row.partition(' ')[0]} {'0' * 16}" for row in rows[at:]]
    (said,) = unraised(now, changed)
    assert "a3_nli_gate makes another result of 'plain'" in said and "above" in said
    changed["versions"]["a4_condenser"] += 1
    assert unraised(now, changed)
    changed["versions"]["a3_nli_gate"] += 1
    assert not unraised(now, changed)


def main() -> int:
    """Record again; 1 where a version has to be raised first."""
    with tempfile.TemporaryDirectory() as root:
        made = made_now(build(Path(root)))
    missing = unraised(recorded(), made) if RECORDED.exists() else []
    if missing:
        print("\n".join(missing), file=sys.stderr)
        return 1
    RECORDED.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{RECORDED.name}: {len(made['results'])} scenarios recorded")
    return 0


if __name__ == "__main__":
    sys.exit(main())
