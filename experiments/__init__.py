"""Experiments: the papers' tables beside ours, a tour and a benchmark.

``python -m experiments --help`` lists the commands.
"""
