"""Windowed first-order solver for problems with (nearly) as many outputs as records."""
