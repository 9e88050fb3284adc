"""Looking at indexes: maps, neighbours, a page of figures, the context of a text."""
