"""An index that is published and pulled: the same prompts there, and never half of one."""

import contextlib
import os
import random
import shutil
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ragstream_core.errors import (
    GenerationGone,
    IntegrityError,
    OperationFailed,
    ProjectLocked,
    RagstreamError,
    Refused,
    RunCommand,
    UnknownProject,
    UsageError,
)
from ragstream_core.index import derived
from ragstream_core.index.check import Part
from ragstream_core.index.schema import project_lock, rebuild_hint, update_hint
from ragstream_core.index.view import forget_views, open_view
from ragstream_core.platform.locks import HOLDER_NAME, LOCK_NAME
from ragstream_core.remote import publication
from ragstream_core.remote.depot import open_depot
from ragstream_core.services import publish_index
from ragstream_core.services.backup import backup
from ragstream_core.services.forget import forget
from ragstream_core.services.ingest import ingest_project
from ragstream_core.services.projects import AddRequest, add, list_projects
from ragstream_core.services.publish_index import PublishRequest, publish
from ragstream_core.services.pull_index import pull
from ragstream_core.services.remove_project import remove
from ragstream_core.services.replay import replay_prompt
from ragstream_core.services.search import search
from ragstream_core.services.uploads import save_upload
from ragstream_core.services.verify import verify_project
from ragstream_core.services.verify_prompt import verify_key
from ragstream_core.text.terms import term_id
from ragstream_core.wiring import ingestion
from tests.lengths import by_length
from tests.processes import until
from tests.workspaces import (
    ask_and_keep,
    docs_of,
    files_below,
    hashed_workspace,
    ingested_workspace,
    write_docs,
)

FLIPS = by_length(60, 1_000, 5_000)


@pytest.fixture
def writer(tmp_path):
    return ingested_workspace(tmp_path / "writer")


@pytest.fixture
def reader(tmp_path):
    (tmp_path / "reader").mkdir()
    return hashed_workspace(tmp_path / "reader")


@pytest.fixture
def place(tmp_path):
    return str(tmp_path / "team" / "demo")


def digest_in(space, name="demo"):
    forget_views()
    return open_view(space.index_dir(name)).digest


def changed(writer, text="# More\n\nThe lock of a project is freed by the kernel.\n"):
    (docs_of(writer) / "more.md").write_text(text)
    ingest_project(writer, "demo")


def state_of(space, name="demo"):
    return next(project for project in list_projects(space) if project.name == name)


def test_a_prompt_is_the_same_there_and_replays_on_either_side(writer, reader, place):
    published = publish(writer, "demo", place)
    assert published.generation == 1 and published.sent_bytes == published.bytes > 0
    done = pull(reader, place)
    assert (done.project, done.generation, done.changed) == ("demo", 1, True)
    assert digest_in(reader) == digest_in(writer)
    key = ask_and_keep(reader)
    assert key == ask_and_keep(writer)
    texts = [(s.store.root / key / "super_prompt.md").read_bytes() for s in (reader, writer)]
    assert texts[0] == texts[1]
    for one, other in ((reader, writer), (writer, reader)):
        key = ask_and_keep(one, "What is the commit, and who waits?")
        shutil.copytree(one.store.root, other.store.root, dirs_exist_ok=True)
        assert replay_prompt(other, key).verdict == "identical"
    assert verify_project(reader, "demo").findings == []
    assert {file.state for file in verify_key(reader, key).files} == {"elsewhere"}


def test_only_what_changed_travels_and_what_is_up_to_date_stays(reader, place, tmp_path):
    docs = {f"{n}.md": f"# Part {n}\n\n" + f"Sentence {n} of its own. " * 40 for n in range(240)}
    writer = ingested_workspace(tmp_path / "large", docs=docs)
    publish(writer, "demo", place)
    assert publish(writer, "demo", place).sent == 0
    pull(reader, place)
    before = files_below(reader.index_dir("demo"))
    assert not pull(reader, "demo").changed
    assert files_below(reader.index_dir("demo")) == before
    changed(writer)
    sent = publish(writer, "demo", place)
    done = pull(reader, place)
    assert done.generation == sent.generation == 2
    assert (done.fetched, done.fetched_bytes) == (sent.sent, sent.sent_bytes)
    assert 0 < done.fetched_bytes < done.bytes / 2
    assert search(reader, "freed by the kernel", ("demo",), k=3).hits[0].source == "more.md"


