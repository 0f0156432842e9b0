"""Experiments: the papers' tables beside ours, a tour, one's own data, a benchmark.

``python -m experiments --help`` lists what there is.
"""
