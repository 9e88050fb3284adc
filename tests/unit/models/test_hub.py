"""`models pull` against a hub that speaks the real protocol, honest, broken and hostile."""

import hashlib
import json
import signal
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from ragstream_core.errors import (
    OperationFailed,
    RagstreamError,
    Refused,
    UsageError,
    WeightsMismatch,
)
from ragstream_core.models import token_counters
from ragstream_core.models.downloads import pull_model, pull_token_file, pulled, verify_pulled
from ragstream_core.models.hub import Hub
from ragstream_core.models.rerankers import (
    NliModel,
    find_cross_encoder,
    weights_digest,
)
from tests.hub_server import COMMIT, HubServer
from tests.unit.models.rerankers.test_nli import build_nli

MOST = 10**9


def safetensors(size=300_000):
    head = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return len(head).to_bytes(8, "little") + head + bytes(n % 251 for n in range(size))


FILES = {
    "config.json": b'{"model_type": "bert"}',
    "tokenizer.json": b"{}",
    "1_Pooling/config.json": b"{}",
    "model.safetensors": safetensors(),
    "pytorch_model.bin": b"\x80\x04pickle",
    "onnx/model.onnx": b"other",
    "train.py": b"print()",
    ".gitattributes": b"",
}


@pytest.fixture
def server():
    with HubServer(dict(FILES)) as made:
        yield made


@pytest.fixture
def hub(server):
    return Hub(server.url, pause_s=0.0)


def taken(hub, folder, **options):
    return pull_model(hub, hub.model("acme/tiny", most_bytes=MOST), folder, **options)


def leftover(folder):
    return [path for path in folder.rglob("*") if path.is_file() and ".lock" not in path.name]


def test_a_model_is_fetched_whole_checked_and_stamped(hub, server, tmp_path):
    told = []
    place = taken(hub, tmp_path, progress=lambda done, total: told.append((done, total)))
    assert place == tmp_path / "acme" / "tiny"
    wanted = {"config.json", "tokenizer.json", "1_Pooling/config.json", "model.safetensors"}
    here = {p.relative_to(place).as_posix() for p in place.rglob("*") if p.is_file()}
    assert here == wanted | {".pulled"}
    assert all((place / name).read_bytes() == FILES[name] for name in wanted)
    stamp = pulled(place)
    assert (stamp.repo, stamp.commit, stamp.host) == ("acme/tiny", COMMIT, hub.host)
    assert verify_pulled(place) == 4
    assert told[-1] == (sum(len(FILES[name]) for name in wanted),) * 2
    asked = [path for path, _ in server.seen]
    assert "/store/model.safetensors" in asked  # behind a redirect
    assert not any(path.endswith((".bin", ".py")) for path in asked)
    before = len(server.seen)
    assert taken(hub, tmp_path) == place
    assert len(server.seen) == before + 1  # only the list


def test_a_pulled_nli_model_judges(server, hub, tmp_path):
    source = build_nli(tmp_path / "source")
    server.files = {path.name: path.read_bytes() for path in source.iterdir()}
    place = taken(hub, tmp_path)
    assert find_cross_encoder("acme/tiny", tmp_path) == place
    assert weights_digest(place) == weights_digest(source)
    (share,) = NliModel(place, model="acme/tiny", device="cpu").entailment(["wing"], ["a b c"])
    assert 0.0 <= share <= 1.0


def test_what_is_listed_says_what_would_be_fetched(hub):
    model = hub.model("acme/tiny", most_bytes=MOST)
    assert model.commit == COMMIT
    assert model.licence == "apache-2.0"
    assert model.size == sum(file.size for file in model.files)
    assert {bool(file.sha256) for file in model.files if file.name == "model.safetensors"} == {True}


@pytest.mark.parametrize("ranges", [True, False])
def test_a_broken_transfer_goes_on_where_it_stopped(hub, server, tmp_path, ranges):
    server.cut_after, server.ranges = [100_000, 50_000], ranges
    place = taken(hub, tmp_path)
    assert (place / "model.safetensors").read_bytes() == FILES["model.safetensors"]
    asked = [r for path, r in server.seen if path == "/store/model.safetensors"]
    assert asked[0] == "" and asked[1] == "bytes=100000-"