def test_the_term_arrays_of_a_pulled_index_are_made_of_those_before(
    reader, place, tmp_path, monkeypatch
):
    docs = {f"{n}.md": f"# Part {n}\n\nSentence {n} of its own." for n in range(60)}
    writer = ingested_workspace(tmp_path / "large", docs=docs)
    publish(writer, "demo", place)
    pull(reader, place)
    whole, asked = derived.terms_of, []
    monkeypatch.setattr(derived, "terms_of", lambda *args: asked.append(args) or whole(*args))
    monkeypatch.setattr(derived, "WHOLE_BELOW", 1)
    for n in range(3):
        changed(writer, f"# More\n\nThe lock of a project is freed {n} times.\n")
        publish(writer, "demo", place)
        pull(reader, place)
        assert (reader.index_dir("demo") / derived.CHANGES_FILE).exists()
        words = [open_view(space.index_dir("demo")).lexical.packed() for space in (reader, writer)]
        assert words[0] == words[1] and asked == []
    assert verify_project(reader, "demo").findings == []


def test_no_term_of_what_is_forgotten_stays_where_it_was_pulled(writer, reader, place, monkeypatch):
    monkeypatch.setattr(derived, "WHOLE_BELOW", 1)
    monkeypatch.setattr(derived, "MOST_CHANGED", 9.0)
    word = term_id("marzipan").to_bytes(8, "little", signed=True)
    changed(writer, "# More\n\nThe marzipan lies in the vault.\n")
    publish(writer, "demo", place)
    pull(reader, place)
    arrays = reader.index_dir("demo") / derived.LEXICAL_FILE
    (docs_of(writer) / "more.md").unlink()
    ingest_project(writer, "demo")
    publish(writer, "demo", place)
    pull(reader, place)
    assert arrays.with_name("changes.bin").exists() and word in arrays.read_bytes()
    forget(writer, "demo", "more.md")  # no row of the newest generation, whose digest stays
    publish(writer, "demo", place, PublishRequest(keep=0))
    pull(reader, place)
    assert not any(word in path.read_bytes() for path in arrays.parent.iterdir())


def test_an_index_that_is_pulled_is_read_and_never_written(writer, reader, place):
    publish(writer, "demo", place)
    pull(reader, place, name="theirs")
    before = files_below(reader.index_dir("theirs"))
    for write in (
        lambda: ingest_project(reader, "theirs"),
        lambda: ingestion.unchanged(reader, "theirs"),
        lambda: forget(reader, "theirs", "catalog.md"),
        lambda: save_upload(reader, "theirs", "a.md", b"# A\n"),
        lambda: publish(reader, "theirs", place),
    ):
        with pytest.raises(Refused, match="made elsewhere"):
            write()
    after = files_below(reader.index_dir("theirs"))
    changed = [p for p in before.keys() | after if before.get(p) != after.get(p)]
    assert [path.name for path in changed if not path.name.startswith(".lock")] == []
    assert reader.projects() == ["theirs"] and reader.own_projects() == []
    assert state_of(reader, "theirs").pulled_from == place
    said = ingestion.status(reader, "theirs")
    assert (said.generation, said.reason, said.pending.paths) == (1, "", [])


def test_a_pulled_project_is_removed_like_any_other(writer, reader, place):
    publish(writer, "demo", place)
    pull(reader, place)
    remove(reader, "demo")
    assert reader.projects() == [] and not reader.index_dir("demo").exists()
    assert pull(reader, place).changed


