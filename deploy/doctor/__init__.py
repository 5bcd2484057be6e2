"""The doctor: checks a live Google Cloud project without changing it, and says what to fix and by which command."""
