"""Prepares what the containers in docker-compose.yaml need, and checks their health."""
