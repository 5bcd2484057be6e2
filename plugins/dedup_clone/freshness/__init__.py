"""Is the table as fresh as its SLA says? Checks of one feed, their verdict, and the incidents that are open."""
