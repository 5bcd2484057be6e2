"""Decides what a publish includes (deliveries, dates, the parent generation), and prepares staging for it."""
