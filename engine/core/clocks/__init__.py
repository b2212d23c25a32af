"""Clocks of the sources: what syncs say of them, predicted between and corrected after."""
