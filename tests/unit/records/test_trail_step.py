"""Tests of a trail's steps, whose digests are worked out when they are read."""

import copy
import json

import pytest

from ragstream_core.records.json_form import json_of
from ragstream_core.records.trail_step import TrailStep


def counted(digest):
    asked = []

    def work_out():
        asked.append(digest)
        return digest

    return asked, work_out


def test_a_digest_is_worked_out_once_and_only_if_it_is_read():
    asked, work_out = counted("d")
    step = TrailStep("retrieval", work_out)
    assert (step.op, step[0], len(step), asked) == ("retrieval", "retrieval", 2, [])
    assert (step[1], step.digest, list(step), step[-1:]) == ("d", "d", ["retrieval", "d"], ("d",))
    assert asked == ["d"]


def test_a_step_reads_as_its_pair():
    step = TrailStep("a4", lambda: "d")
    op, digest = step
    assert (op, digest) == ("a4", "d") == step
    assert hash(step) == hash(("a4", "d")) and repr(step) == "('a4', 'd')"
    assert step == copy.deepcopy(step) != TrailStep("a4", "e") and step != ["a4", "d"]
    assert TrailStep.from_json(json.loads(json.dumps(json_of(step)))) == step


@pytest.mark.parametrize("data", ["ab", ["a"], ["a", 1], {"a": "b"}, None])
def test_what_is_no_pair_is_no_step(data):
    with pytest.raises(TypeError, match="no pair of op and digest"):
        TrailStep.from_json(data)
