"""Where a prompt came from, what changed since, and what another choice would have given."""
