"""The colour of each approach in R19's figures."""

from engine.report.page.figures import COLOURS

PRINTED, WAITING, MP, AQ, BARE, OURS = COLOURS[:6]
