"""Rebuild: writes the live generation's rows anew in the form of a changed feed file, as a new generation."""