def test_names_that_are_taken(writer, reader, place, tmp_path):
    publish(writer, "demo", place)
    with pytest.raises(Refused, match="is a project of this data root") as raised:
        pull(writer, place)
    assert "--name" in raised.value.hint
    pull(reader, place)
    changed(writer)
    publish(writer, "demo", str(tmp_path / "other"))
    with pytest.raises(Refused, match="is pulled from"):
        pull(reader, str(tmp_path / "other"))
    with pytest.raises(UsageError, match="nothing is published"):
        pull(reader, str(tmp_path / "nowhere"))
    with pytest.raises(UnknownProject):
        publish(hashed_workspace(tmp_path / "empty"), "demo", place)
    write_docs(tmp_path / "empty")
    with pytest.raises(GenerationGone):
        publish(hashed_workspace(tmp_path / "empty"), "demo", place)
    for wrong in ("https://me:s3cret@example.org/x.txt", "sftp://host/x", "ftp://host/x"):
        with pytest.raises(UsageError, match="no index is published at an address of") as raised:
            publish(writer, "demo", wrong)
        assert "s3://BUCKET" in raised.value.hint and "s3cret" not in str(raised.value)
    with project_lock(writer.index_dir("demo")), pytest.raises(ProjectLocked):
        publish(writer, "demo", place)


def test_a_place_among_the_documents_or_with_other_files_is_refused(writer, tmp_path):
    docs = docs_of(writer)
    for wrong in (docs, docs / "published"):
        with pytest.raises(Refused, match="they would be ingested"):
            publish(writer, "demo", str(wrong), PublishRequest(force=True))
    assert not (docs / "published").exists() and not ingest_project(writer, "demo").committed
    full = tmp_path / "full"
    (full / "blocks").mkdir(parents=True)
    (full / "letter.txt").write_text("mine")
    with pytest.raises(
        Refused, match=r"holds letter\.txt, and nothing that was published"
    ) as raised:
        publish(writer, "demo", str(full))
    assert "--force" in raised.value.hint and not any((full / "blocks").iterdir())
    publish(writer, "demo", str(full), PublishRequest(force=True))
    assert publish(writer, "demo", str(full)).sent == 0 and (full / "letter.txt").exists()


def test_a_pull_that_fails_leaves_nothing_on_the_disk(writer, reader, place):
    publish(writer, "demo", place)
    for block in sorted(Path(place, "blocks").rglob("*/*"))[-1:]:
        block.unlink()
    with pytest.raises(IntegrityError, match="missing or damaged"):
        pull(reader, place)
    left = [path.name for path in reader.layout.indexes.rglob("*") if path.is_file()]
    assert set(left) <= {LOCK_NAME, HOLDER_NAME}


def test_another_index_or_an_older_state_is_not_published_over_it(writer, place, tmp_path):
    old = tmp_path / "old"
    shutil.copytree(writer.data_dir, old)
    changed(writer)
    publish(writer, "demo", place)
    with pytest.raises(Refused, match="newer generation"):
        publish(hashed_workspace(old), "demo", place)
    other = ingested_workspace(tmp_path / "second", docs={"a.md": "# Another\n\nquite\n"})
    ingest_project(other, "demo", rebuild=True)
    (docs_of(other) / "b.md").write_text("# B\n\nmore\n")
    ingest_project(other, "demo")
    with pytest.raises(Refused, match="another index"):
        publish(other, "demo", place)
    assert publish(other, "demo", place, PublishRequest(force=True)).generation >= 2
    changed(writer)
    publish(writer, "demo", place, PublishRequest(force=True))
    shop = hashed_workspace(tmp_path / "third")
    docs_of(shop, "shop").mkdir(parents=True)
    (docs_of(shop, "shop") / "a.md").write_text("# Shop\n\nwords\n")
    ingest_project(shop, "shop")
    with pytest.raises(Refused, match="another index, that of demo"):
        publish(shop, "shop", place)


