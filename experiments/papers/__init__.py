"""The papers: one file each, longer experiments in files beside them, and the printed figures."""

from . import amkl, bomkl, design, multitask, oks

PAPERS = {module.PAPER.name: module.PAPER for module in (amkl, bomkl, oks, design, multitask)}
