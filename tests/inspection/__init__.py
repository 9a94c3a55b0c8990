"""Tests of the figures from trained policies."""
