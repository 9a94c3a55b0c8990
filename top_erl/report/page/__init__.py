"""The report page: one HTML file with its data, its style, its script and the plotting library inside."""
