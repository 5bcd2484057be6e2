"""Brings the project to Google Cloud and looks after it there: release, doctor, probe. Never shipped itself."""
