"""Secrets in documents: found, named by place, left out; and prose that only talks about them."""

import json
import random
import re
import string

import pytest

from ragstream_core.ingestion.secrets import MAX_FINDINGS, describe, find_secrets, phrase, redact

ALNUM = string.ascii_letters + string.digits


def made(length, alphabet=ALNUM, *, seed):
    """Return a fake secret: drawn here, so that no file of the project holds one."""
    return "".join(random.Random(seed).choices(alphabet, k=length))


HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + string.digits
FAKES = [
    ("openai-key", "key: {}", "sk-" + "proj-" + made(48, seed=1)),
    ("openai-key", "OPENAI uses {} here", "sk-" + made(48, seed=2)),
    ("anthropic-key", "use {}", "sk-" + "ant-api03-" + made(60, seed=3)),
    ("aws-key", "aws_access_key_id = {}", "AKIA" + made(16, UPPER, seed=4)),
    ("aws-key", 'aws_secret_key = "{}"', made(40, seed=5)),
    ("github-token", "git clone with {}", "gh" + "p_" + made(36, seed=6)),
    ("github-token", "{}", "github_" + "pat_" + made(60, seed=7)),
    ("gitlab-token", "{}", "gl" + "pat-" + made(20, seed=8)),
    ("slack-token", "{}", "xox" + "b-123456789012-123456789012-" + made(24, seed=9)),
    ("slack-webhook", "post to {}",
     "https://hooks." + "slack.com/services/T0AB/B0CD/" + made(24, seed=10)),
    ("google-key", "maps {}", "AI" + "za" + made(35, seed=11)),
    ("stripe-key", "{}", "sk" + "_live_" + made(24, seed=12)),
    ("stripe-key", "{}", "rk" + "_live_" + made(24, seed=13)),
    ("npm-token", "{}", "npm" + "_" + made(36, seed=14)),
    ("pypi-token", "{}", "pypi-" + "AgEIcHlwaS5vcmc" + made(80, seed=15)),
    ("hugging-face-token", "{}", "hf" + "_" + made(34, seed=16)),
    ("sendgrid-key", "{}", "SG" + "." + made(22, seed=17) + "." + made(43, seed=18)),
    ("json-web-token", "Bearer {}",
     "eyJ" + made(30, seed=19) + ".eyJ" + made(60, seed=20) + "." + made(40, seed=21)),
    ("azure-key", "AccountKey={};", made(86, seed=22) + "=="),
    ("password-in-url", "postgres://admin:{}@db.local/x", made(12, seed=23)),
    ("private-key", "{}", "-----BEGIN RSA " + "PRIVATE KEY-----\n" + made(64, seed=24)
     + "\n-----END RSA PRIVATE KEY-----"),
    ("password", "DB_PASSWORD={}", made(16, seed=25)),
    ("password", 'password: "{}"', made(10, seed=26) + "!7"),
    ("password", "my password is {}", "hunter2" + "22"),
    ("password", "The password is {}.", made(12, seed=27)),
    ("password", "api_key = '{}'", made(32, HEX, seed=28)),
    ("password", '"client_secret": "{}"', made(40, seed=29)),
    ("password", "auth token := {}", made(30, seed=30)),
    ("telegram-token", "bot {}", "123456789:AA" + made(33, seed=31)),
    ("square-key", "{}", "sq0" + "csp-" + made(43, seed=32)),
]  # fmt: skip

PROSE = """
An authentication token is sent with each request. The token expires after 30 minutes, and the
client asks for a new token. Passwords are hashed with bcrypt (cost 12); a password shorter than 12
characters is refused. The password is required. The secret is simple: measure before you change.
Set the API key in the environment, e.g. `export API_KEY=<your key>`,
or write api_key: "${API_KEY}".
Never commit a private key. The key is the sha256 of the text, 64 hex digits, for example
9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08. The budget is max_tokens: 4000.
Tokens per chunk: 250 with 30 of overlap. `tokenizer: BertTokenizerFast`, `token_overhead = 200`.
A user's password: see the wiki. password: string. secret: optional. `password = getpass()`.
`token = request.headers["Authorization"]`, `secret_key = os.environ["SECRET_KEY"]`, and
`api_key=settings.provider.api_key`. See https://example.org:8080/path?key=value#token or
http://127.0.0.1:3000/runs. Write to someone@example.org. The keyword is "primary key: id". In the
catalog text_hash is the key; partition_key = "project"; cache key: (path, mtime). The passphrase is
asked for once. Passing tests: 240. Bypass: none. Compass directions. Asian markets; SG.
SLA of 99.9.
The commit 3f2a9bc1 fixed the pin on page 7. The pin is bent. ssh-keygen -t ed25519. skip-ahead.
eyJ is how base64 of a JSON object begins. A bearer token looks like `Bearer <token>`. The order of
keys is fixed. monkey: a mammal. turnkey = yes. hotkeys: ctrl+shift+p. secret_name: my-app-secret.
password_hash_algorithm: argon2id. token_type: "bearer". tokens: ["a", "b"]. key: value.
Keynote: 9am.
The retriever scores 16 pieces; fusion=convex, rrf_k=60, depth=100.
chunk_id = rel_path::sha256::idx.
password_min_length = 12, password_reset_url: "https://example.org/reset". The wifi password is on
the fridge. `Authorization: token $GITHUB_TOKEN`. secretary: Jane. The secret was out. key = None.
"""


