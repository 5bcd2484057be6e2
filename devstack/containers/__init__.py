"""What the containers of docker-compose.yaml need beyond the programs that they run: keys, buckets, health."""
