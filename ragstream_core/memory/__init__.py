"""What is remembered of conversations beyond the journal: pure rules and formats (C-52).

Four names: `Journal` (all turns, verbatim), `EpisodicIndex` (older turns, searched),
`RagstackMemory` (answer cache and rolling digest), `FactMemory` (what a person accepted).
"""
