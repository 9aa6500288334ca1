"""Experiments of papers, reproduced with the library; not part of the installed package."""