def test_another_machine_that_publishes_meanwhile_is_named_and_nothing_is_lost(
    writer, reader, place, tmp_path, monkeypatch
):
    publish(writer, "demo", place)
    twin = shutil.copytree(tmp_path / "writer", tmp_path / "twin") and hashed_workspace(
        tmp_path / "twin"
    )
    changed(writer)
    changed(twin, "# Other\n\nThe twin says something else.\n")
    real, theirs = publish_index._send, []

    def send(*args, **more):
        if not theirs:
            theirs.append(None)
            theirs.append(publish(twin, "demo", place))
        return real(*args, **more)

    monkeypatch.setattr(publish_index, "_send", send)
    with pytest.raises(Refused, match=f"{socket.gethostname()} at .* published generation 2") as no:
        publish(writer, "demo", place)
    assert "ragstream index publish demo" in no.value.hint
    assert publication.newest(open_depot(place)) == theirs[1].manifest
    pull(reader, place)
    assert digest_in(reader) == digest_in(twin) != digest_in(writer)
    with pytest.raises(Refused, match="has another index"):
        publish(writer, "demo", place)
    publish(writer, "demo", place, PublishRequest(force=True, keep=0))
    pull(reader, place)
    assert digest_in(reader) == digest_in(writer)


def test_older_publications_go_when_they_are_not_kept(writer, reader, place, tmp_path):
    publish(writer, "demo", place)
    for n in range(4):
        changed(writer, f"# More\n\nNumber {n} of many.\n")
        publish(writer, "demo", place)
    manifests = tmp_path / "team" / "demo" / "manifests"
    assert len(list(manifests.iterdir())) == 5
    aged(place)
    done = publish(writer, "demo", place, PublishRequest(keep=1))
    assert done.removed and len(list(manifests.iterdir())) == 2
    assert pull(reader, place).generation == 5
    forget_views()
    assert verify_project(reader, "demo").findings == []


def test_a_depot_that_was_damaged_is_refused_and_mended(writer, reader, place, tmp_path):
    publish(writer, "demo", place)
    depot, whole = tmp_path / "team" / "demo", digest_in(writer)
    read = [path for path in depot.rglob("*") if path.parent.name != publication.PUBLISHERS]
    objects = sorted(path for path in read if path.is_file())
    pick, refused = random.Random(5), 0
    for _ in range(FLIPS):
        path = pick.choice(objects)
        data = bytearray(path.read_bytes())
        good = bytes(data)
        data[pick.randrange(len(data))] ^= 1 << pick.randrange(8)
        path.write_bytes(data)
        try:
            pull(reader, place)
        except (IntegrityError, UsageError):
            refused += 1
            assert not reader.index_dir("demo").exists()
        else:  # a bit that no decompressor looks at
            assert digest_in(reader) == whole
            remove(reader, "demo")
        path.write_bytes(good)
    assert refused >= FLIPS * 0.8  # of small files, heads that nobody reads are a larger share
    victim = next(path for path in objects if path.parent.parent.name == "blocks")
    victim.write_bytes(b"torn")
    with pytest.raises(IntegrityError, match="missing or damaged") as raised:
        pull(reader, place)
    assert "--verify" in raised.value.hint
    assert publish(writer, "demo", place, PublishRequest(verify=True)).sent == 1
    assert pull(reader, place).changed


