"""Commands about feeds and the project on Google Cloud: release, plan, doctor, recovery, new feed files.

They are not part of a release.
"""
