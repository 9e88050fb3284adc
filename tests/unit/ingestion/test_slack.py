"""Days of Slack channels as people read them."""

import io
import json
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream_core.ingestion.loader import DocumentLoader
from ragstream_core.ingestion.parsers.engines import Refusal
from ragstream_core.ingestion.parsers.slack import day_markdown, framed, names_of
from ragstream_core.services.ingest import ingest_project
from tests.workspaces import ask, hashed_workspace

NOON = 1_714_564_800  # 2024-05-01 12:00 UTC
PEOPLE = {"U1": "Anna Berg", "U2": "Tom Ito"}


def message(minute, text, user="U1", **more):
    return {"type": "message", "user": user, "text": text, "ts": f"{NOON + minute * 60}.000100",
            **more}  # fmt: skip


def read(rows, names=PEOPLE):
    data = json.dumps(rows).encode()
    return day_markdown(framed(data, channel="#pumps", day="2024-05-01", names=names), 10**6)


def test_who_said_what_and_when_under_channel_and_day():
    text, note = read([message(0, "The valve closes at 7 bar."), message(75, "Thanks!", "U2")])
    assert text == (
        "# #pumps, 2024-05-01 (times in UTC)\n\n"
        "- Anna Berg (12:00): The valve closes at 7 bar.\n\n- Tom Ito (13:15): Thanks!"
    )
    assert not note


def test_replies_stand_below_what_they_reply_to():
    root = f"{NOON}.000100"
    text, _ = read([
        message(0, "Which oil?"), message(1, "Lunch?", "U2"),
        message(3, "Grade 46.\nNot 32.", "U2", thread_ts=root), message(2, "Hm", thread_ts=root),
        message(9, "Late.", "U2", thread_ts=f"{NOON - 86_400}.0"),
    ])  # fmt: skip
    assert text.split("\n\n")[1:] == [
        "## Anna Berg (12:00): Which oil?",
        "- Anna Berg (12:00): Which oil?",
        "- Anna Berg (12:02): Hm",
        "- Tom Ito (12:03): Grade 46.\n  Not 32.",
        "## Other messages",
        "- Tom Ito (12:01): Lunch?",
        "## Replies to what was said on 2024-04-30, 12:00",
        "- Tom Ito (12:09): Late.",
    ]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("<@U2> and <@U3|cat>", "@Tom Ito and @cat"),
        ("see <#C1|general> <!here> <!subteam^S1|@ops>", "see #general @here @ops"),
        ("<https://a.example/x|the page>", "the page (https://a.example/x)"),
        ("<https://a.example/x>", "https://a.example/x"),
        ("<mailto:a@b.example|a@b.example>", "a@b.example"),
        ("a &lt; b &amp;&amp; c &gt; d", "a < b && c > d"),
        ("<!date^1392734382^{date}|Feb 18>", "Feb 18"),
        ("<@U9>", "@U9"),
        ("Done :tada: :+1::skin-tone-2: at 10:15:30, a:b:c", "Done at 10:15:30, a:b:c"),
    ],
)
def test_mentions_and_links_are_written_as_slack_shows_them(written, shown):
    assert read([message(0, written)])[0].endswith(f"Anna Berg (12:00): {shown}")


def test_code_is_fenced_and_headings_in_a_message_are_below_that_of_the_day():
    text, _ = read([message(0, "```a = 1\n# b```"), message(1, "# Loud\n# Louder")])
    assert "- Anna Berg (12:00):\n  \n  ```\n  a = 1\n  # b\n  ```" in text
    assert "Anna Berg (12:01): # Loud\n  ## Louder" in text


def test_files_and_what_is_only_in_blocks_or_attachments_are_named():
    blocks = [{"type": "rich_text", "elements": [{"elements": [
        {"type": "text", "text": "Ask "}, {"type": "user", "user_id": "U2"}]}]}]  # fmt: skip
    text, _ = read([
        message(0, "Plan", files=[{"name": "p.pdf", "title": "The plan"}]),
        message(1, "", blocks=blocks),
        message(2, "look", attachments=[{"text": "own words"}, {"text": "x", "from_url": "y"}]),
    ])  # fmt: skip
    assert "Plan\n  \n  [file: The plan]" in text
    assert "Anna Berg (12:01): Ask @Tom Ito" in text
    assert text.endswith("look\n  \n  own words")