def test_what_came_is_kept_for_the_next_time(hub, server, tmp_path):
    server.cut_after = [100_000, 10_000, 10_000]
    with pytest.raises(OperationFailed, match="only partly received") as caught:
        taken(hub, tmp_path)
    assert "continue from there" in caught.value.hint
    assert not (tmp_path / "acme").exists()
    server.seen.clear()
    taken(hub, tmp_path)
    assert ("/store/model.safetensors", "bytes=120000-") in server.seen


def test_a_killed_pull_leaves_nothing_half_and_goes_on(server, tmp_path):
    script = (
        "import sys, time\nfrom pathlib import Path\n"
        "from ragstream_core.models import downloads, hub\n"
        "h = hub.Hub(sys.argv[1]); m = h.model('acme/tiny', most_bytes=10**9)\n"
        "def told(done, total):\n"
        "    if done > 200_000: print('here', flush=True); time.sleep(60)\n"
        "downloads.pull_model(h, m, Path(sys.argv[2]), progress=told)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script, server.url, str(tmp_path)], stdout=subprocess.PIPE
    )
    assert child.stdout.readline() == b"here\n"
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert not (tmp_path / "acme").exists()
    server.seen.clear()
    place = taken(Hub(server.url), tmp_path)
    assert verify_pulled(place) == 4
    (resumed,) = [r for path, r in server.seen if path == "/store/model.safetensors"]
    assert resumed.startswith("bytes=")


def test_a_file_with_another_digest_is_refused_and_does_not_stay(hub, server, tmp_path):
    row = server.row("model.safetensors")
    server.listed["model.safetensors"] = {**row, "lfs": {"sha256": "0" * 64}}
    with pytest.raises(Refused, match="digest that was promised"):
        taken(hub, tmp_path)
    assert not (tmp_path / "acme").exists()
    assert not list(tmp_path.rglob("*.safetensors"))


def test_a_small_file_is_checked_too(hub, server, tmp_path):
    server.listed["config.json"] = server.row("config.json")
    server.files["config.json"] = b'{"model_type": "evil"}'[: len(FILES["config.json"])]
    with pytest.raises(Refused, match=r"config\.json"):
        taken(hub, tmp_path)


def test_a_file_that_is_longer_than_announced_is_cut_off(hub, server, tmp_path):
    row = server.row("model.safetensors")
    server.listed["model.safetensors"] = {**row, "size": 1000}
    with pytest.raises(Refused, match="longer than its 1,000 bytes"):
        taken(hub, tmp_path)


@pytest.mark.parametrize(
    "to",
    [
        "http://127.0.0.1:9/{path}",
        "http://evil.example/{path}",
        "https://evil.example/{path}",
        "https://evilhf.co/{path}",
        "https://hf.co.evil.example/{path}",
        "http://cdn-lfs.hf.co/{path}",
        "file:///etc/passwd",
        "",
    ],
)
def test_a_redirect_elsewhere_is_refused_before_anybody_is_asked(hub, server, tmp_path, to):
    server.redirect = to or "{url}/%zz@/{path}"
    with pytest.raises(RagstreamError):
        taken(hub, tmp_path)
    assert not (tmp_path / "acme").exists()
    if to:
        assert not any("store" in path for path, _ in server.seen)


def test_redirects_without_end_are_refused(hub, server, tmp_path):
    server.redirect = "{url}/acme/tiny/resolve/" + COMMIT + "/{path}"
    with pytest.raises(Refused, match="more than 5 redirects"):
        taken(hub, tmp_path)


@pytest.mark.parametrize(
    "name",
    ["../evil.json", "/etc/passwd", "a/../../b.json", "a\\b.json", "./config.json", "x\n.json", ""],
)
def test_a_list_that_leads_out_of_the_folder_is_refused(hub, server, tmp_path, name):
    server.extra = [{"rfilename": name, "size": 1, "blobId": "0" * 40}]
    with pytest.raises(Refused, match="leads out"):
        taken(hub, tmp_path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rfilename": "CONFIG.json", "size": 1, "blobId": "0" * 40}, "twice"),
        ({"rfilename": "vocab.txt", "size": -1, "blobId": "0" * 40}, "size and digest"),
        ({"rfilename": "vocab.txt", "size": 1}, "size and digest"),
        ({"rfilename": "vocab.txt", "size": 10**9, "blobId": "0" * 40}, "more than any such file"),
    ],
)
def test_a_list_that_cannot_be_right_is_refused(hub, server, change, said):
    server.extra = [change]
    with pytest.raises(Refused, match=said):
        hub.model("acme/tiny", most_bytes=MOST)


