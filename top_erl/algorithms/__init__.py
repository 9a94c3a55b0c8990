"""Learning methods, a folder each, and what they share."""
