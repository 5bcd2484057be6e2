"""Set-up steps and health checks of the containers in docker-compose.yaml."""
