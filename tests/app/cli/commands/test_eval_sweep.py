"""`ragstream eval sweep`: the table, the JSON, and what is refused."""

import json

from ragstream_core.services.eval_gold import vary_settings
from tests.workspaces import hashed_workspace


def test_a_table_and_the_same_as_json(gold, run):
    given = ("--theta", "0.9", "--theta", "0", "--relative", "0", "--set", "gate.keep_top=0")
    code, out, err = run("eval", "sweep", "manual", *given)
    assert code == 0, err
    head, *rows, last = out.splitlines()
    assert head.split()[:7] == [
        "theta", "relative", "kept", "shown", "candidates", "tokens", "saved",
    ]  # fmt: skip
    assert head.split()[7:] == ["answered", "perhaps", "not", "found"]
    assert all(sum(map(float, row.split()[7:])) == 1 for row in rows)
    assert [row.split()[:3] for row in rows] == [["0", "0", "1.000"], ["0.9", "0", "1.000"]]
    loose, strict = (float(row.split()[4]) for row in rows)
    assert strict < loose  # what is far from the question goes, its words keep the passage
    assert last == "1 questions · 1 expected items found"
    code, out, _ = run("eval", "sweep", "manual", *given, "--json")
    found = json.loads(out)
    assert code == 0 and found["project"] == "manual"
    assert [(p["theta"], p["kept_relevant"], p["found"]) for p in found["points"]] == [
        (0.0, 1.0, 1), (0.9, 1.0, 1),
    ]  # fmt: skip
    kept = gold.parents[2] / "evaluation" / "sweep" / "manual"
    assert sorted(path.name for path in kept.iterdir()) == ["0-0.json", "0.9-0.json"]


def test_all_pairs_and_that_no_picture_is_drawn(gold, run):
    code, out, err = run("eval", "sweep", "manual", "--json")
    assert code == 0, err
    assert len(json.loads(out)["points"]) == 28
    code, out, err = run("eval", "sweep", "manual", "--png", "maps")
    assert (code, out) == (2, "") and "the same figures" in err


def test_any_settings_are_varied_in_every_combination(gold, run):
    given = ("--vary", "retrieval.evidence=full,tight", "--vary", "prompt.max_facts=1, 12")
    code, out, err = run("eval", "sweep", "manual", *given)
    assert code == 0, err
    head, *rows, last = out.splitlines()
    assert head.split()[:2] == ["retrieval.evidence", "prompt.max_facts"]
    assert "tokens saved" in head and head.endswith("not found")
    assert [row.split()[:2] for row in rows] == [
        ["full", "1"], ["full", "12"], ["tight", "1"], ["tight", "12"],
    ]  # fmt: skip
    assert last.startswith("1 question;")
    code, out, _ = run("eval", "sweep", "manual", *given, "--json")
    found = json.loads(out)
    assert code == 0 and found["project"] == "manual"
    by_settings = {tuple(v["settings"].values()): v for v in found["variants"]}
    assert by_settings["full", "1"]["figures"]["facts"] <= 1
    assert set(by_settings["full", "1"]["words"]) == {"answered", "perhaps", "not found"}


def test_the_progress_counts_every_prompt_also_of_questions_without_an_answer(gold):
    gold.write_text(gold.read_text() + '\n{"question": "Who won the cup?", "unanswerable": true}\n')
    workspace, seen = hashed_workspace(gold.parents[2]), []
    choices = {"retrieval.evidence": ["full", "tight"]}
    report = list(vary_settings(workspace, "manual", choices, progress=lambda *at: seen.append(at)))
    prompts = sum(len(variant.report.rows) for variant in report)
    assert seen == [(done, prompts) for done in range(1, prompts + 1)] and prompts == 4


def test_what_cannot_be_varied_is_refused_before_anything_is_asked(gold, run):
    for given, said in (
        (("--vary", "retrieval.evidence=loose"), "loose"),
        (("--vary", "retrieval.nothing=1"), "retrieval.nothing"),
        (("--vary", "prompt.max_facts="), "no value"),
        (("--vary", "prompt.max_facts"), "not a setting"),
        (("--vary", "prompt.max_facts=3", "--theta", "0.2"), "--vary gate.theta"),
    ):
        code, out, err = run("eval", "sweep", "manual", *given)
        assert code == 2 and said in err and not out


def test_what_is_refused(gold, run):
    code, _, err = run("eval", "sweep", "manual", "--theta", "1.5")
    assert code == 2 and "between 0 and 1" in err
    code, _, err = run("eval", "sweep", "manual", "--theta", "nan")
    assert code == 2 and "between 0 and 1" in err
    gold.unlink()
    code, _, err = run("eval", "sweep", "manual")
    assert code == 2 and "gold.jsonl" in err
