"""`ragstream spec`: what it prints and writes, its exit codes, what a second call does."""

import json
import re

import pytest

from ragstream_core.testspecs import markdown, specification

REQUIREMENTS = """# Vault

| id | Requirement | Verification |
|---|---|---|
| VA-1 | The door locks itself behind the last person | The door is shut after a minute |
| VA-2 | Nice colours everywhere in the room | |

- VA-3: When the alarm rings, the door must open.
"""


@pytest.fixture
def vault(environment, run):
    folder = environment / "doc_raw" / "vault"
    folder.mkdir(parents=True)
    (folder / "vault.md").write_text(REQUIREMENTS)
    assert run("ingest", "vault")[0] == 0
    return environment


def test_markdown_goes_to_stdout_and_the_rest_to_stderr(vault, run):
    code, out, err = run("spec", "vault")
    assert code == 0
    assert [one.id for one in markdown.sections_of(out)] == ["TC-001", "TC-002"]
    assert "VA-2" in out and "not testable as written" in out
    assert "3 requirements: 2 covered, 1 not testable as written" in err
    marker, key = re.search(r'ragstream trace "(.+)" ([0-9a-f]{12})', err).groups()
    traced = run("trace", marker, key, "--json")
    assert json.loads(traced[1])["path"] == "vault.md"


def test_json_holds_the_cases_and_the_coverage(vault, run):
    code, out, _ = run("spec", "vault", "--json")
    found = json.loads(out)
    assert code == 0 and found["out"] == "" and found["counts"]["covered"] == 2
    assert set(found) == {
        "project", "generation", "digest", "pattern", "cases", "coverage", "kept", "counts", "out",
        "changed",
    }  # fmt: skip
    for case in found["cases"]:
        assert specification.case_from(json.dumps(case)).id == case["id"]


def test_both_forms_of_the_file(vault, run, tmp_path):
    plain, raw = tmp_path / "plain.md", tmp_path / "raw.md"
    assert run("spec", "vault", "--out", str(plain))[0] == 0
    assert run("spec", "vault", "--out", str(raw), "--embed-json")[0] == 0
    embedded = re.compile(r"(?ms)^```json\n(.*?)\n```$")
    assert embedded.findall(plain.read_text()) == []
    ids = [specification.case_from(one).id for one in embedded.findall(raw.read_text())]
    assert ids == ["TC-001", "TC-002"]
    assert plain.stat().st_mode & 0o077 == 0


def test_a_second_call_changes_nothing_and_force_keeps_the_ids(vault, run, tmp_path):
    out = str(tmp_path / "spec.md")
    assert run("spec", "vault", "--requirement", "VA-3", "--start", "5", "--out", out)[0] == 0
    assert run("spec", "vault", "--out", out)[0] == 0
    text = (tmp_path / "spec.md").read_text()
    assert [one.id for one in markdown.sections_of(text)] == ["TC-005", "TC-006"]
    assert "nothing to write" in run("spec", "vault", "--out", out)[2]
    assert run("spec", "vault", "--out", out, "--force")[0] == 0
    assert (tmp_path / "spec.md").read_text() == text


def test_a_model_that_was_not_taken_is_told_at_once(vault, run, monkeypatch):
    monkeypatch.setenv("RAGSTREAM_PROVIDER__BASE_URL", "http://127.0.0.1:9/v1")
    code, _, err = run("spec", "vault", "--form", "llm")
    assert code == 0 and "2 of them by rules: the language model's answer was not taken: " in err


def test_a_file_of_somebody_else_is_left_alone(vault, run, tmp_path):
    mine = tmp_path / "mine.md"
    mine.write_text("my words")
    code, _, err = run("spec", "vault", "--out", str(mine))
    assert code == 3 and mine.read_text() == "my words" and "--force" in err
    assert run("spec", "vault", "--out", str(mine), "--force")[0] == 0
    assert mine.read_text() != "my words"


def test_a_project_without_requirement_ids_is_told_so(indexed, run, tmp_path):
    out = tmp_path / "spec.md"
    code, said, err = run("spec", "manual", "--out", str(out))
    assert (code, said) == (0, "") and not out.exists()
    assert "no document defines a requirement id" in err and "--pattern" in err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("nobody",), 2, "nobody"),
        (("vault", "--requirement", "VA-9"), 2, "VA-1"),
        (("vault", "--form", "poem"), 2, "--form"),
        (("vault", "--pattern", "("), 2, "--pattern"),
        (("vault", "--start", "-1"), 2, "start"),
        (("vault", "--set", "documentation.id_format=TC"), 2, "documentation.id_format"),
        (("vault", "--out", "/proc/none/spec.md"), 1, "/proc/none/spec.md"),
    ],
)
def test_wrong_calls_say_what_and_what_next(vault, run, words, code, message):
    found, out, err = run("spec", *words)
    assert found == code and message in err and "next:" in err and out == ""


def test_dry_run_says_what_would_be_written(vault, run, tmp_path):
    out = tmp_path / "spec.md"
    code, _, err = run("spec", "vault", "--dry-run", "--out", str(out))
    assert code == 0 and not out.exists() and "2 to be written" in err


def test_another_format_and_pattern_from_the_settings(vault, run):
    given = ("documentation.id_format=login_{number:02d}", "documentation.requirement_pattern=VA-3")
    words = [word for one in given for word in ("--set", one)]
    found = json.loads(run("spec", "vault", "--json", *words)[1])
    assert [case["id"] for case in found["cases"]] == ["login_01"]


def test_a_task_profile_holds(vault, run, tmp_path):
    (tmp_path / "ragstream.yaml").write_text(
        "tasks:\n  audit:\n    documentation:\n      id_format: AU-{number}\n"
    )
    found = json.loads(run("spec", "vault", "--task", "audit", "--json")[1])
    assert found["cases"][0]["id"] == "AU-1"
