"""Models of feed files and deployment profiles, and their strict reader. Its errors name file, line and key."""
