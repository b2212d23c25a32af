"""The numbers that R19 prints, table by table. Latencies in ms, accuracies in percent."""

from __future__ import annotations

from typing import Final

EVENTS: Final = {1: (499_982, 62_473), 2: (499_499, 62_409), 3: (999_499, 83_212)}
"""Table 5.2: data set -> events, and those out of order."""
SEQUENCE: Final = "sequence"
MP: Final = "MP-K-slack"
AQ: Final = "AQ-K-slack"
APPROACHES: Final = (SEQUENCE, MP, AQ)

LATENCY_SET_1: Final = {SEQUENCE: (4.09, 10.98), MP: (399.56, 465.37), AQ: (79.04, 133.27)}
"""Table 5.4: overall average latency, and overall average of the maximum latency."""
LEFT_SET_1: Final = 5
"""Table 5.5: events out of order after each approach."""
LATENCY: Final = {
    SEQUENCE: {1: 4.09, 2: 6.52, 3: 398.12},
    MP: {1: 399.56, 2: 1397.52, 3: 62507.29},
    AQ: {1: 79.04, 2: 176.48, 3: 10462.98},
}
"""Table 5.6, by data set."""
ACCURACY: Final = {
    SEQUENCE: {1: 99.99, 2: 99.97, 3: 99.98},
    MP: {1: 99.99, 2: 99.98, 3: 99.99},
    AQ: {1: 99.99, 2: 99.96, 3: 99.98},
}
"""Table 5.7, by data set."""
SOURCES: Final = (1, 2, 5, 10, 20)
LATENCY_BY_SOURCES: Final = {
    SEQUENCE: {1: 398.12, 2: 412.23, 5: 552.72, 10: 652.34, 20: 963.54},
    MP: {1: 62507.29, 2: 67274.41, 5: 72937.56, 10: 66178.05, 20: 78200.31},
    AQ: {1: 10462.98, 2: 12634.21, 5: 13432.69, 10: 16134.3, 20: 19313.43},
}
"""Table 5.8."""
ACCURACY_BY_SOURCES: Final = {
    SEQUENCE: {1: 99.98, 2: 99.97, 5: 99.97, 10: 99.97, 20: 99.97},
    MP: {1: 99.99, 2: 99.98, 5: 99.99, 10: 99.99, 20: 99.99},
    AQ: {1: 99.98, 2: 99.47, 5: 99.12, 10: 99.02, 20: 99.08},
}
"""Table 5.9."""
OFFSETS: Final = {
    "0 ms": (0, 52, 99.97, 52, 99.97),
    "1 ms": (10**6, 502_560, -201.98, 78, 99.95),
    "5 ms": (5 * 10**6, 505_235, -203.58, 75, 99.95),
    "10 ms": (10**7, 539_849, -224.38, 72, 99.96),
    "1 min": (60 * 10**9, 441_979, -165.57, 74, 99.96),
    "1 h": (3600 * 10**9, 18_001, 89.18, 73, 99.96),
}
"""Table 5.10: offset [ns]; out of order and accuracy without time sync, and with it."""
ONE_WINDOW_ERRORS: Final = (0, -0.12, 1.54, -1.53, 0.06, -0.25, 1.43)
"""Table 5.11: expected minus actual average of each window [um/s]."""
THREE_WINDOW_ERRORS: Final = (0, 0.22, 0.21, -0.36, 0.57, -0.60, 0.04)
"""Table 5.12."""
PATTERN: Final = {
    "no offset": (0, None, "detected"),
    "offset 1 s": (10**9, 0, "detected"),
    "offset 1 s, transport delay 0.125 ms": (10**9, 125_000, "detected"),
    "offset 1 s, transport delay 1 ms": (10**9, 10**6, "detected"),
    "offset 1 s, transport delay 10 ms": (10**9, 10**7, "detected"),
    "offset 1 s, transport delay 50 ms": (10**9, 5 * 10**7, "not detected"),
}
"""Table 5.13: offset [ns], delay of the time sync [ns] (None: no sync needed), Query 5.8's answer;
Query 5.9 finds the last one with confidence "UncertainPatternDetection"."""
