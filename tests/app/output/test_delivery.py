"""Where a Super-Prompt goes: byte for byte, over nobody's file, and its secrets are named."""

import json
import os
import stat

import pytest

QUESTION = "How does the exact file lock restrict a prompt?"
SECRETS = {
    "github-token": "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    "aws-key": "AKIA" + "QX7PLM2ZR5T9VB3N",
    "password": "password = " + "hunter2-Xy77",
    "private-key": "-----BEGIN RSA "
    + "PRIVATE KEY-----\nMIIEow\n-----END RSA "
    + "PRIVATE KEY-----",
    "password-in-url": "postgres://me:" + "s3cr3tPw9@db.example.org/x",
}
ASKED = ("prompt", QUESTION, "-p", "manual")


def plant(data, run, secret, *, name="token.md"):
    page = data / "doc_raw" / "manual" / name
    page.write_text(f"# Exact file lock token\n\n{secret}\n", encoding="utf-8")
    assert run("ingest", "manual")[0] == 0


@pytest.fixture
def clipboard(tmp_path, monkeypatch):
    """Install a program for the clipboard, and nothing else; return the file it fills."""
    folder, board = tmp_path / "bin", tmp_path / "board"
    folder.mkdir()

    def install(name, script=f'#!/bin/sh\n/bin/cat > "{board}"\n'):
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)

    monkeypatch.setenv("PATH", str(folder))
    return install, board


def test_stdout_has_the_bytes_whatever_spaces_and_signs_a_document_uses(indexed, run, data):
    words = "The lock\u00a0token, 全角\u3000空白, \ue000 and \u2009thin."
    plant(data, run, words)
    made = json.loads(run(*ASKED, "--file", "token.md", "--json")[1])["super_prompt"]
    assert words in made
    assert run(*ASKED, "--file", "token.md")[1] == made
    mine = ("prompt", "Why is the \x1b[31mlock\x1b[0m red?", "-p", "manual")
    made = json.loads(run(*mine, "--json")[1])["super_prompt"]
    assert run(*mine)[1] == made and "\x1b[31mlock" in made


@pytest.mark.parametrize("kind", SECRETS)
def test_a_text_that_is_taken_away_says_which_secrets_it_seems_to_hold(data, run, tmp_path, kind):
    plant(data, run, SECRETS[kind])
    secret = SECRETS[kind].split()[-1] if kind == "password" else SECRETS[kind][-12:]
    for n, where in enumerate(
        [("--file", "token.md"), ("--file", "token.md", "--lock"), ("--evidence", "full")]
    ):
        code, out, err = run(*ASKED, *where, "--out", str(tmp_path / f"{n}.md"))
        assert code == 0 and f"it seems to contain secrets: {kind} in token.md (" in err
        assert secret not in err and out == ""
    told = json.loads(run(*ASKED, "--file", "token.md", "--json")[1])["warnings"]
    assert any(kind in line and secret not in line for line in told)


def test_a_text_without_secrets_says_nothing_of_them(indexed, run):
    assert "secrets" not in run(*ASKED)[2]


def test_rerun_names_them_too(data, run):
    plant(data, run, SECRETS["aws-key"])
    key = json.loads(run(*ASKED, "--file", "token.md", "--json")[1])["prompt_key"]
    assert "aws-key in token.md" in run("rerun", key, "a4", "--set", "prompt.max_facts=1")[2]


def test_a_file_that_is_there_stays_unless_it_is_to_be_replaced(indexed, run, tmp_path):
    mine, link = tmp_path / "notes.md", tmp_path / "link.md"
    mine.write_text("mine")
    link.symlink_to(mine)
    for out in (mine, link):
        code, said, err = run(*ASKED, "--out", str(out))
        assert (code, said) == (3, "") and "already exists" in err and "--force" in err
    assert mine.read_text() == "mine"
    assert json.loads(run("status", "--json")[1])["prompts"] == []  # refused before it was made
    assert run(*ASKED, "--out", str(link), "--force")[0] == 0
    assert link.is_symlink() and "TASK" in mine.read_text()
    key = json.loads(run("status", "--json")[1])["prompts"][0]["prompt_key"]
    assert run("rerun", key, "a4", "--out", str(mine))[0] == 3
    code, _, err = run(*ASKED, "--out", str(tmp_path))
    assert code == 2 and "is a folder" in err


def test_a_link_to_nowhere_leads_to_a_new_private_file(indexed, run, tmp_path):
    target, link = tmp_path / "deep" / "new.md", tmp_path / "link.md"
    link.symlink_to(target)
    assert run(*ASKED, "--out", str(link))[0] == 0
    assert link.is_symlink() and "TASK" in target.read_text()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_a_file_that_comes_up_meanwhile_stays(indexed, run, tmp_path, monkeypatch):
    from ragstream_app.output import delivery

    out = tmp_path / "late.md"
    monkeypatch.setattr(delivery.Target, "check", lambda self: out.write_text("theirs"))
    code, _, err = run(*ASKED, "--out", str(out))
    assert code == 3 and "already exists" in err and out.read_text() == "theirs"


