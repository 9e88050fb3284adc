"""Looking at an index: neighbours, projections to the plane, pictures."""