def test_notices_and_bots_are_left_out_and_counted():
    text, note = read([
        message(0, "joined", subtype="channel_join"), message(1, "x", subtype="channel_topic"),
        message(2, "built", subtype="bot_message"), message(3, "y", bot_profile={"name": "CI"}),
        message(4, "Hello"),
    ])  # fmt: skip
    assert text.endswith("\n\n- Anna Berg (12:04): Hello")
    assert note == "left out: messages of bots: 2, notices of joins and the like: 2"
    with pytest.raises(Refusal, match="no person says anything"):
        read([message(0, "joined", subtype="channel_join")])


def test_names_come_from_the_messages_where_the_file_of_people_has_none():
    profile = {"real_name": "Eva Lind", "name": "eva"}
    text, _ = read([message(0, "I, <@U7>", "U7", user_profile=profile)])
    assert text.endswith("Eva Lind (12:00): I, @Eva Lind")
    users = [{"id": "U1", "name": "a", "profile": {"real_name": "Anna Berg"}}, {"id": "U2"}, 3]
    assert names_of(json.dumps(users).encode()) == {"U1": "Anna Berg"}
    assert names_of(b"{broken") == names_of(b"[" * 100_000) == {}


@pytest.fixture
def export(tmp_path):
    folder = tmp_path / "doc_raw" / "demo"
    folder.mkdir(parents=True)
    users = [{"id": "U1", "profile": {"real_name": "Anna Berg"}}]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as package:
        package.writestr("users.json", json.dumps(users))
        package.writestr(
            "pumps/2024-05-01.json", json.dumps([message(0, "The zebra valve shuts.")])
        )
        package.writestr("pumps/2024-05-02.json", '[{"reading": 7}]')
    (folder / "slack.zip").write_bytes(out.getvalue())
    return folder


def test_an_export_is_read_as_it_was_downloaded(export, tmp_path):
    document = DocumentLoader(export.parent, "demo").read("slack.zip/pumps/2024-05-01.json")
    assert document.text.startswith(
        "# #pumps, 2024-05-01 (times in UTC)\n\n- Anna Berg (12:00): The"
    )
    assert (document.entry.type, document.syntax) == ("slack", "md")
    other = DocumentLoader(export.parent, "demo").read("slack.zip/pumps/2024-05-02.json")
    assert (other.entry.type, other.text) == ("json", '[{"reading": 7}]')
    space = hashed_workspace(tmp_path)
    ingest_project(space, "demo")
    prompt = ask(space, "Which valve shuts?").extras.super_prompt
    assert "Anna Berg (12:00): The zebra valve shuts." in prompt


def test_a_chat_is_named_after_who_talks_in_it_and_lists_are_no_documents(tmp_path):
    folder = tmp_path / "demo"
    users = [
        {"id": one, "team_id": "T1", "profile": {"real_name": name}} for one, name in PEOPLE.items()
    ]
    chats = [{"id": "D9", "created": 1, "members": ["U1", "U2"]}]
    group = [{"id": "G7", "name": "mpdm-a--b-1", "created": 1, "members": ["U2", "U1", "U3"]}]
    for name, rows in [("users", users), ("dms", chats), ("mpims", group)]:
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.json").write_text(json.dumps(rows))
    for name in ("D9", "mpdm-a--b-1", "pumps"):
        (folder / name).mkdir()
        (folder / name / "2024-05-01.json").write_text(json.dumps([message(0, "Hello.")]))
    loader = DocumentLoader(tmp_path, "demo")
    titles = {path.partition("/")[0]: text.split(", 2024")[0]
              for _, path, text in loader.load()}  # fmt: skip
    assert titles == {"D9": "# Anna Berg, Tom Ito", "mpdm-a--b-1": "# Tom Ito, Anna Berg, U3",
                      "pumps": "# #pumps"}  # fmt: skip
    assert loader.read("users.json").entry.reason.startswith("junk: ")
    (folder / ".ragignore").write_text("!users.json\n")
    assert "Anna Berg" in loader.read("users.json").text
    (folder / "dms.json").write_text('{"members": 3}')
    assert loader.read("dms.json").text is not None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
    | st.sampled_from(["message", "1714564800.1", "U1", "<@U1|", "```", "channel_join"]),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from(["type", "ts", "thread_ts", "user", "text", "files", "blocks", "subtype",
                         "attachments", "user_profile", "username", "name", "elements"]),
        inner, max_size=6,
    ),
    max_leaves=20,
)  # fmt: skip


@given(JSON)
def test_whatever_a_day_holds_it_is_read_or_refused(value):
    try:
        text, _ = read([value, message(0, "fine")] if not isinstance(value, list) else value)
    except Refusal:
        return
    assert text.startswith("# #pumps")