def test_local_files_that_were_damaged_are_fetched_again(writer, reader, place):
    publish(writer, "demo", place)
    pull(reader, place)
    catalog = reader.index_dir("demo") / "catalog.sqlite"
    data = bytearray(catalog.read_bytes())
    data[len(data) // 2] ^= 0xFF
    catalog.write_bytes(data)
    (reader.index_dir("demo") / "pulled.json").write_text("{")
    changed(writer)
    publish(writer, "demo", place)
    pull(reader, place)
    assert digest_in(reader) == digest_in(writer)
    assert verify_project(reader, "demo").findings == []


def test_readers_see_one_state_or_the_other_while_it_is_pulled(writer, reader, place):
    publish(writer, "demo", place)
    pull(reader, place)
    over, wrong = threading.Event(), []

    def read():
        while not over.is_set():
            try:
                assert search(reader, "commit", ("demo",), k=3).hits
            except Exception as error:  # whatever it is, the main thread says so
                wrong.append(error)
                return

    thread = threading.Thread(target=read)
    thread.start()
    try:
        for n in range(5):
            changed(writer, f"# More\n\nThe commit number {n}.\n")
            publish(writer, "demo", place)
            assert pull(reader, place).changed
    finally:
        over.set()
        thread.join()
    assert wrong == []


def test_a_publication_that_is_removed_meanwhile_is_read_anew(writer, reader, place, monkeypatch):
    publish(writer, "demo", place)
    read, first = publication.read_block, [True]

    def slow(depot, digest, length):
        if first.pop() if first else False:
            changed(writer)
            aged(place)
            publish(writer, "demo", place, PublishRequest(keep=0))
        return read(depot, digest, length)

    monkeypatch.setattr(publication, "read_block", slow)
    with contextlib.suppress(RagstreamError):  # 1 block may be in both
        assert pull(reader, place).generation in (1, 2)
    assert pull(reader, place).generation == 2


def test_a_pointer_or_a_manifest_that_was_damaged_is_published_anew(writer, reader, place):
    publish(writer, "demo", place)
    changed(writer)
    publish(writer, "demo", place)
    depot = Path(place)
    for name in ("newest", "manifest"):
        current = depot / "manifests" / f"{(depot / 'newest').read_text().strip()}.json"
        victim = depot / "newest" if name == "newest" else current
        victim.write_bytes(victim.read_bytes()[:-3])
        with pytest.raises(IntegrityError) as raised:
            pull(reader, place)
        assert "--force" in raised.value.hint
        for request in (PublishRequest(), PublishRequest(verify=True)):
            with pytest.raises(IntegrityError, match="damaged"):
                publish(writer, "demo", place, request)
        publish(writer, "demo", place, PublishRequest(force=True))
        assert pull(reader, place).generation == 2


def test_pruning_ends_at_an_older_manifest_that_was_damaged(writer, reader, place):
    publish(writer, "demo", place)
    older = next((Path(place) / "manifests").iterdir())
    changed(writer)
    publish(writer, "demo", place)
    older.write_text("{}")
    aged(place)
    assert publish(writer, "demo", place, PublishRequest(keep=3)).removed
    assert not older.exists() and pull(reader, place).generation == 2


def test_what_one_machine_prunes_while_another_publishes_is_sent_again(
    writer, reader, place, tmp_path, monkeypatch
):
    publish(writer, "demo", place)
    shutil.copytree(writer.data_dir, tmp_path / "other")
    other = hashed_workspace(tmp_path / "other")
    changed(other)
    real, pointed = publication.point_on, []

    def point_on(depot, digest, before):
        aged(place)  # as if it took long to send
        publish(writer, "demo", place, PublishRequest(keep=0))  # removes what was sent
        assert publication.newest(depot) == before
        pointed.append(digest)
        return real(depot, digest, before)

    monkeypatch.setattr(publication, "point_on", point_on)
    done = publish(other, "demo", place)
    assert pointed == [done.manifest] and done.generation == 2
    monkeypatch.undo()
    assert pull(reader, place).generation == 2


def aged(place):
    """Make all that is published somewhere two hours older."""
    for path in Path(place).rglob("*"):
        if path.is_file():
            then = path.stat().st_mtime - 7_200
            os.utime(path, (then, then))


def pruned_while(writer, place, other, unlinking):
    """Prune while another machine publishes.

    Args:
        writer: Who prunes.
        place: Where.
        other: The other machine.
        unlinking: Called with the other's thread and whether it has published, before a removal.

    Returns:
        How many objects were removed, and what the other machine published.
    """
    before, done, real = publication.newest(open_depot(place)), [], Path.unlink
    request = PublishRequest(force=True)
    theirs = threading.Thread(target=lambda: done.append(publish(other, "demo", place, request)))

    def unlink(path, missing_ok=False):
        if path.is_relative_to(place):
            unlinking(theirs, lambda: publication.newest(open_depot(place)) != before)
        real(path, missing_ok=missing_ok)

    aged(place)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "unlink", unlink)
        removed = publish(writer, "demo", place, PublishRequest(keep=0)).removed
        theirs.join(60)
    return removed, done[0]


