"""What a publish, rollback or bootstrap would do. Previews change nothing and acquire no lease."""
