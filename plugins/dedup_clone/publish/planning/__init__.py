"""What a publish includes: deliveries, dates and the parent generation."""
