"""The papers: a file for each, files for longer experiments, and the printed figures."""

from . import amkl, bomkl, design, multitask, oks

PAPERS = {module.PAPER.name: module.PAPER for module in (amkl, bomkl, oks, design, multitask)}
