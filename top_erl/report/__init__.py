"""Figures and statistics, made from run folders alone."""
