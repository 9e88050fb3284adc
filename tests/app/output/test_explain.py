"""What `why-not` says that a chunk lacks."""

import re

import pytest

from ragstream_app.output.explain import print_why_not
from ragstream_core.prompts.verdicts import EVIDENCE, PLACES, SHARE, Lack, Verdict, WhyNot


@pytest.mark.parametrize(
    ("lack", "said"),
    [
        (Lack(0.0125, EVIDENCE, "retrieval.evidence=full"), "1.25% of the evidence too late. "),
        (Lack(0.131249, SHARE, "gate.relative=0.28"), "missed the limit by 0.13 ("),
        (Lack(1, PLACES, "gate.keep_top=6"), "missed the limit by 1 place. "),
        (Lack(3, PLACES, "gate.keep_top=8"), "missed the limit by 3 places. "),
    ],
)
def test_what_a_passage_lacks_is_said_with_the_command_that_lets_it_in(capsys, lack, said):
    verdict = Verdict("a.md#0", "demo", "a.md", False, "a4", "rule", "it ended", lack)
    print_why_not(WhyNot("f" * 64, "a.md#0", "", [], [verdict]))
    out = capsys.readouterr().out
    assert said in out and re.search(rf"ragstream rerun f+ a[34] --set {lack.setting}\n", out)
