"""Drafts: one test case without its id, or why there is none; each is kept and can be made again.

data/specs/<project>/drafts/<key>.json   the draft, its prompt, what a language model was asked

The key covers the pinned inputs of the prompt, so an unchanged requirement is not asked about
twice, and a specification that was interrupted goes on where it was.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstream_core.atomic import replace_text
from ragstream_core.documentation import cases
from ragstream_core.documentation.cases import TestCase, case_from
from ragstream_core.documentation.specification import COVERED
from ragstream_core.errors import IntegrityError
from ragstream_core.orchestration.exchanges import Exchange, exchange_from
from ragstream_core.orchestration.prompt_store import RECORD_NAME
from ragstream_core.records.identity import canonical_json, digest_of, sha256_hex

if TYPE_CHECKING:
    from ragstream_core.build.workspace import Workspace
    from ragstream_core.orchestration.inputs import PromptInputs

DRAFT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Draft:
    """What became of one unit.

    Attributes:
        key: Digest of all that it depends on.
        prompt_key: The prompt with its passages; empty where nothing may be kept.
        case: Without its id; None where there is none.
        state: ``covered``, or why there is no case.
        words: What the source says where there is none.
        exchanges: What a language model was asked, in order.
    """

    key: str
    prompt_key: str
    case: TestCase | None
    state: str = COVERED
    words: str = ""
    exchanges: tuple[Exchange, ...] = ()


def specs_dir(workspace: Workspace, project: str) -> Path:
    """Return where a project's specifications are kept, whether there are any or not.

    Raises:
        InvalidName: The name could lead outside the data root.
    """
    return workspace.data_dir / "specs" / workspace.index_dir(project).name


def draft_key(workspace: Workspace, inputs: PromptInputs, ids: Sequence[str], form: str) -> str:
    """Return the digest of all that a draft depends on."""
    provider = workspace.config.settings.provider
    asked = [provider.backend, provider.base_url, provider.model, provider.script]
    model = asked if form == "llm" else []
    return digest_of([DRAFT_VERSION, _code(), inputs.key, list(ids), form, model])


def keep(workspace: Workspace, project: str, draft: Draft) -> None:
    """Keep a draft.

    Raises:
        OSError: Disk full, permission denied.
    """
    data: dict[str, Any] = {
        "version": DRAFT_VERSION,
        "key": draft.key,
        "prompt_key": draft.prompt_key,
        "case": asdict(draft.case) if draft.case else None,
        "state": draft.state,
        "words": draft.words,
        "exchanges": [json.loads(exchange.data) for exchange in draft.exchanges],
    }
    text = json.dumps(data, ensure_ascii=False, indent=1)
    replace_text(_path(workspace, project, draft.key), text)


def kept(workspace: Workspace, project: str, key: str) -> Draft | None:
    """Return a draft that is kept; None where there is none, or its prompt is gone.

    A damaged one counts as none: it is made again.
    """
    try:
        data = json.loads(_path(workspace, project, key).read_bytes())
        case = case_from(canonical_json(data["case"])) if data["case"] else None
        made = tuple(exchange_from(canonical_json(e).encode("utf-8")) for e in data["exchanges"])
        draft = Draft(data["key"], data["prompt_key"], case, data["state"], data["words"], made)
    except (OSError, ValueError, KeyError, TypeError, IntegrityError):
        return None
    prompt = workspace.store.root / Path(draft.prompt_key).name / RECORD_NAME
    return draft if draft.key == key and prompt.is_file() else None


def _path(workspace: Workspace, project: str, key: str) -> Path:
    return specs_dir(workspace, project) / "drafts" / f"{key}.json"


@functools.cache
def _code() -> str:
    """Return the digest of the rules that write drafts."""
    here = Path(cases.__file__).parent
    return digest_of({f.name: sha256_hex(f.read_bytes()) for f in sorted(here.glob("*.py"))})
