"""Feed files and deployment profiles, read strictly: errors name file, line and key."""
