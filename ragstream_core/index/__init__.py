"""The index: rows with validity ranges, one commit, views that never change."""
