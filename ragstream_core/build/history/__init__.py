"""Conversations of a data root: kept, embedded, published, searched, cleared, backed up."""