def test_at_least_95_percent_of_thirty_fakes_are_found_where_they_are():
    assert len(FAKES) == 30
    found = 0
    for kind, frame, fake in FAKES:
        text = f"Some words before.\n{frame.format(fake)}\nSome words after.\n"
        hits = [f for f in find_secrets(text) if fake in text[f.start : f.end] or
                text[f.start : f.end] in fake and f.end - f.start > len(fake) * 0.8]  # fmt: skip
        found += any(hit.line == 2 for hit in hits)
        if hits:
            assert fake not in redact(text, hits), kind
    assert found >= 0.95 * len(FAKES)


def test_kinds_are_named():
    wrong = [
        (kind, [f.kind for f in find_secrets(frame.format(fake))])
        for kind, frame, fake in FAKES
        if kind not in [f.kind for f in find_secrets(frame.format(fake))]
    ]
    assert len(wrong) <= 1, wrong


def test_at_most_one_percent_false_alarms_on_prose_about_secrets():
    sentences = [line for line in PROSE.replace(". ", ".\n").splitlines() if line.strip()]
    alarms = [(s, find_secrets(s)) for s in sentences if find_secrets(s)]
    assert len(sentences) >= 60
    assert len(alarms) <= 0.01 * len(sentences), alarms
    assert find_secrets(PROSE) == []


def test_the_handbook_raises_no_alarm(request):
    pages = sorted((request.config.rootpath / "data" / "doc_raw" / "handbook").iterdir())
    assert len(pages) > 20
    alarms = {p.name: find_secrets(p.read_text("utf-8")) for p in pages}
    assert {name: found for name, found in alarms.items() if found} == {}


def test_findings_are_in_order_disjoint_and_limited():
    fake = FAKES[5][2]
    text = "\n".join(f"{fake} {n}" for n in range(MAX_FINDINGS + 50))
    found = find_secrets(text)
    assert len(found) == MAX_FINDINGS
    assert [f.line for f in found] == list(range(1, MAX_FINDINGS + 1))
    assert all(a.end <= b.start for a, b in zip(found, found[1:], strict=False))


def test_a_capital_that_grows_in_lower_case_hides_no_password():
    (found,) = find_secrets("İstanbul\n\nPassword: hunter2xyz9\n")
    assert (found.kind, found.line) == ("password", 3)
    assert redact("İ PASSWORD=hunter2xyz9", find_secrets("İ PASSWORD=hunter2xyz9")).endswith("]")


def test_phrases_never_hold_the_secret():
    text = "\n".join(frame.format(fake) for _, frame, fake in FAKES)
    said = phrase(describe(find_secrets(text), page=3))
    assert not any(fake in said for _, _, fake in FAKES)
    assert said.startswith("openai-key (page 3, line 1)")
    assert "more" in said


@pytest.mark.parametrize(
    "text",
    ["password" * 5000, "token:" * 5000 + "=", "secret='" * 5000, "://a:" * 5000, "eyJ" * 5000,
     "-----BEGIN PRIVATE KEY-----" * 500, "İpassword: Abcdef123456", ""],
    ids=range(8),
)  # fmt: skip
def test_hostile_texts_are_survived(text):
    for finding in find_secrets(text):
        assert 0 <= finding.start < finding.end <= len(text)


class TestIngest:
    KIND, FRAME, FAKE = FAKES[5]
    TEXT = f"# Notes\n\nClone with {FAKE} and go on.\n"

    def everything(self, bench):
        return b"".join(p.read_bytes() for p in bench.index.iterdir() if p.is_file())

    def test_warn_is_the_default_and_names_the_place_only(self, bench):
        bench.write("a.md", self.TEXT)
        stats = bench.run()
        assert stats.warnings == ("a.md: possible secret: github-token (line 3)",)
        assert stats.documents == 1
        rows = json.loads((bench.index / "file_manifest.json").read_text())["files"]
        assert "may hold secrets: github-token (line 3)" in rows[0]["reason"]
        assert self.FAKE not in json.dumps(stats.to_json()) + json.dumps(rows)

    def test_the_secrets_of_a_file_are_summed_up_in_one_sentence(self, bench):
        bench.write("a.md", self.TEXT)
        bench.write("many.md", "".join(f"Clone with {self.FAKE} now.\n\n" for _ in range(50)))
        one, many = bench.run().warnings
        assert one == "a.md: possible secret: github-token (line 3)"
        assert many.startswith("many.md: 50 possible secrets: github-token (line 1), ")
        assert re.search(r" and \d+ more$", many)

    def test_skip_leaves_the_file_out(self, bench):
        bench.write("a.md", self.TEXT)
        bench.write("b.md", "text")
        stats = bench.run(secrets="skip")
        assert dict(stats.skipped_reasons) == {"a.md": "may hold secrets: github-token (line 3)"}
        assert stats.documents == 1
        assert self.FAKE.encode() not in self.everything(bench)

    def test_redact_puts_the_kind_in_its_place_and_spans_are_of_that_text(self, bench):
        bench.write("a.md", self.TEXT)
        stats = bench.run(secrets="redact")
        view = bench.view()
        (chunk,) = view.chunks(view.chunk_ids)
        redacted = self.TEXT.replace(self.FAKE, "[redacted:github-token]")
        assert chunk.snippet == redacted[slice(*chunk.span)]
        assert self.FAKE.encode() not in self.everything(bench)
        assert not any(self.FAKE in text for text in bench.embedder.seen)
        assert stats.warnings

    def test_another_mode_is_another_index(self, bench):
        bench.write("a.md", self.TEXT)
        bench.run()
        assert bench.pending(secrets="redact").reason == "settings changed"
        assert bench.run(secrets="redact").committed
        view = bench.fresh_view()
        assert self.FAKE not in view.chunks(view.chunk_ids)[0].snippet
        assert bench.run(secrets="skip").documents == 0
        assert bench.run(secrets="off").documents == 1
        assert bench.run(secrets="off", verify=True).warnings == ()
        assert bench.health() == []
