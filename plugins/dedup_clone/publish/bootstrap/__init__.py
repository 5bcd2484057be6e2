"""Bootstrap: an existing table becomes a feed's first generation."""
