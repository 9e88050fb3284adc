"""The parts of S_ctx: facts, constraints, open issues and the final selection."""
