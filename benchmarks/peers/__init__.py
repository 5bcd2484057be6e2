"""One module per peer. `registry` imports a module only when its peer runs, because peers need different packages."""
