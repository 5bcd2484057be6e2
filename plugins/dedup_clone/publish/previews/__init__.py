"""What a publish, rollback, bootstrap or changed feed file would do. Previews change nothing and acquire no lease."""
