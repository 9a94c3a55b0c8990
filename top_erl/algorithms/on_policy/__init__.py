"""What BBRL and TCE share."""
