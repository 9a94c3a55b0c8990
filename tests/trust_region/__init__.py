"""Tests of the trust-region projections."""
