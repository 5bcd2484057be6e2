"""Evaluates whether a feed is as fresh as its SLA says: the checks, their verdict, and the incidents that are open."""
