"""Commands about feeds and the project on Google Cloud: release, plan, doctor, probe, recovery, new feed files.

They are not part of a release.
"""