def test_pruning_ends_when_another_machine_has_published(
    writer, reader, place, tmp_path, monkeypatch
):
    publish(writer, "demo", place)
    changed(writer)
    publish(writer, "demo", place)
    shutil.copytree(writer.data_dir, tmp_path / "other")
    other = hashed_workspace(tmp_path / "other")
    changed(other, "# Other\n\nAnother machine writes this.\n")
    monkeypatch.setattr(publish_index, "_REMOVED_AT_ONCE", 1)
    real, calls = publication.remove_while, []

    def after_theirs(*words):
        calls.append(words)
        if len(calls) == 2:  # between two batches
            publish(other, "demo", place, PublishRequest(force=True))
        return real(*words)

    aged(place)
    monkeypatch.setattr(publication, "remove_while", after_theirs)
    assert publish(writer, "demo", place, PublishRequest(keep=0)).removed == 1
    assert pull(reader, place).generation == 3


def test_nobody_publishes_in_the_middle_of_removals_and_what_is_gone_is_sent_again(
    writer, reader, place, tmp_path
):
    publish(writer, "demo", place)
    shutil.copytree(writer.data_dir, tmp_path / "other")
    other = hashed_workspace(tmp_path / "other")  # all that it needs is there, and is removed
    changed(writer)
    publish(writer, "demo", place)

    def begin(theirs, has_published):
        if theirs.ident is None:
            theirs.start()
            assert not until(has_published, 0.5)

    removed, theirs = pruned_while(writer, place, other, begin)
    assert removed > 1 and theirs.sent and theirs.generation == 1
    assert pull(reader, place).generation == 1


def test_what_is_young_stays_and_is_counted(writer, place):
    publish(writer, "demo", place)
    changed(writer)
    done = publish(writer, "demo", place, PublishRequest(keep=0))
    assert (done.removed, done.waiting > 0) == (0, True) and "waiting" not in done.to_json()
    aged(place)
    again = publish(writer, "demo", place, PublishRequest(keep=0))
    assert (again.removed, again.waiting) == (done.waiting, 0)


def test_old_blocks_of_nobody_are_put_anew_so_that_no_machine_removes_them(writer, place):
    publish(writer, "demo", place)
    changed(writer)
    publish(writer, "demo", place)
    (Path(place) / "newest").unlink()  # as if the last publication had not come to its end
    aged(place)
    done = publish(writer, "demo", place)
    assert done.sent and done.sent_bytes == done.bytes
    assert publish(writer, "demo", place, PublishRequest(verify=True)).sent == 0


def test_damage_of_what_is_here_is_found_named_and_fetched_again(writer, reader, place):
    publish(writer, "demo", place)
    pull(reader, place)
    vectors = next(reader.index_dir("demo").glob("vectors-*.f32"))
    data = bytearray(vectors.read_bytes())
    data[8] ^= 0xFF
    vectors.write_bytes(data)
    forget_views()
    finding = verify_project(reader, "demo", part=Part(1, 1)).findings[0]
    assert finding.run == "ragstream index pull demo --verify"
    assert not pull(reader, "demo").changed
    assert pull(reader, "demo", verify=True).fetched == 1
    forget_views()
    assert verify_project(reader, "demo", part=Part(1, 1)).findings == []
    vectors.write_bytes(b"")  # a wrong size is seen without being asked for
    assert pull(reader, "demo").fetched >= 1


