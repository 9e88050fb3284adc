"""Test specifications made from requirements."""
