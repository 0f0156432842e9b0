"""Learners: one file an algorithm or family."""
