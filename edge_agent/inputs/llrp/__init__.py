"""RFID readers that speak LLRP (EPCglobal Low Level Reader Protocol 1.1): tags to events."""
