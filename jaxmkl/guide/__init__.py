"""Guides."""
