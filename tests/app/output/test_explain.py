"""What `why-not` says that a chunk lacks."""

from ragstream_app.output.explain import print_why_not
from ragstream_core.prompts.verdicts import EVIDENCE, Lack, Verdict, WhyNot


def test_behind_the_end_of_the_evidence_the_setting_is_named(capsys):
    lack = Lack(0.0125, EVIDENCE)
    verdict = Verdict("a.md#0", "demo", "a.md", False, "a4", "evidence_ends", "it ended", lack)
    print_why_not(WhyNot("f" * 64, "a.md#0", "", [], [verdict]))
    said = capsys.readouterr().out
    assert "hold 1.25% more of the evidence than is needed" in said
    assert "retrieval.evidence=full" in said
