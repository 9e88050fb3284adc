"""The same request makes the same key and the same bytes, today and after the next move."""

import pytest

from tests.goldens.corpus import SCENARIOS
from tests.nets import prompts


@pytest.fixture(scope="module")
def now():
    return prompts.made_now()


def test_every_prompt_has_its_recorded_text(now):
    recorded = prompts.recorded()
    for name, lines in recorded["texts"].items():
        assert now["texts"][name] == lines, name
    different = [
        name
        for name, row in recorded["prompts"].items()
        if now["prompts"][name]["sha256"] != row["sha256"]
    ]
    assert not different, f"other bytes under the same versions of stages: {different}"


def test_every_prompt_has_its_recorded_key(now):
    recorded = prompts.recorded()
    assert now["prompts"].keys() == recorded["prompts"].keys()
    different = [
        name
        for name, row in recorded["prompts"].items()
        if now["prompts"][name]["key"] != row["key"]
    ]
    assert not different, f"the same inputs have another key: {different}"


def test_there_are_thirty_of_five_kinds_and_no_two_alike(now):
    named = [name for names in prompts.KINDS.values() for name in names]
    assert sorted(named) == sorted({*SCENARIOS, *prompts.MORE})
    assert len(named) == 30 and len(prompts.KINDS) == 5
    for part in ("key", "sha256"):
        assert len({row[part] for row in now["prompts"].values()}) == len(named)
