"""The colour of each approach in R19's figures."""

from slackwater.paper import COLOURS

PRINTED, CODE, MP, AQ, BARE, OURS = COLOURS[:6]
