"""HL7 v2 observations (ORU^R01) over MLLP: from monitors and laboratory devices to events."""