def test_a_file_that_cannot_be_written_says_so_and_the_prompt_is_kept(indexed, run):
    code, out, err = run(*ASKED, "--out", "/proc/none/prompt.md")
    key = json.loads(run("status", "--json")[1])["prompts"][0]["prompt_key"]
    assert (code, out) == (1, "") and "/proc/none/prompt.md cannot be written" in err
    assert f"the prompt is kept: {key[:12]}" in err


def test_the_model_that_a_prompt_is_meant_for_is_shown(indexed, run):
    meant = (*ASKED, "--set", "prompt.model_target=some-model")
    assert "for some-model" in run(*meant)[2] and "for some-model" not in run(*ASKED)[2]
    assert json.loads(run(*meant, "--json")[1])["model_target"] == "some-model"


def test_a_file_name_cannot_forge_a_line_about_another_file(data, run, tmp_path):
    name = "x\ncurrent     injected  000000000000  manual/token.md"
    (data / "doc_raw" / "manual" / name.rpartition("/")[0]).mkdir()
    plant(data, run, "words", name=name)
    made = json.loads(run(*ASKED, "--file", name, "--lock", "--json")[1])
    (data / "doc_raw" / "manual" / name).write_text("other")
    code, out, _ = run("verify-prompt", made["prompt_key"])
    assert code == 3 and [line[:7] for line in out.splitlines()] == ["changed"]


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_a_pipe_takes_the_text_and_stays_one(indexed, run, tmp_path, force):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert run(*ASKED, "--out", str(pipe), *force)[0] == 0
        assert b"] TASK" in os.read(reader, 1 << 16)
    finally:
        os.close(reader)
    assert pipe.is_fifo()


@pytest.mark.parametrize("name", ["wl-copy", "xclip", "xsel", "pbcopy"])
def test_the_clipboard_gets_the_bytes_and_stdout_nothing(indexed, run, clipboard, name):
    install, board = clipboard
    made = json.loads(run(*ASKED, "--json")[1])["super_prompt"]
    install(name)
    code, out, err = run(*ASKED, "--copy")
    assert (code, out) == (0, "") and "written to the clipboard" in err
    assert board.read_bytes().decode("utf-8") == made


def test_without_a_clipboard_nothing_is_made(indexed, run, clipboard):
    code, out, err = run(*ASKED, "--copy")
    assert (code, out) == (2, "") and "clipboard" in err and "--out FILE" in err
    assert json.loads(run("status", "--json")[1])["prompts"] == []


def test_a_program_that_fails_is_followed_by_the_next_and_at_last_told(indexed, run, clipboard):
    install, board = clipboard
    install("wl-copy", "#!/bin/sh\nexit 1\n")
    code, _, err = run(*ASKED, "--copy")
    assert code == 1 and "could not be copied to the clipboard (tried wl-copy)" in err
    install("xsel")
    assert run(*ASKED, "--copy")[0] == 0 and "TASK" in board.read_text()


def test_a_bundle_says_which_of_its_files_seem_to_hold_secrets(data, run, tmp_path):
    plant(data, run, SECRETS["aws-key"], name="far.md")  # quoted or not: it is in the file
    (data / "doc_raw" / "manual" / "keys.txt").write_text(SECRETS["github-token"])
    made = json.loads(run(*ASKED, "--file", "keys.txt", "--lock", "--json")[1])
    out = tmp_path / "p.bundle"
    code, said, err = run("bundle", made["prompt_key"], "--out", str(out))
    assert code == 0 and "aws-key in far.md" in err and "github-token in the prompt" in err
    assert not any(secret in said + err for secret in SECRETS.values())
    told = json.loads(run("bundle", made["prompt_key"], "--out", str(out), "--json")[1])
    assert set(told["secrets"]) >= {"aws-key in far.md", "github-token in the prompt"}


def test_a_bundle_names_the_secrets_of_the_conversation(indexed, run, tmp_path):
    said = ("--user", f"My key is {SECRETS['aws-key']}", "--assistant", "Thank you.")
    assert run("history", "append", "--session", "talk", *said)[0] == 0
    made = json.loads(run(*ASKED, "--session", "talk", "--json")[1])
    code, _, err = run("bundle", made["prompt_key"], "--out", str(tmp_path / "p.bundle"))
    assert code == 0 and "aws-key in the conversation" in err and SECRETS["aws-key"] not in err
