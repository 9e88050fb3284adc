"""Which version of each stage shapes a prompt's bytes: part of every prompt's key.

Raise the number of a stage whenever its result changes for the same inputs, wherever the code lies
that made it change: a formula, a table of words, a template, a fence. Prompts and earlier answers
made before keep their keys, and new ones get new keys. What changes no result raises nothing.
`tests/goldens/test_stages.py` fails where a result changed and no number was raised, and names it.

Indexes, models and settings are not in here: their digests and values are inputs of their own.
"""

from __future__ import annotations

from collections.abc import Mapping

STAGE_VERSIONS: Mapping[str, int] = {
    "a0_preprocessing": 3,
    "a2_prompt_shaper": 6,
    "a1_file_injector": 2,
    "retrieval": 4,
    "reranker": 3,
    "a3_nli_gate": 3,
    "a4_condenser": 5,
    "a2_audit": 3,
    "a5_format_enforcer": 3,
    "prompt_builder": 1,
}
"""Op of the chain → its version."""
