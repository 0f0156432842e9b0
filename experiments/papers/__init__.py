"""The papers: one file each, longer experiments in files beside them, and the printed figures."""

from . import amkl, bomkl, design, multitask, oks
from .paper import Paper, run_paper

__all__ = ["PAPERS", "Paper", "run_paper"]

PAPERS = {
    paper.name: paper
    for paper in (amkl.PAPER, bomkl.PAPER, oks.PAPER, design.PAPER, multitask.PAPER)
}
