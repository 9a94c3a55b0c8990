"""Examples that are also tested."""