def test_messages_over_a_pulled_project_name_the_pull(writer, reader, place, tmp_path):
    publish(writer, "demo", place)
    pull(reader, place)
    index_dir = reader.index_dir("demo")
    assert str(rebuild_hint(index_dir)) == str(RunCommand("index pull", "demo --verify"))
    assert str(update_hint(index_dir)) == str(RunCommand("index pull", "demo"))
    with pytest.raises(UsageError, match="demo is pulled"):
        add(reader, "demo", AddRequest((str(tmp_path),)))


def test_publications_one_after_the_other_and_pulls_at_once(writer, reader, place):
    publish(writer, "demo", place)
    changed(writer)
    with ThreadPoolExecutor(4) as pool:
        request = PublishRequest(keep=0)
        for done in [pool.submit(publish, writer, "demo", place, request) for _ in range(4)]:
            assert done.result().generation == 2
        pulls = [pool.submit(pull, reader, place) for _ in range(6)]
        refused = [type(found.exception()) for found in pulls if found.exception()]
    assert set(refused) <= {ProjectLocked} and len(refused) < len(pulls)
    forget_views()
    assert verify_project(reader, "demo").findings == []
    names = {path.name for path in reader.index_dir("demo").parent.iterdir()}
    assert not {name for name in names if name.endswith(".replaced")}


@pytest.mark.parametrize(("mask", "folder", "file"), [(0o022, 0o755, 0o644), (0o077, 0o700, 0o600)])
def test_others_may_read_a_publication_as_the_mask_says(writer, place, mask, folder, file):
    before = os.umask(mask)
    try:
        publish(writer, "demo", place)
        assert os.umask(mask) == mask
    finally:
        os.umask(before)
    for path in (Path(place), *Path(place).rglob("*")):
        assert path.stat().st_mode & 0o777 == (folder if path.is_dir() else file)


def test_a_backup_leaves_what_is_pulled_out_and_keeps_its_texts(writer, reader, place, tmp_path):
    publish(writer, "demo", place)
    pull(reader, place)
    texts = reader.data_dir / "projects" / "demo"
    texts.mkdir(parents=True)
    (texts / "hard_rules.md").write_text("- Answer in English.\n")
    made = backup(reader, tmp_path / "copy")
    assert (made.projects, made.pulled) == ({}, ("demo",))
    assert (tmp_path / "copy" / "projects" / "demo" / "hard_rules.md").is_file()
    assert not (tmp_path / "copy" / "index").exists()
    with pytest.raises(Refused, match="made elsewhere"):
        backup(reader, tmp_path / "other", ["demo"])


def test_the_copy_of_a_publication_that_was_killed_goes_with_what_is_erased(
    writer, place, monkeypatch
):
    copy = writer.index_dir("demo").with_name(".demo.publishing")
    with monkeypatch.context() as killed:
        killed.setattr(publish_index.shutil, "rmtree", lambda *_, **__: None)
        killed.setattr(publish_index, "_send", lambda *_, **__: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            publish(writer, "demo", place)
    assert b"token budget" in (copy / "catalog.sqlite").read_bytes()
    forget(writer, "demo", "notes/limits.txt", delete=True)
    assert not copy.exists()
    copy.mkdir()
    shutil.rmtree(docs_of(writer))
    remove(writer, "demo")
    assert not copy.exists()


def test_what_is_erased_while_an_index_is_sent_is_not_published(writer, place, monkeypatch):
    real = publish_index._send_block

    def send(*args, **more):
        if writer.index_dir("demo").with_name(".demo.publishing").exists():
            with contextlib.suppress(ProjectLocked, UsageError):
                forget(writer, "demo", "notes/limits.txt", delete=True)
        return real(*args, **more)

    monkeypatch.setattr(publish_index, "_send_block", send)
    with pytest.raises(OperationFailed, match="was erased while its index was being sent"):
        publish(writer, "demo", place)
    assert publication.newest(open_depot(place)) == ""
    monkeypatch.undo()
    assert publish(writer, "demo", place).generation
