"""Retiring a feed: the plan that an operator approves, and the task that carries it out."""