def test_a_pickle_is_never_taken(hub, server):
    del server.files["model.safetensors"]
    with pytest.raises(Refused, match=r"only pytorch_model\.bin, which can run code"):
        hub.model("acme/tiny", most_bytes=MOST)


def test_what_is_too_large_is_refused_before_anything_is_fetched(hub, server):
    with pytest.raises(Refused, match="GB") as caught:
        hub.model("acme/tiny", most_bytes=1000)
    assert caught.value.hint == "raise hub.max_gb"
    assert len(server.seen) == 1


def test_a_web_page_instead_of_weights_is_refused(hub, server, tmp_path):
    server.content_type = "text/html; charset=utf-8"
    with pytest.raises(Refused, match="web page instead of"):
        taken(hub, tmp_path)


def test_a_web_page_instead_of_the_list_is_refused(hub, server):
    server.answer = lambda _: b"<html>Please log in</html>"
    with pytest.raises(OperationFailed, match="no list of files"):
        hub.model("acme/tiny", most_bytes=MOST)


@pytest.mark.parametrize("answer", [b"[]", b"{}", b'{"sha": "main", "siblings": []}', b"9" * 9])
def test_a_list_of_another_form_is_refused(hub, server, answer):
    server.answer = lambda _: answer
    with pytest.raises(RagstreamError):
        hub.model("acme/tiny", most_bytes=MOST)


def test_a_file_that_is_only_called_safetensors_is_refused(hub, server, tmp_path):
    server.files["model.safetensors"] = b"<html>not weights, but with the right digest</html>"
    with pytest.raises(Refused, match="named like a safetensors file"):
        taken(hub, tmp_path)
    assert not (tmp_path / "acme").exists()


@pytest.mark.parametrize(
    ("status", "said"), [(401, "account"), (404, "has no"), (503, "HTTP 503"), (418, "HTTP 418")]
)
def test_an_error_of_the_hub_says_what_to_do(hub, server, status, said):
    server.status = status
    with pytest.raises(OperationFailed, match=said):
        hub.model("acme/tiny", most_bytes=MOST)


@pytest.mark.parametrize("name", ["tiny", "../..", "a/b/c", "a/..", "a b/c", ""])
def test_a_name_that_is_no_model_is_refused(hub, server, name):
    with pytest.raises(UsageError):
        hub.model(name, most_bytes=MOST)
    assert not server.seen


def test_a_plain_http_hub_elsewhere_is_refused():
    with pytest.raises(UsageError, match="plain http"):
        Hub("http://hub.example")


def test_a_new_revision_takes_the_place_of_the_old_one_as_a_whole(hub, server, tmp_path):
    place = taken(hub, tmp_path)
    (place / "config.json").write_bytes(b"changed by hand")
    with pytest.raises(WeightsMismatch, match=r"config\.json differs from what") as caught:
        verify_pulled(place)
    assert "ragstream models pull acme/tiny" in caught.value.hint
    assert (taken(hub, tmp_path) / "config.json").read_bytes() == FILES["config.json"]
    assert not leftover(tmp_path / ".pull")


def test_a_full_disk_is_said_before_anything_is_fetched(hub, server, tmp_path, monkeypatch):
    usage = SimpleNamespace(free=1000)
    monkeypatch.setattr("ragstream_core.models.downloads.shutil.disk_usage", lambda _: usage)
    with pytest.raises(OperationFailed, match="GB free"):
        taken(hub, tmp_path)
    assert len(server.seen) == 1


def test_a_token_file_is_fetched_and_checked(server, tmp_path, monkeypatch):
    data = b"AA== 0\n" * 1000
    server.files["o200k_base.tiktoken"] = data
    monkeypatch.setattr(token_counters, "_HOME", f"{server.url}/acme/tiny/resolve/{COMMIT}")
    sha256 = hashlib.sha256(data).hexdigest()
    real = token_counters.TOKEN_FILES["o200k_base"]
    file = replace(real, sha256=sha256, size=len(data))
    path = pull_token_file(file, tmp_path)
    assert path.read_bytes() == data
    assert token_counters.verified(file, tmp_path) == path
    path.unlink()
    with pytest.raises(Refused, match="digest"):
        pull_token_file(replace(file, sha256="0" * 64), tmp_path)
    assert not path.exists()
