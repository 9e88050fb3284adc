"""The commands of `ragstream`, a module a group."""
