"""Commands for the project on Google Cloud: release, doctor and probe. They are not part of a release."""
