"""Benchmarks: every figure that counts is a ratio measured in one run."""
